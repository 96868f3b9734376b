"""The clock of a bench whose data ends at a fixed instant."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime


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
