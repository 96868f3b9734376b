"""How far plans of a scheduler's queue were off: planned starts beside the true ones of jobs that have started since.

Each promise keeps what the plan said at its instant. With the plan's start after `plan` seconds, and the true one after
`wait`:

    off = |wait − plan|
    held: wait ≤ max(plan, FLOOR)

A job that its user changed, held or cancelled is another one than was planned, and counts nowhere. One that waits still
has no error yet, so that the error of a queue that hardly moves is seen late.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

from django.db import connection

from apps.contrib.schedulers.models import Scheduler
from apps.contrib.starts.answers import DAYS_OF_RECORD
from apps.contrib.starts.models import Cause
from apps.contrib.starts.prediction.promises import FLOOR_S
from apps.contrib.starts.sentences import LEAST_PROMISES_OF_RECORD

_ERROR = """
SELECT count(*), percentile_cont(0.5) WITHIN GROUP (ORDER BY abs(wait_s - plan_s)),
    avg((wait_s <= greatest(plan_s, %s))::int)
FROM (
    SELECT plan_s, extract(epoch FROM left_at - made_at) AS wait_s FROM starts_startpromise
    WHERE scheduler_id = %s AND made_at > %s AND plan_s IS NOT NULL AND has_started AND NOT cause = ANY(%s)
) started
"""
_OF_USERS = [Cause.ALTERED.value, Cause.HELD.value, Cause.CANCELLED.value]


@dataclass(frozen=True, slots=True)
class PlanError:
    """Of planned starts in the last days. Fewer than LEAST_PROMISES_OF_RECORD have no error yet: nulls."""

    starts: Annotated[int, "Planned starts of jobs that have started since"]
    days: Annotated[int, "Length of the period in which they were planned"]
    median_s: Annotated[float | None, "Half of these were off by at most this, in seconds; null: fewer than 30"]
    held: Annotated[float | None, "Started by the planned start, or within 5 minutes; null: fewer than 30"]


def plan_error(scheduler: Scheduler, at: datetime) -> PlanError:
    since = at - timedelta(days=DAYS_OF_RECORD)
    with connection.cursor() as cursor:
        cursor.execute(_ERROR, [FLOOR_S, scheduler.pk, since, _OF_USERS])
        n, median_s, held = cursor.fetchone()
    if n < LEAST_PROMISES_OF_RECORD:
        return PlanError(n, DAYS_OF_RECORD, None, None)
    return PlanError(n, DAYS_OF_RECORD, float(median_s), float(held))
