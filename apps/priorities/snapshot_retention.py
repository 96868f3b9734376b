"""How long snapshots are kept.

Live snapshots of a policy follow each other in time, but for those of a clock that was ahead or behind for a while. Of
what contradicts itself, the part with fewer hours is deleted: a clock that is wrong now deletes no true history.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import groupby

from django.db import connection, transaction

from apps.accounts.clock_watch import MOST_STEP, believed
from apps.priorities.models import Snapshot

ALL_FOR = timedelta(hours=2)
HOURLY_FOR = timedelta(days=30)
DAILY_FOR = timedelta(days=365)
# The last snapshot of each hour or day is retained; the newest live snapshot of a policy is never deleted.
_PRUNE = """
WITH aged AS (
    SELECT id, policy_id, is_live, is_kept, computed_at,
        row_number() OVER (PARTITION BY policy_id, is_live ORDER BY id DESC) AS newness,
        row_number() OVER (
            PARTITION BY policy_id, is_live, date_bin('1 hour', computed_at, 'epoch') ORDER BY id DESC) AS in_hour,
        row_number() OVER (
            PARTITION BY policy_id, is_live, date_bin('1 day', computed_at, 'epoch') ORDER BY id DESC) AS in_day
    FROM priorities_snapshot)
DELETE FROM priorities_snapshot WHERE id IN (
    SELECT id FROM aged
    WHERE NOT is_kept AND NOT (is_live AND newness = 1) AND (
        computed_at < %(daily)s
        OR computed_at < %(hourly)s AND in_day > 1
        OR computed_at < %(all)s AND in_hour > 1))
"""


# Places that a recompute is about to refer to have just been marked as used, and their row is locked.
_PRUNE_PLACES = """
DELETE FROM priorities_storedplaces AS stored WHERE used_at < %s
    AND NOT EXISTS (SELECT FROM priorities_snapshot WHERE places_id = stored.digest)
"""

_WITH_STEPS_BACK = """
SELECT DISTINCT policy_id FROM (
    SELECT policy_id, as_of, lag(as_of) OVER (PARTITION BY policy_id ORDER BY id) AS before_at
    FROM priorities_snapshot WHERE is_live) AS live
WHERE as_of < before_at - make_interval(secs => %s)
"""
_HOUR_S = 3600


def prune_snapshots(*, at: datetime) -> int:
    """Delete snapshots past their retention or out of order, and places of accounts without any; return the number of
    snapshots.
    """
    at = believed(at)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_PRUNE, {"all": at - ALL_FOR, "hourly": at - HOURLY_FOR, "daily": at - DAILY_FOR})
        n_pruned = int(cursor.rowcount)
        cursor.execute(_WITH_STEPS_BACK, [MOST_STEP.total_seconds()])
        n_pruned += sum(_delete_out_of_order(policy_id) for (policy_id,) in cursor.fetchall())
        cursor.execute(_PRUNE_PLACES, [at - ALL_FOR])
        return n_pruned


def _delete_out_of_order(policy_id: int) -> int:
    """Delete live snapshots that don't follow those before them, but not the newest; return their number."""
    rows = Snapshot.objects.filter(policy_id=policy_id, is_live=True).order_by("id").values_list("id", "as_of")
    by_hour = [
        (hour, [id for id, _as_of in group])
        for hour, group in groupby(rows, key=lambda row: int(row[1].timestamp()) // _HOUR_S)
    ]
    kept = _longest_in_order([hour for hour, _ids in by_hour]) | {len(by_hour) - 1}
    strays = [id for place, (_hour, ids) in enumerate(by_hour) if place not in kept for id in ids]
    return Snapshot.objects.filter(pk__in=strays, is_kept=False).delete()[1].get(Snapshot._meta.label, 0)


def _longest_in_order(hours: Sequence[int]) -> set[int]:
    """Places of the longest sequence of hours that never goes back; of equally long ones, of the one that ends last."""
    last_hours: list[int] = []  # the least last hour of a sequence, by its length
    last_places: list[int] = []
    before: list[int | None] = []
    for place, hour in enumerate(hours):
        length = bisect_right(last_hours, hour)
        before.append(last_places[length - 1] if length else None)
        last_hours[length : length + 1], last_places[length : length + 1] = [hour], [place]
    kept: set[int] = set()
    at: int | None = last_places[-1] if last_places else None
    while at is not None:
        kept.add(at)
        at = before[at]
    return kept
