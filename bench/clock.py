"""Clocks of the benches: seconds of the processor, and one that stands still for data that ends at a fixed instant."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from typing import TypeVar

from bench.wire_counts import ServerTime

T = TypeVar("T")


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """The result, and the seconds that processors spent on it: those of this process and of its database.

    What other processes of the machine take meanwhile doesn't count, and neither does waiting for a disk.
    """
    server = _server()
    database_s = server.seconds()
    own_s = time.process_time()
    result = work()
    own_s = time.process_time() - own_s
    return result, own_s + server.seconds() - database_s


def processor_s(work: Callable[[], object]) -> float:
    """As `timed`, without the result."""
    return timed(work)[1]


@cache
def _server() -> ServerTime:
    return ServerTime()


@contextmanager
def stopped_clock(at: datetime) -> Iterator[None]:
    """Stop the clock of this process, and of those that it starts, at an instant; restore the environment afterwards.

    What another bench measures later in this process must have the clock of its own.
    """
    names = {"FAIRSHARE_TESTING": "1", "FAIRSHARE_CLOCK": at.isoformat()}
    before = {name: os.environ.get(name) for name in names}
    os.environ |= names
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
