"""Clocks of sources that run ahead of ours: records of the future are rejected, and the skew is stored."""

from __future__ import annotations

from datetime import datetime

import numpy as np

from apps.usage.parsers.base import NO_TIME, Flags, RecordBatch, Rejection, instant, microseconds

CODE = "ahead_of_clock"
_TELLS_S = 86_400.0  # records older than a day say nothing about how their source's clock goes now
_NAMES = ("submit", "start", "end")


def ahead_of_clock(batch: RecordBatch, *, tolerance_s: int, at: datetime) -> Flags:
    """Which records were submitted, started or ended further ahead of our clock than is tolerated."""
    return _newest_us(batch) > microseconds(at) + tolerance_s * 1_000_000


def refusals(batch: RecordBatch, ahead: Flags, *, at: datetime) -> list[Rejection]:
    """Why each of them was rejected."""
    found = []
    for row in np.flatnonzero(ahead).tolist():
        times = zip(_NAMES, (batch.submit_us[row], batch.start_us[row], batch.end_us[row]), strict=True)
        name, us = max(times, key=lambda time: int(time[1]))
        ahead_s = (int(us) - microseconds(at)) / 1e6
        message = (
            f"{name} ({instant(int(us))}) is {ahead_s:.0f} s ahead of our clock: check the source's clock and zone."
        )
        job = batch.job[row].decode("utf-8", "replace")
        found.append(Rejection(int(batch.line[row]), CODE, message, f"job {job}"[:120]))
    return found


def skew_of(batch: RecordBatch, *, at: datetime) -> float | None:
    """Seconds by which the newest instant lies ahead of our clock, 0 when it doesn't; None: too old to know."""
    ahead_s = (int(_newest_us(batch).max(initial=NO_TIME // 2)) - microseconds(at)) / 1e6
    return max(ahead_s, 0.0) if ahead_s > -_TELLS_S else None


def _newest_us(batch: RecordBatch) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.maximum(np.maximum(batch.submit_us, batch.start_us), batch.end_us)
