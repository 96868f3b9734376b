"""Kernels are compiled by one process of a run at a time: the others wait, and load what it stored.

A fresh clone and each change of a kernel compile for a quarter of a minute; all workers would do it side by side.
"""

from __future__ import annotations

import fcntl
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from tests.shared_setup import shared_folder


class OneProcess:
    """A lock among processes; the one that has it may take it again."""

    def __init__(self, path: Path) -> None:
        self._path, self._own, self._depth = path, threading.RLock(), 0

    @contextmanager
    def hold(self) -> Iterator[None]:
        with self._own:
            if self._depth:  # a kernel compiles those that it calls
                yield
                return
            with self._path.open("w") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                self._depth += 1
                try:
                    yield
                finally:
                    self._depth -= 1


def compile_alone(dispatcher: Any, lock: OneProcess) -> None:
    """dispatcher: numba's class, of which `compile` looks for stored machine code and makes what isn't there."""
    plain = dispatcher.compile

    @wraps(plain)
    def compile(self: Any, signature: Any) -> Any:
        with lock.hold():
            return plain(self, signature)

    dispatcher.compile = compile


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Modules of tests have loaded numba by now, if any needs it."""
    if "numba" in sys.modules and hasattr(session.config, "workerinput"):
        from numba.core.dispatcher import Dispatcher

        compile_alone(Dispatcher, OneProcess(shared_folder() / "machine-code.lock"))
