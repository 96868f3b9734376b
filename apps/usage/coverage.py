"""Whether a source's usage is complete: the hours of a day that have some, and those that should."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from zoneinfo import ZoneInfo

from django.db import connection

from apps.accounts.actor import Actor
from apps.errors import NotAllowed
from apps.usage.models import Source

HOUR = timedelta(hours=1)


class Coverage(StrEnum):
    """One day of one source."""

    FULL = "full"
    PART = "part"
    HOLE = "hole"
    OFF = "off"  # nothing expected, nothing there


@dataclass(frozen=True, slots=True)
class Day:
    """`n_hours` had usage, `n_expected` should have."""

    on: date
    n_hours: int
    n_expected: int
    state: Coverage


def list_days(
    *, sources: Sequence[Source], n_days: int, at: datetime, zone: ZoneInfo, actor: Actor
) -> dict[int, list[Day]]:
    """The last `n_days` days up to `at`, by source id. Says nothing about whose usage it was.

    A source without a rhythm owes nothing, so its days are full or off. Others owe every hour from their first
    one up to one interval before `at`.
    """
    if actor.user is not None and not actor.user.is_active:
        raise NotAllowed("Sign in to see sources.")
    first_on = at.astimezone(zone).date() - timedelta(days=n_days - 1)
    days = [first_on + timedelta(days=step) for step in range(n_days)]
    from_at = datetime.combine(first_on, time(), zone).astimezone(UTC)
    hours, began_before = _hours_with_usage([source.pk for source in sources], from_at, at)
    return {
        source.pk: _days_of(source, days, hours.get(source.pk, []), source.pk in began_before, at, zone)
        for source in sources
    }


def day_state(*, n_hours: int, n_expected: int) -> Coverage:
    if n_expected == 0:
        return Coverage.FULL if n_hours else Coverage.OFF
    if n_hours == 0:
        return Coverage.HOLE
    return Coverage.FULL if n_hours >= n_expected else Coverage.PART


def _days_of(
    source: Source, days: Sequence[date], hours: Sequence[datetime], began_before: bool, at: datetime, zone: ZoneInfo
) -> list[Day]:
    found = Counter(hour.astimezone(zone).date() for hour in hours)
    expected: Counter[date] = Counter()
    if source.expected_every_s and (hours or began_before):
        hour = datetime.combine(days[0], time(), zone).astimezone(UTC) if began_before else min(hours)
        end = at - timedelta(seconds=source.expected_every_s)
        while hour + HOUR <= end:
            expected[hour.astimezone(zone).date()] += 1
            hour += HOUR
    return [Day(on, found[on], expected[on], day_state(n_hours=found[on], n_expected=expected[on])) for on in days]


def _hours_with_usage(
    source_ids: Sequence[int], from_at: datetime, to_at: datetime
) -> tuple[dict[int, list[datetime]], set[int]]:
    """One probe an hour and source (LATERAL with LIMIT 1): the cost does not grow with the number of accounts."""
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
