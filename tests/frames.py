"""Room for the frames of a test's calls, so that the interpreter needn't ask the system for it again and again.

CPython 3.11 and later keep frames in chunks of 16 KB: a call for which the chunk has no room maps another one, and its
return unmaps it. Where the calls of a loop cross that border (330,000 times in one part of the rights matrix), a fifth
of the time goes there. A frame larger than a chunk gets one of its own, and the calls below it use the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
_STACK_SIZE = 33_000  # of 8 bytes: 258 KB, for which a chunk of 512 KB is mapped


def call_with_room(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    return function(*args, **kwargs)


call_with_room.__code__ = call_with_room.__code__.replace(co_stacksize=_STACK_SIZE)
