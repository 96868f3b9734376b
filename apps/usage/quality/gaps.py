"""Whole days without usage where a source's interval makes some expected: charts hatch them instead of drawing 0."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from itertools import groupby
from zoneinfo import ZoneInfo

from django.db import connection

from apps.accounts.actor import Actor
from apps.core.errors import NotAllowed
from apps.usage.models import Source

LATE_INTERVALS = 2  # one may be missed


def lateness(source: Source, at: datetime) -> float | None:
    """Age of the newest record in expected intervals; None without an interval. Above LATE_INTERVALS it is late.

    A source without records is as old as itself.
    """
    if not source.expected_every_s:
        return None
    return (at - (source.last_record_end_at or source.created_at)).total_seconds() / source.expected_every_s


_DAY_S = 86_400
# Every hour is probed by exactly what the index holds, and the first hit ends the day.
_USED = """
SELECT s.id, d.n FROM unnest(%s::bigint[]) AS s(id)
CROSS JOIN unnest(%s::timestamptz[]) WITH ORDINALITY AS d(starts_at, n)
CROSS JOIN LATERAL (
    SELECT 1 FROM generate_series(d.starts_at, d.starts_at + interval '23 hours', interval '1 hour') AS h(at)
    WHERE EXISTS (SELECT 1 FROM usage_bucket b WHERE b.hour_at = h.at AND b.source_id = s.id
                  AND (b.cpu_s > 0 OR b.jobs > 0)) LIMIT 1
) AS one
"""
_BEGAN = """
SELECT s.id FROM unnest(%s::bigint[]) AS s(id) CROSS JOIN LATERAL
    (SELECT 1 FROM usage_bucket b WHERE b.source_id = s.id AND b.hour_at < %s LIMIT 1) AS one
"""


def list_gaps(*, from_on: date, to_on: date, at: datetime, zone: ZoneInfo, actor: Actor) -> dict[date, tuple[str, ...]]:
    """Days, and the names of the sources that are expected to have usage on them and delivered none.

    A machine may be idle, so only stretches of at least the interval at which a source's records are expected count,
    between its first record and one interval before `at`. A source without such an interval has no gaps.
    """
    if actor.user is not None and not actor.user.is_active:
        raise NotAllowed("Sign in to see sources.")
    sources = list(
        Source.objects.exclude(expected_every_s=None).order_by("name").only("pk", "name", "expected_every_s")
    )
    n_days = (min(to_on, at.astimezone(zone).date()) - from_on).days + 1
    if not sources or n_days <= 0:
        return {}
    days = [from_on + timedelta(days=step) for step in range(n_days)]
    used, began = _used_days([source.pk for source in sources], days, zone)
    found: dict[date, tuple[str, ...]] = {}
    for source in sources:
        last = (at - timedelta(seconds=source.expected_every_s or 0)).astimezone(zone).date()
        first = 0 if source.pk in began else min(used[source.pk], default=n_days)
        for place in _missing(used[source.pk], range(first, n_days), source.expected_every_s or 0):
            if days[place] < last:
                found[days[place]] = (*found.get(days[place], ()), source.name)
    return found


def _missing(used: set[int], places: Sequence[int], every_s: int) -> list[int]:
    missing: list[int] = []
    for is_used, run in groupby(places, key=used.__contains__):
        stretch = list(run)
        if not is_used and len(stretch) * _DAY_S >= every_s:
            missing += stretch
    return missing


def _used_days(source_ids: Sequence[int], days: Sequence[date], zone: ZoneInfo) -> tuple[dict[int, set[int]], set[int]]:
    """Places of days with usage by source, and which sources had some before the first day."""
    starts = [datetime.combine(day, time(), zone).astimezone(UTC) for day in days]
    starts = [start.replace(minute=0, second=0, microsecond=0) for start in starts]
    used: dict[int, set[int]] = {source_id: set() for source_id in source_ids}
    with connection.cursor() as cursor:
        cursor.execute(_USED, [list(source_ids), starts])
        for source_id, n in cursor.fetchall():
            used[source_id].add(n - 1)
        cursor.execute(_BEGAN, [list(source_ids), starts[0]])
        return used, {source_id for (source_id,) in cursor.fetchall()}
