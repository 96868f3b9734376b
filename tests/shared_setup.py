"""Setup that one process does for all pytest-xdist workers of a run; the others wait for its result."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


def shared_folder() -> Path:
    """The run's own, below which each worker has one."""
    folder = Path(os.environ["FAIRSHARE_VAR"])
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


def set_up_once(name: str, make: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    """The JSON result of `make`, which gets the folder of the run and runs once in it."""
    result = shared_folder() / f"{name}.json"
    with result.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not result.exists():
            result.write_text(json.dumps(make(shared_folder())), encoding="utf-8")
    found: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
    return found
