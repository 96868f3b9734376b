"""What is made once for a whole run, whichever of its processes comes first: the others wait for it."""

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


def made_once(name: str, make: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    """What `make` tells of what it made below the run's folder, as JSON can hold it."""
    told = shared_folder() / f"{name}.json"
    with told.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not told.exists():
            told.write_text(json.dumps(make(shared_folder())), encoding="utf-8")
    found: dict[str, Any] = json.loads(told.read_text(encoding="utf-8"))
    return found
