"""Passes of a mortal agent beside any scheduler's commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.agent.fakes import ORDERS

ROOT = Path(__file__).parents[2]


class Passes:
    """In a folder of its own, with the commands of `commands` on PATH."""

    def __init__(self, folder: Path, commands: Path, factors: Mapping[str, float], **orders: Any) -> None:
        self.folder, self.commands = folder, commands
        self.state, self.site = folder / "state", folder / "site.json"
        self.order(factors, **orders)

    def order(self, factors: Mapping[str, float], **orders: Any) -> None:
        self.site.write_text(json.dumps({"orders": {**ORDERS, **orders}, "factors": factors}))

    def argv(self, ends_at: str = "") -> list[str]:
        return [sys.executable, "-m", "tests.agent.killed_agent", str(self.state), str(self.site), ends_at]

    def env(self) -> dict[str, str]:
        return {"PATH": f"{self.commands}:{os.environ['PATH']}", "HOME": str(self.folder), "PYTHONPATH": str(ROOT)}

    def run(self, ends_at: str = "") -> int:
        done = subprocess.run(self.argv(ends_at), env=self.env(), cwd=ROOT, check=False, capture_output=True, text=True)
        assert done.returncode in (0, 1, -9), done.stderr
        return done.returncode

    def report(self) -> Any:
        return json.loads(self.site.with_suffix(".report").read_text())
