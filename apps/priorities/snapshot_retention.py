"""How long snapshots are kept."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import connection

ALL_FOR = timedelta(hours=24)
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


def prune_snapshots(*, at: datetime) -> int:
    """Delete snapshots past their retention; return their number."""
    with connection.cursor() as cursor:
        cursor.execute(_PRUNE, {"all": at - ALL_FOR, "hourly": at - HOURLY_FOR, "daily": at - DAILY_FOR})
        return int(cursor.rowcount)
