"""Find whole days in which a source should have usage and has none.

Charts hatch such days instead of drawing 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from itertools import groupby
from zoneinfo import ZoneInfo

from django.db import connection

from apps.accounts.actor import Actor
from apps.core.errors import NotAllowed
from apps.usage.models import Source
from apps.usage.timeliness import interval_s

_DAY_S = 86_400
# Each hour is one lookup in the index, and the first hit ends the day.
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
    """Days without usage, with the names of the sources that should have reported some.

    A machine may be idle. Days are therefore missing only in a stretch at least as long as the source's contact
    interval, between its first record and one interval before `at`. A source without an interval has no gaps. A
    collected source has none before its last successful collection, which fetched all records until then.
    """
    if actor.user is not None and not actor.user.is_active:
        raise NotAllowed("Sign in to see sources.")
    sources = [source for source in Source.objects.order_by("name") if interval_s(source) is not None]
    n_days = (min(to_on, at.astimezone(zone).date()) - from_on).days + 1
    if not sources or n_days <= 0:
        return {}
    days = [from_on + timedelta(days=step) for step in range(n_days)]
    used, began = _used_days([source.pk for source in sources], days, zone)
    gaps: dict[date, tuple[str, ...]] = {}
    for source in sources:
        every_s, complete_at = interval_s(source) or 0, complete_until(source)
        last = (at - timedelta(seconds=every_s)).astimezone(zone).date()
        first = 0 if source.pk in began else min(used[source.pk], default=n_days)
        if complete_at is not None:
            first = max(first, (complete_at.astimezone(zone).date() - from_on).days + 1)
        for i in _missing(used[source.pk], range(first, n_days), every_s):
            if days[i] < last:
                gaps[days[i]] = (*gaps.get(days[i], ()), source.name)
    return gaps


def complete_until(source: Source) -> datetime | None:
    """Time until which usage is complete, so that hours without usage were idle: the last successful collection."""
    return source.collected_at if source.is_collected else None


def _missing(used: set[int], indices: Sequence[int], every_s: int) -> list[int]:
    missing: list[int] = []
    for is_used, run in groupby(indices, key=used.__contains__):
        stretch = list(run)
        if not is_used and len(stretch) * _DAY_S >= every_s:
            missing += stretch
    return missing


def _used_days(source_ids: Sequence[int], days: Sequence[date], zone: ZoneInfo) -> tuple[dict[int, set[int]], set[int]]:
    """Indices of days with usage by source, and the sources with usage before the first day."""
    starts = [datetime.combine(day, time(), zone).astimezone(UTC) for day in days]
    starts = [start.replace(minute=0, second=0, microsecond=0) for start in starts]
    used: dict[int, set[int]] = {source_id: set() for source_id in source_ids}
    with connection.cursor() as cursor:
        cursor.execute(_USED, [list(source_ids), starts])
        for source_id, n in cursor.fetchall():
            used[source_id].add(n - 1)
        cursor.execute(_BEGAN, [list(source_ids), starts[0]])
        return used, {source_id for (source_id,) in cursor.fetchall()}
