"""Optional acceleration by numba, with bit-identical results without it."""

from __future__ import annotations

import hashlib
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar

_ENGINE = Path(__file__).parent
Function = TypeVar("Function", bound=Callable[..., Any])
_log = logging.getLogger(__name__)

config: Any = None
njit: Any = None
try:
    import numba

    config, njit = numba.config, numba.njit
except ImportError:  # the extra `fast` is not installed
    pass
except Exception:  # such as OSError for LLVM's library, which this system can't load
    _log.exception("numba can't be loaded; this process goes on without machine code")

IS_INSTALLED: bool = njit is not None
_is_on = IS_INSTALLED
_NUMBERS = ("None", "bool", "int", "float")


def is_on() -> bool:
    """Whether compiled kernels are used: numba is installed and not switched off."""
    return _is_on


@contextmanager
def switched(on: bool) -> Iterator[None]:
    """Switch compiled kernels on or off within the block, so that both can be compared in one process."""
    global _is_on
    before = _is_on
    _is_on = on and IS_INSTALLED
    try:
        yield
    finally:
        _is_on = before


def attempt(kernel: Callable[..., int], *arguments: Any) -> int:
    """Run a kernel that writes its results into its arguments and returns 0, or False, where it couldn't.

    0, too, if numba fails to compile it, or to load what it stored: kernels are off from then on in this process.
    """
    global _is_on
    try:
        return kernel(*arguments)
    except Exception:
        _log.exception("numba fails; this process goes on without machine code")
        _is_on = False
        return 0


def compiled(function: Function) -> Function:
    """Compile the function to serial machine code, cached on disk; returned unchanged if numba is not installed.

    Arithmetic is neither fused nor reordered: the compiled function returns the bits of the plain one. Other threads
    run Python meanwhile, so its arguments must be the caller's own, or never change.
    """
    return _compile(function)


def compiled_borrowing(function: Function) -> Function:
    """Compile a function that only borrows its arrays: it allocates nothing and returns a number or nothing.

    No references are counted, which otherwise takes most of the time of small functions that take many arrays. numba
    refuses to compile one that allocates. Raises TypeError if the function is declared to return anything else.
    """
    if function.__annotations__.get("return") not in _NUMBERS:
        raise TypeError(f"{function.__name__} returns more than a number: use @compiled, which counts references.")
    return _compile(function, _nrt=False)  # numba's own name for reference counting, not documented


def _compile(function: Function, **options: Any) -> Function:
    if not IS_INSTALLED:
        return function
    options |= {"error_model": "numpy", "fastmath": False, "nogil": True}
    fast: Any
    with _cached_by_sources(Path(function.__code__.co_filename).parent):
        try:
            fast = njit(cache=True, **options)(function)
        except RuntimeError:  # no writable cache directory: compiled again in each process
            fast = njit(**options)(function)
    return fast  # type: ignore[no-any-return]


@contextmanager
def _cached_by_sources(folder: Path) -> Iterator[None]:
    """Cache machine code of a kernel in this folder by the present state of all sources.

    numba checks the source file of a kernel, but not those of the kernels that it calls.
    """
    before = config.CACHE_DIR
    config.CACHE_DIR = str(Path(before or _ENGINE / "__pycache__") / f"machine-code-{_digest_of_sources(folder)}")
    try:
        yield
    finally:
        config.CACHE_DIR = before


@cache
def _digest_of_sources(folder: Path) -> str:
    """Digest of the engine's sources and of those in a kernel's folder, independent of time and path."""
    digest = hashlib.sha256()
    for place in (_ENGINE,) if folder.is_relative_to(_ENGINE) else (_ENGINE, folder):
        for source in sorted(place.rglob("*.py")):
            digest.update(f"{source.relative_to(place)}\0".encode())
            digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def interpreted(function: Function) -> Function:
    """The plain function behind a compiled one, which calls plain functions instead of compiled ones."""
    if not hasattr(function, "py_func"):
        return function
    return _plain_names(function.__module__)[function.__name__]  # type: ignore[no-any-return]


@cache
def _plain_names(module: str) -> dict[str, Any]:
    """The names of a module, with its compiled functions replaced by plain ones that call each other."""
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
