"""The optional accelerator: numba where it is installed, bit-identical without it."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar

_ENGINE = Path(__file__).parent
Function = TypeVar("Function", bound=Callable[..., Any])

try:
    import numba

    config: Any = numba.config
    njit: Any = numba.njit
except ImportError:  # the extra `fast` is not installed
    config = njit = None

IS_INSTALLED: bool = njit is not None
_is_on = IS_INSTALLED


def is_on() -> bool:
    """Whether compiled kernels are to be used: numba is installed and not disabled."""
    return _is_on


@contextmanager
def switched(on: bool) -> Iterator[None]:
    """Compiled kernels on or off within the block, so that both ways can be compared in one process."""
    global _is_on
    before = _is_on
    _is_on = on and IS_INSTALLED
    try:
        yield
    finally:
        _is_on = before


def compiled(function: Function) -> Function:
    """The function as serial machine code, kept on disk between processes; unchanged where numba is not installed.

    No fused or reordered arithmetic: the compiled function gives the bits of the plain one.
    """
    if not IS_INSTALLED:
        return function
    exact: dict[str, Any] = {"error_model": "numpy", "fastmath": False}
    fast: Any
    with _kept_beside_its_sources():
        try:
            fast = njit(cache=True, **exact)(function)
        except RuntimeError:  # no place to keep machine code: compiled again in each process
            fast = njit(**exact)(function)
    return fast  # type: ignore[no-any-return]


@contextmanager
def _kept_beside_its_sources() -> Iterator[None]:
    """numba watches the file of a kernel, not those of the kernels it calls: a folder for each state of all sources."""
    before = config.CACHE_DIR
    if not before:
        config.CACHE_DIR = str(_ENGINE / "__pycache__" / f"machine-code-{_state_of_sources()}")
    try:
        yield
    finally:
        config.CACHE_DIR = before


@cache
def _state_of_sources() -> str:
    """Digest of the sources alone, independent of time and path."""
    found = hashlib.sha256()
    for source in sorted(_ENGINE.rglob("*.py")):
        found.update(f"{source.relative_to(_ENGINE)}\0".encode())
        found.update(source.read_bytes())
    return found.hexdigest()[:16]


def interpreted(function: Function) -> Function:
    """The plain function behind a compiled one, calling plain functions in place of compiled ones: its slow twin."""
    if not hasattr(function, "py_func"):
        return function
    return _plain_names(function.__module__)[function.__name__]  # type: ignore[no-any-return]


@cache
def _plain_names(module: str) -> dict[str, Any]:
    """The names of a module, with plain functions that see each other in place of the compiled ones."""
    names = dict(vars(sys.modules[module]))
    for name, value in list(names.items()):
        source: Any = getattr(value, "py_func", None)
        if source is None:
            continue
        if source.__module__ == module:
            names[name] = FunctionType(source.__code__, names, source.__name__, source.__defaults__)
        else:
            names[name] = _plain_names(source.__module__)[source.__name__]
    return names
