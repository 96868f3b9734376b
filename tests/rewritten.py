"""Assertions of all tests are rewritten once a checkout, and not by each worker of its first run.

pytest rewrites a module when it imports it, which takes twelve seconds of the processor for all of them, and keeps the
outcome beside it. Workers import the same modules in the same order at once, so that each would rewrite all.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from _pytest.assertion import rewrite

_FOLDER = Path(__file__).parent
_NAMES = ("test_*.py", "conftest.py")


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """In the process that starts the workers, if they take all tests."""
    is_whole = config.args == config.getini("testpaths") or config.args == [str(config.rootpath)]
    if not hasattr(config, "workerinput") and config.getoption("numprocesses", None) and is_whole:
        rewrite_all(outdated(_FOLDER), config)


def outdated(folder: Path) -> list[Path]:
    """Modules below it whose kept code is of another source, or isn't there."""
    found = {path for name in _NAMES for path in folder.rglob(name)}
    return sorted(path for path in found if _source_of(kept(path)) != importlib.util.source_hash(path.read_bytes()))


def kept(path: Path) -> Path:
    return rewrite.get_cache_dir(path) / f"{path.stem}{rewrite.PYC_TAIL}"


def _source_of(code: Path) -> bytes:
    """The digest of the source of kept code."""
    try:
        with code.open("rb") as file:
            return file.read(16)[8:]
    except OSError:
        return b""


def rewrite_all(modules: Sequence[Path], config: pytest.Config) -> None:
    """By as many processes as there are processors. One that can't be rewritten or kept is left to its import."""
    n = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    children = [os.fork() or _rewrite_and_end(modules[k::n], config) for k in range(min(n, len(modules)))]
    for child in children:
        os.waitpid(child, 0)


def _rewrite_and_end(modules: Sequence[Path], config: pytest.Config) -> int:
    status = 1
    try:
        for path in modules:
            rewrite_one(path, config)
        status = 0
    finally:
        os._exit(status)


def rewrite_one(path: Path, config: pytest.Config) -> None:
    try:
        digest, code = rewrite._rewrite_test(path, config)
    except (SyntaxError, ValueError):  # its import says where
        return
    if rewrite.try_makedirs(kept(path).parent):
        rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, digest, kept(path))
