"""Believe a clock that jumps ahead only after it has stayed there.

What is deleted, closed or built by a wrong clock can't be undone. So retention, the daily series, months and dates of
shares go by `believed`: the clock, or the last instant before a jump that isn't confirmed yet.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from apps.accounts.models import ClockMark
from apps.core.clock import SKEW

MOST_STEP = timedelta(hours=1)  # between two readings; a site that was off for longer waits for the confirmation, too
CONFIRMED_AFTER = timedelta(minutes=15)
_SHORTEST_STEP = timedelta(minutes=1)  # between two stored readings


def note_clock(at: datetime, *, database_at: datetime) -> None:
    """Store a reading of the clock; workers do so with each sign of life.

    database_at: the database's clock. A clock ahead of it isn't believed, however long it stays there.
    """
    if at > database_at + SKEW:
        return
    mark = ClockMark.objects.filter(pk=ClockMark.ONLY).first()
    if mark is None or at < mark.at - SKEW:
        _store(at)  # the first reading, or the clock was set back: that deletes and builds nothing
    elif at - mark.at <= MOST_STEP:
        if at - mark.at >= _SHORTEST_STEP or mark.ahead_since is not None:
            _store(max(at, mark.at))
    elif mark.ahead_since is None or mark.ahead_at is None or not _follows(at, mark.ahead_at):
        _store(mark.at, ahead_since=at, ahead_at=at)
    elif at - mark.ahead_since >= CONFIRMED_AFTER:
        _store(at)
    elif at - mark.ahead_at >= _SHORTEST_STEP:
        _store(mark.at, ahead_since=mark.ahead_since, ahead_at=at)


def believed(at: datetime) -> datetime:
    """The clock's instant, or the last confirmed one if the clock has jumped ahead of it."""
    confirmed_at = ClockMark.objects.filter(pk=ClockMark.ONLY).values_list("at", flat=True).first()
    return at if confirmed_at is None or at - confirmed_at <= MOST_STEP else confirmed_at


def unconfirmed_jump() -> datetime | None:
    """When a jump ahead was first read that isn't confirmed yet; None without one."""
    return ClockMark.objects.filter(pk=ClockMark.ONLY).values_list("ahead_since", flat=True).first()


def _follows(at: datetime, before: datetime) -> bool:
    """Whether a reading continues the one before it, so that both are of the same jump."""
    return -SKEW <= at - before <= MOST_STEP


def _store(at: datetime, *, ahead_since: datetime | None = None, ahead_at: datetime | None = None) -> None:
    # In one statement: workers read their first clock together, and PostgreSQL logs each refused insert as an error.
    mark = ClockMark(pk=ClockMark.ONLY, at=at, ahead_since=ahead_since, ahead_at=ahead_at)
    ClockMark.objects.bulk_create(
        [mark], update_conflicts=True, unique_fields=["id"], update_fields=["at", "ahead_since", "ahead_at"]
    )
