"""How long snapshots are kept."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import connection, transaction

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


def prune_snapshots(*, at: datetime) -> int:
    """Delete snapshots past their retention, and places of accounts without any; return the number of snapshots."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(_PRUNE, {"all": at - ALL_FOR, "hourly": at - HOURLY_FOR, "daily": at - DAILY_FOR})
        n_pruned = int(cursor.rowcount)
        cursor.execute(_PRUNE_PLACES, [at - ALL_FOR])
        return n_pruned
