"""The optional accelerator: numba where it is installed, and the same bits without it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from types import FunctionType
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])

try:
    from numba import njit
except ImportError:  # the extra `fast` is not installed
    njit: Any = None  # type: ignore[no-redef]

IS_INSTALLED: bool = njit is not None
_is_on = IS_INSTALLED


def is_on() -> bool:
    """Whether compiled kernels are to be used: numba is installed and nobody has switched it off."""
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
    try:
        fast = njit(cache=True, **exact)(function)
    except RuntimeError:  # no place to keep machine code: compiled again in each process
        fast = njit(**exact)(function)
    return fast  # type: ignore[no-any-return]


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
