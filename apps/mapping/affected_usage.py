"""Recent usage of accounts: what a change of their mapping affects."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from django.db import connection

DAYS = 30

_USED = """
SELECT bucket.account_id, sum(bucket.cpu_s), sum(bucket.jobs), max(bucket.hour_at)
FROM usage_bucket AS bucket
WHERE bucket.hour_at >= %(since)s AND bucket.hour_at <= %(until)s
    AND (%(all)s OR bucket.account_id = ANY(%(accounts)s))
GROUP BY bucket.account_id
"""


class Stake(NamedTuple):
    """Core-seconds and ended jobs of the last days, and the last hour with usage."""

    core_s: float = 0.0
    jobs: float = 0.0
    last_at: datetime | None = None


NOTHING = Stake()


def load_stakes(accounts: Sequence[int] | None = None, *, at: datetime) -> dict[int, Stake]:
    """By account, of those (None: all) that used something in the last DAYS days."""
    asked: dict[str, Any] = {
        "since": at - timedelta(days=DAYS), "until": at, "all": accounts is None, "accounts": list(accounts or ()),
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(_USED, asked)
        return {row[0]: Stake(float(row[1]), float(row[2]), row[3]) for row in cursor.fetchall()}
