"""Which stretch of time to ask for next: from where the last answer ended, with an overlap for what comes late."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

WIDEST = timedelta(days=1)  # of one question: bounds its answer when much has to be caught up with


class Window(NamedTuple):
    from_at: datetime
    to_at: datetime


def windows(cursor: Mapping[str, Any], terms: Mapping[str, Any], at: datetime) -> Iterator[Window]:
    """From the cursor to now, a day at most each; the first time as far back as the source says."""
    to_s = cursor.get("to_s")
    if to_s is None:
        begin = at - timedelta(seconds=terms["look_back_s"])
    else:
        begin = min(datetime.fromtimestamp(to_s, UTC), at) - timedelta(seconds=terms["overlap_s"])
    begin = begin.replace(microsecond=0)
    while begin < at:
        end = min(begin + max(WIDEST, timedelta(seconds=2 * terms["overlap_s"])), at)
        yield Window(begin, end)
        if end >= at:
            return
        begin = end
