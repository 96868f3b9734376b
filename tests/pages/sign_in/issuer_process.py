"""Starts the issuer of `issuer.py`, and sets whom it signs in."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).parent / "issuer.py"
CLIENT_ID, CLIENT_SECRET = "fairshare", "between us"
EVA: dict[str, Any] = {
    "sub": "17",
    "preferred_username": "eva",
    "given_name": "Eva",
    "family_name": "Kling",
    "groups": ["physics"],
}


def run_issuer(folder: Path) -> Iterator[tuple[Path, str]]:
    """Its folder and its address, while it runs."""
    command = [sys.executable, str(PROGRAM), str(folder), CLIENT_ID, CLIENT_SECRET]
    program = subprocess.Popen(command)
    until = time.monotonic() + 20
    while not (folder / "address").exists():
        assert program.poll() is None
        assert time.monotonic() < until, "the issuer does not start"
        time.sleep(0.05)
    yield folder, (folder / "address").read_text(encoding="utf-8")
    program.terminate()
    program.wait(10)


def write_person(folder: Path, claims: dict[str, Any], wrong: str = "", **changes: Any) -> None:
    """Whom the issuer signs in, and how its documents differ (`issuer.py`)."""
    (folder / "person.json").write_text(json.dumps({"claims": claims, "wrong": wrong, **changes}), encoding="utf-8")
