"""Jobs of one usage source as they waited: submission, start, size, and the time that they asked for."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from django.db.models import Q

from apps.contrib.starts.prediction.predictor import PastJob
from apps.contrib.starts.prediction.promises import WaitingJob
from apps.usage.models import Record, Source

_COLUMNS = (
    "account__user_name",
    "state",
    "submit_at",
    "start_at",
    "end_at",
    "cpus",
    "requested_s",
    "job_class__queue",
    "job_class__partition",
)


def past_jobs(source: Source, *, from_at: datetime, to_at: datetime) -> Iterator[PastJob]:
    """Jobs that were submitted in a span, by submission; what happened after it is left out.

    A job that ended as it started is withdrawn: formats such as SWF write so what was cancelled while it waited.
    Charges without a job and restarts of a job are left out: their waits aren't those of a submission.
    """
    rows = (
        Record.objects.filter(source=source, submit_at__gte=from_at, submit_at__lt=to_at, is_charge=False)
        .filter(Q(restart=0) | Q(restart=None))
        .order_by("submit_at", "id")
        .values_list(*_COLUMNS)
    )
    for user, state, submit_at, start_at, end_at, cpus, requested_s, queue, partition in rows.iterator():
        job = WaitingJob(user, float(cpus), requested_s, queue or partition)
        left_at = None if state == Record.State.PENDING else end_at if state == Record.State.WITHDRAWN else start_at
        if state != Record.State.PENDING and left_at is None:
            continue
        left_s = None if left_at is None or left_at >= to_at else max(left_at, submit_at).timestamp()
        has_run = state != Record.State.WITHDRAWN and (end_at is None or start_at is None or end_at > start_at)
        has_ended = has_run and left_s is not None and end_at is not None and end_at < to_at
        yield PastJob(job, submit_at.timestamp(), left_s, has_run, end_at.timestamp() if has_ended else None)
