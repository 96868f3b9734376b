"""Until when a running job counts: as long as it may run, or is listed.

The line that ends a job may never come: a server was reinstalled, a job was purged, a log was lost. So a job counts at
most for the time that it asked for, or for the source's longest run where it asked for none. A complete listing of the
queue shows that a job runs on, and closes those that it misses: until the last one, all others count.
"""

from __future__ import annotations

import numpy as np

from apps.usage.models import Record, Source
from apps.usage.parsers.base import F8, FINISHED, I8, RUNNING

LONGEST_RUN_S = 30 * 86400  # of sources without a setting
# Last instant of a running job, in a query with the tables `record` and `source`.
KNOWN_UNTIL = f"""GREATEST(source.listed_at, record.start_at
    + COALESCE(record.requested_s, source.longest_run_s, {LONGEST_RUN_S}) * interval '1 second')"""
OVERRUN = f"""record.state <> {FINISHED} AND record.state = {RUNNING}
    AND (source.listed_at IS NULL OR record.seen_at IS NULL OR record.seen_at < source.listed_at)"""  # not confirmed


def known_until_epoch(source_id: I8, start_epoch: F8, requested_s: F8) -> F8:
    """The time until which each job counts, in seconds since 1970; infinite where it hasn't started."""
    until = np.full(len(source_id), np.inf)
    for source in Source.all_objects.filter(pk__in=np.unique(source_id).tolist()):
        rows = source_id == source.pk
        until[rows] = _known_until(source, start_epoch[rows], requested_s[rows])
    return np.where(np.isnan(start_epoch), np.inf, until)


def known_until_s(record: Record) -> float:
    """As `known_until_epoch`, of one job; infinite if it doesn't run."""
    if record.state != Record.State.RUNNING or record.start_at is None:
        return np.inf
    requested_s = np.nan if record.requested_s is None else record.requested_s
    return float(_known_until(record.source, np.array([record.start_at.timestamp()]), np.array([requested_s]))[0])


def _known_until(source: Source, start_epoch: F8, requested_s: F8) -> F8:
    """A peer's feed is a listing: its jobs count until the last contact. Later usage is not estimated here."""
    if source.kind == Source.Kind.PEER:
        last_contact_at = source.last_received_at
        return np.full(len(start_epoch), -np.inf if last_contact_at is None else last_contact_at.timestamp())
    longest_s = LONGEST_RUN_S if source.longest_run_s is None else source.longest_run_s
    until: F8 = start_epoch + np.where(np.isnan(requested_s), longest_s, requested_s)
    return until if source.listed_at is None else np.maximum(until, source.listed_at.timestamp())
