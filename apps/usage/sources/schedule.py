"""When a source is collected: at its interval, later after failures, one at a time."""

from __future__ import annotations

from datetime import datetime, timedelta

from apps.accounts.models import User
from apps.runs.models import Run
from apps.runs.services import enqueue_run
from apps.usage.models import Source

KIND = "usage_collect"
FIRST_RETRY_S = 60.0
LONGEST_RETRY_S = 3600.0  # or the source's own interval, where that is longer
_MOST_COUNTED = 20


def subject_of(source: Source) -> str:
    return f"source:{source.slug}"


def next_due(source: Source, at: datetime) -> datetime | None:
    return at + timedelta(seconds=source.collect_every_s) if source.collect_every_s else None


def retry_due(source: Source, at: datetime) -> datetime | None:
    """A minute after the first failure, twice as long after each further one; none for a source without an interval."""
    if not source.collect_every_s:
        return None
    n_before = n_failures(source)
    longest_s = max(LONGEST_RETRY_S, float(source.collect_every_s))
    return at + timedelta(seconds=min(FIRST_RETRY_S * 2.0 ** min(n_before, 16), longest_s))


def n_failures(source: Source) -> int:
    """How many of the newest collections failed in a row."""
    ended = Run.objects.filter(kind=KIND, subject=subject_of(source), finished_at__isnull=False).order_by("-id")
    n_failed = 0
    for state in ended.values_list("state", flat=True)[:_MOST_COUNTED]:
        if state != Run.State.FAILED:
            break
        n_failed += 1
    return n_failed


def ask_for_due(*, at: datetime) -> int:
    """A run for each source that is due and not being collected; safe to run twice and at once."""
    due = Source.objects.filter(is_paused=False, collect_due_at__lte=at)
    due = due.exclude(kind__in=(Source.Kind.PUSH, Source.Kind.PEER))
    n_asked = 0
    for source in due.order_by("collect_due_at", "pk"):
        runs = Run.objects.filter(kind=KIND, subject=subject_of(source))
        if runs.filter(state__in=(Run.State.QUEUED, Run.State.RUNNING)).exists():
            continue
        newest = runs.order_by("-id").first()
        if newest is not None and newest.state == Run.State.FAILED and source.collect_due_at is not None:
            due_at = retry_due(source, newest.finished_at or at)  # a worker that was lost noted nothing at the source
            if due_at is not None and source.collect_due_at <= (newest.finished_at or at) and due_at > at:
                continue
        ask_for(source, at=at)
        n_asked += 1
    return n_asked


def ask_for(source: Source, *, at: datetime, owner: User | None = None) -> Run:
    """The requester may follow the run, unless it joins a waiting one."""
    return enqueue_run(kind=KIND, subject=subject_of(source), arguments={"source": source.slug}, owner=owner, at=at)
