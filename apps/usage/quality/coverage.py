"""Find hours in which a source should have usage and has none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from itertools import groupby
from zoneinfo import ZoneInfo

from django.db import connection

from apps.accounts.actor import Actor
from apps.core.errors import NotAllowed
from apps.usage.models import Source
from apps.usage.quality.missing_days import complete_until
from apps.usage.timeliness import interval_s

HOUR = timedelta(hours=1)


class Coverage(StrEnum):
    """Coverage of one day by one source."""

    FULL = "full"
    PART = "part"
    HOLE = "hole"
    OFF = "off"  # no usage, and none missing


@dataclass(frozen=True, slots=True)
class Day:
    """n_hours: hours with usage. n_missing: hours without, in a gap at least as long as the source's interval."""

    on: date
    n_hours: int
    n_missing: int
    state: Coverage


@dataclass(frozen=True, slots=True)
class SourceDays:
    """Daily coverage of a source, oldest day first."""

    slug: str
    name: str
    days: Sequence[Day]

    def count(self, *states: Coverage) -> int:
        return sum(day.state in states for day in self.days)


def list_days(
    *, sources: Sequence[Source], n_days: int, at: datetime, zone: ZoneInfo, actor: Actor
) -> dict[int, list[Day]]:
    """Coverage of the last `n_days` days up to `at`, by source id; without accounts.

    A machine may be idle for an hour. An hour without usage is therefore missing only in a gap at least as long as the
    contact interval. A source without an interval misses nothing, and a collected one nothing before its last
    successful collection.
    """
    if actor.user is not None and not actor.user.is_active:
        raise NotAllowed("Sign in to see sources.")
    first_on = at.astimezone(zone).date() - timedelta(days=n_days - 1)
    days = [first_on + timedelta(days=step) for step in range(n_days)]
    from_at = datetime.combine(first_on, time(), zone).astimezone(UTC)
    hours, began_before = _hours_with_usage([source.pk for source in sources], from_at, at)
    days_by_source = {}
    for source in sources:
        used = hours.get(source.pk, [])
        first_at = from_at if source.pk in began_before else min(used, default=at)
        complete_at = complete_until(source)
        if complete_at is not None:
            first_at = max(first_at, complete_at.replace(minute=0, second=0, microsecond=0))
        missing = missing_hours(used=used, first_at=first_at, at=at, every_s=interval_s(source))
        days_by_source[source.pk] = _days(days, used, missing, zone)
    return days_by_source


def missing_hours(*, used: Sequence[datetime], first_at: datetime, at: datetime, every_s: int | None) -> list[datetime]:
    """Hours without usage from `first_at` to one interval before `at`, in gaps of at least one interval."""
    if not every_s:
        return []
    known = set(used)
    end_at = at - timedelta(seconds=every_s)
    n_hours = max(0, int((end_at - first_at) / HOUR))
    missing = []
    for is_used, gap in groupby((first_at + step * HOUR for step in range(n_hours)), key=known.__contains__):
        lost = list(gap)
        if not is_used and len(lost) * 3600 >= every_s:
            missing += lost
    return missing


def day_state(*, n_hours: int, n_missing: int) -> Coverage:
    if n_missing:
        return Coverage.PART if n_hours else Coverage.HOLE
    return Coverage.FULL if n_hours else Coverage.OFF


def _days(days: Sequence[date], used: Sequence[datetime], missing: Sequence[datetime], zone: ZoneInfo) -> list[Day]:
    there, lost = (Counter(hour.astimezone(zone).date() for hour in hours) for hours in (used, missing))
    return [Day(on, there[on], lost[on], day_state(n_hours=there[on], n_missing=lost[on])) for on in days]


def _hours_with_usage(
    source_ids: Sequence[int], from_at: datetime, to_at: datetime
) -> tuple[dict[int, list[datetime]], set[int]]:
    """One lookup per hour and source (LATERAL with LIMIT 1): the cost does not grow with the number of accounts."""
    hours: dict[int, list[datetime]] = {}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT s.id, h.at FROM unnest(%s::bigint[]) AS s(id)"
            " CROSS JOIN generate_series(date_trunc('hour', %s::timestamptz), %s::timestamptz, '1 hour') AS h(at)"
            " CROSS JOIN LATERAL (SELECT 1 FROM usage_bucket b"
            " WHERE b.hour_at = h.at AND b.source_id = s.id AND (b.cpu_s > 0 OR b.jobs > 0) LIMIT 1) AS one"
            " ORDER BY 1, 2",
            [list(source_ids), from_at, to_at],
        )
        for source_id, hour in cursor.fetchall():
            hours.setdefault(source_id, []).append(hour)
        cursor.execute(
            "SELECT s.id FROM unnest(%s::bigint[]) AS s(id) CROSS JOIN LATERAL"
            " (SELECT 1 FROM usage_bucket b WHERE b.source_id = s.id AND b.hour_at < %s LIMIT 1) AS one",
            [list(source_ids), from_at],
        )
        return hours, {source_id for (source_id,) in cursor.fetchall()}
