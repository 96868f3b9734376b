"""How far the clock of a source is ahead of ours: records in the future are rejected, and the skew is stored."""

from __future__ import annotations

from datetime import datetime

import numpy as np

from apps.usage.parsers.base import (
    NO_TIME,
    Flags,
    RecordBatch,
    Rejection,
    RunEvent,
    instant,
    microseconds,
)

AHEAD = "ahead_of_clock"
_SKEW_MAX_AGE_S = 86_400.0  # older records don't show the current skew of their source's clock
_NAMES = ("submit", "start", "end")


def ahead_of_clock(batch: RecordBatch, *, tolerance_s: int, at: datetime) -> Flags:
    """Which records were submitted, started or ended further in the future than the tolerance."""
    return _newest_us(batch) > microseconds(at) + tolerance_s * 1_000_000


def ahead_rejections(batch: RecordBatch, ahead: Flags, *, at: datetime) -> list[Rejection]:
    """One rejection for each record in the future, naming its latest time."""
    rejections = []
    for row in np.flatnonzero(ahead).tolist():
        times = zip(_NAMES, (batch.submit_us[row], batch.start_us[row], batch.end_us[row]), strict=True)
        name, us = max(times, key=lambda time: int(time[1]))
        ahead_s = (int(us) - microseconds(at)) / 1e6
        message = (
            f"{name} ({instant(int(us))}) is {ahead_s:.0f} s in the future: check the source's clock and time zone."
        )
        job = batch.job[row].decode("utf-8", "replace")
        rejections.append(Rejection(int(batch.line[row]), AHEAD, message, f"job {job}"[:120]))
    return rejections


def ahead_events(batch: RecordBatch, *, tolerance_s: int, at: datetime) -> list[RunEvent]:
    """Lines of runs further in the future than the tolerance."""
    latest_us = microseconds(at) + tolerance_s * 1_000_000
    return [event for event in batch.events if event.at_us > latest_us]


def ahead_rejection(event: RunEvent, *, at: datetime) -> Rejection:
    ahead_s = (event.at_us - microseconds(at)) / 1e6
    message = (
        f"Its time ({instant(event.at_us)}) is {ahead_s:.0f} s in the future: check the source's clock and time zone."
    )
    return Rejection(event.line, AHEAD, message, f"job {event.job}"[:120])


def clock_skew_s(batch: RecordBatch, *, at: datetime) -> float | None:
    """Seconds by which the newest instant is in the future, at least 0; None if it is too old to show the clock's
    skew.
    """
    ahead_s = (int(_newest_us(batch).max(initial=NO_TIME // 2)) - microseconds(at)) / 1e6
    return max(ahead_s, 0.0) if ahead_s > -_SKEW_MAX_AGE_S else None


def _newest_us(batch: RecordBatch) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.maximum(np.maximum(batch.submit_us, batch.start_us), batch.end_us)
