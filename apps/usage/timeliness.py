"""Decide whether a usage source is late, from its last contact alone.

*Last contact*: when the source last sent anything, or was last collected successfully, even without new records.
*Newest record*: the end of its newest job, which is old if no job ended recently; it is not used here. Pages,
readiness, metrics, notices and the freshness of numbers all use this module.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

LATE_INTERVALS = 2  # one missed contact is allowed
LONG_LATE = 4  # as a multiple of the allowed delay


class Contacted(Protocol):
    """The fields of a source that decide its timeliness: a Source row or a copy of it."""

    @property
    def expected_every_s(self) -> int | None: ...
    @property
    def collect_every_s(self) -> int | None: ...
    @property
    def is_collected(self) -> bool: ...
    @property
    def is_paused(self) -> bool: ...
    @property
    def collected_at(self) -> datetime | None: ...
    @property
    def collect_error(self) -> str: ...
    @property
    def last_received_at(self) -> datetime | None: ...
    @property
    def created_at(self) -> datetime: ...


class Timeliness(StrEnum):
    ON_TIME = "on_time"
    LATE = "late"
    NEVER_COLLECTED = "never_collected"  # collection failed or is overdue, and never succeeded
    NO_CONTACT = "no_contact"  # no contact yet, and none overdue
    BY_HAND = "by_hand"  # no interval is set: never late
    PAUSED = "paused"


def last_contact_at(source: Contacted) -> datetime | None:
    """Time of the last contact, None if there was none."""
    collected_at = source.collected_at if source.is_collected else None
    return max((at for at in (source.last_received_at, collected_at) if at is not None), default=None)


def interval_s(source: Contacted) -> int | None:
    """Expected seconds between contacts: the expected interval, at least the collection interval; None if neither is
    set.
    """
    collect_every_s = source.collect_every_s if source.is_collected else None
    return max((every_s for every_s in (source.expected_every_s, collect_every_s) if every_s), default=None)


def lateness(source: Contacted, at: datetime) -> float | None:
    """Age of the last contact in intervals, None without an interval. Above LATE_INTERVALS the source is late.

    For a source without contact, the time since it was created.
    """
    every_s = interval_s(source)
    if every_s is None:
        return None
    return (at - (last_contact_at(source) or source.created_at)).total_seconds() / every_s


def timeliness(source: Contacted, at: datetime, *, grace: timedelta = timedelta(0)) -> Timeliness:
    """State of a source at `at`.

    grace: added to the allowed delay.
    """
    if source.is_paused:
        return Timeliness.PAUSED
    every_s, contact_at = interval_s(source), last_contact_at(source)
    if every_s is None:
        return Timeliness.NO_CONTACT if contact_at is None else Timeliness.BY_HAND
    allowed = timedelta(seconds=LATE_INTERVALS * every_s) + grace
    is_overdue = at - (contact_at or source.created_at) > allowed
    if contact_at is None and source.is_collected and (is_overdue or source.collect_error):
        return Timeliness.NEVER_COLLECTED
    if is_overdue:
        return Timeliness.LATE
    return Timeliness.ON_TIME if contact_at else Timeliness.NO_CONTACT


def is_behind(state: Timeliness) -> bool:
    return state in (Timeliness.LATE, Timeliness.NEVER_COLLECTED)


def is_collection_failing(source: Contacted) -> bool:
    """Whether the last collection failed."""
    return source.is_collected and bool(source.collect_error)


def is_long_late(source: Contacted, at: datetime, *, grace: timedelta = timedelta(0)) -> bool:
    """Whether the last contact is so long overdue that numbers are likely wrong, not only old."""
    allowed = timedelta(seconds=LATE_INTERVALS * (interval_s(source) or 0)) + grace
    return at - (last_contact_at(source) or source.created_at) > LONG_LATE * allowed
