"""How jobs ended their wait that are in no list of an agent any more, from their usage records."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from apps.contrib.schedulers.models import Scheduler
from apps.contrib.starts.models import Cause
from apps.usage.models import Record, Source

MOST_LOOKED_UP_OF_REPORT = 500
_SAME_SUBMISSION = timedelta(minutes=2)
_LARGEST_JOB_NUMBER = 2**31 - 1  # of the column


class End(NamedTuple):
    """at: start, or when the job left the queue without one."""

    at: datetime
    has_started: bool
    cause: Cause | None = None


def ends_of(scheduler: Scheduler, since: Mapping[str, datetime], last_seen: Mapping[str, datetime]) -> dict[str, End]:
    """Ends of waits by job, as their records have them. since: when each wait began, the submission as a rule.

    last_seen: when each waited for certain; a job that was cancelled left then, if its record doesn't have the time.

    A record of the same number is that of another job unless it was submitted then, or started after it: a job that was
    queued again keeps its number.
    """
    asked = {
        job: since_at
        for job, since_at in sorted(since.items(), key=lambda each: each[1])[:MOST_LOOKED_UP_OF_REPORT]
        if job.isascii() and job.isdigit() and int(job) <= _LARGEST_JOB_NUMBER
    }
    if not asked:
        return {}
    sources = Source.objects.all()
    if scheduler.namespace:
        sources = sources.filter(namespace=scheduler.namespace)
    rows = (
        Record.objects.filter(
            source_id__in=list(sources.values_list("pk", flat=True)),
            job_number__in=[int(job) for job in asked],
            submit_at__lte=max(asked.values()) + _SAME_SUBMISSION,
            is_charge=False,
        )
        .exclude(state=Record.State.PENDING)
        .order_by("start_at", "id")
        .values_list("job", "state", "submit_at", "start_at", "end_at")
    )
    ends: dict[str, End] = {}
    for job, state, submit_at, start_at, end_at in rows:
        if (since_at := asked.get(job)) is None or job in ends:
            continue
        if state == Record.State.WITHDRAWN:
            if abs(submit_at - since_at) <= _SAME_SUBMISSION:
                ends[job] = End(end_at or last_seen[job], has_started=False, cause=Cause.CANCELLED)
        elif start_at is not None and submit_at - _SAME_SUBMISSION <= since_at <= start_at + _SAME_SUBMISSION:
            ends[job] = End(start_at, has_started=True)
    return ends
