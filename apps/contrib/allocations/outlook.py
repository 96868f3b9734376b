"""How an allocation will end if use continues: used, due, at its end, and the day on which it runs out. Pure.

    rate    = used in the last 28 days of it / hours of these days        (from its first day, if that is later)
    at_end  = used + rate · hours left
    lost    = Σ over parts that end earlier, the first to end paying first: left of the part when it ends
    runs out at now + (allocated + coming − lost − used) / rate, if that is before its end
    unused  = allocated + coming − at_end, if that is above `lost`, else `lost`

All in hours of one unit; coming: what other allocations that begin later add before its end; parts: of allocations
that are valid together, those that end before the last of them. In its first 7 days there is no forecast. It runs out
early if `at_end` is more than 5 % above allocated + coming − lost, and otherwise won't be used if more than 10 % of
allocated + coming is unused; between them it is on course.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from apps.contrib.allocations.periods import HOUR

RECENT = timedelta(days=28)
LEAST_KNOWN = timedelta(days=7)
OVER_PART = 0.05
UNUSED_PART = 0.10
_FURTHEST_HOURS = 1_000 * 8_766.0  # a day that far ahead is none

State = Literal["used_up", "runs_out", "unused", "early", "on_course", "not_begun", "ended", "unknown"]
# In this order a reader needs them.
STATES: tuple[State, ...] = ("used_up", "runs_out", "unused", "unknown", "early", "on_course", "not_begun", "ended")


@dataclass(frozen=True, slots=True)
class Use:
    """What was used of an allocation in [begins_at, ends_at); None: not known.

    recent: all that was used since `recent_from`. coming: added before its end by allocations that begin later.
    parts: end and hours left, at least 0, of those of it that end before `ends_at`, by end.
    """

    begins_at: datetime
    ends_at: datetime
    allocated: float
    used: float | None
    recent: float | None
    recent_from: datetime
    coming: float = 0.0
    parts: tuple[tuple[datetime, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Outlook:
    """rate: in units an hour. at_end, unused, runs_out_at: None where nothing can be said."""

    state: State
    rate: float | None = None
    at_end: float | None = None
    unused: float | None = None
    runs_out_at: datetime | None = None


def recent_from(begins_at: datetime, now: datetime) -> datetime:
    """Since when the use of an allocation counts for its rate."""
    return max(begins_at, now - RECENT)


def outlook_of(use: Use, now: datetime) -> Outlook:
    if now < use.begins_at:
        return Outlook("not_begun")
    if use.used is None or use.recent is None:
        return Outlook("ended" if now >= use.ends_at else "unknown")
    if now >= use.ends_at:
        return Outlook("ended", at_end=use.used, unused=max(use.allocated - use.used, 0.0))
    hours_left, known_hours = (use.ends_at - now) / HOUR, (now - use.recent_from) / HOUR
    is_early = now - use.begins_at < LEAST_KNOWN
    rate = use.recent / known_hours if known_hours > 0 and not is_early else None
    at_end = None if rate is None else use.used + rate * hours_left
    if use.used >= use.allocated:
        return Outlook("used_up", rate, at_end, None if at_end is None else 0.0)
    if rate is None or at_end is None:
        return Outlook("early")
    whole = use.allocated + use.coming
    lost = min(_lost(use.parts, rate, now), use.allocated - use.used)
    usable = whole - lost
    hours = (usable - use.used) / rate if rate > 0 else _FURTHEST_HOURS
    runs_out_at = now + hours * HOUR if hours < min(hours_left, _FURTHEST_HOURS) else None
    unused = max(whole - at_end, lost)
    if at_end > usable * (1 + OVER_PART):
        return Outlook("runs_out", rate, at_end, unused, runs_out_at)
    state: State = "unused" if unused > whole * UNUSED_PART else "on_course"
    return Outlook(state, rate, at_end, unused, runs_out_at)


def _lost(parts: tuple[tuple[datetime, float], ...], rate: float, now: datetime) -> float:
    """Hours that parts still have when they end; a part is used once those that end earlier are used up or over."""
    lost, at = 0.0, now
    for ends_at, left in parts:
        usable = max(rate, 0.0) * ((ends_at - at) / HOUR)
        if left < usable:
            at += left / rate * HOUR
        else:
            lost, at = lost + left - usable, ends_at
    return lost
