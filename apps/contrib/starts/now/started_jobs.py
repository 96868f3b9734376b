"""Jobs that started lately, with their waits, from the usage records of this site's sources."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np

from apps.contrib.starts.now.wait_statistics import F8, I8
from apps.usage.held_hours import OF_CURRENT, STARTED_HELD
from apps.usage.models import Source
from apps.usage.parsers.base import WITHDRAWN
from apps.usage.pgbinary import fetch_columns

# Only first starts: the record of a requeued job has the first submission, and the wait would include the first run.
# Some logs write a start for a job that was cancelled while it waited: such a job ends when it starts.
_STARTED = f"""
SELECT array_agg(account_id), array_agg(submit_at), array_agg(start_at) FROM usage_record
WHERE submit_at < %s AND start_at >= %s AND start_at < %s AND source_id = ANY(%s::int8[])
    AND COALESCE(restart, 0) = 0 AND state <> {WITHDRAWN} AND NOT is_charge
    AND (end_at IS NULL OR end_at > start_at){OF_CURRENT} AND NOT {STARTED_HELD}
"""  # noqa: S608 - constants only


@dataclass(frozen=True, eq=False, slots=True)
class StartedJobs:
    """Jobs as columns, in the order of no matter. submit_s, start_s: seconds since 1970."""

    account_id: I8
    submit_s: F8
    start_s: F8


def load_started_jobs(*, from_at: datetime, to_at: datetime) -> StartedJobs:
    """Jobs that started in [from_at, to_at), of sources that report when jobs were submitted; in hours that two sources
    report, those of the one that counts.

    A source that reports no submission has each job submitted when it started: until one of its jobs has waited, it
    isn't known to report any. Peers report no jobs.
    """
    known = Source.objects.exclude(kind=Source.Kind.PEER).filter(first_wait_at__isnull=False)
    columns = fetch_columns(_STARTED, [to_at, from_at, to_at, list(known.values_list("pk", flat=True))])
    if not columns:
        return StartedJobs(np.zeros(0, np.int64), np.zeros(0), np.zeros(0))
    account_id, submit_us, start_us = columns
    return StartedJobs(account_id, submit_us / 1e6, start_us / 1e6)


def count_sources_without_waits() -> int:
    """Sources with jobs that aren't known to report when jobs were submitted."""
    unknown = Source.objects.exclude(kind=Source.Kind.PEER).filter(first_wait_at=None, first_submit_at__isnull=False)
    return unknown.count()
