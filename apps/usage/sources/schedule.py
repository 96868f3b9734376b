"""When a source is collected: at its interval, less often after failures, one run at a time."""

from __future__ import annotations

from datetime import datetime, timedelta

from apps.accounts.models import User
from apps.core.addresses import split_address
from apps.core.clock import SKEW
from apps.runs.models import Run
from apps.runs.services import enqueue_run
from apps.usage.models import Source

KIND = "usage_collect"
FIRST_RETRY_S = 60.0
LONGEST_COLLECT_RETRY_S = 3600.0  # or the source's own interval if longer
MOST_OF_HOST = 3  # collections at once that wait for one host or program
MOST_COLLECT_THREADS = 6
_MOST_COUNTED_FAILURES = 20


def subject_of(source: Source) -> str:
    return f"source:{source.slug}"


def next_due(source: Source, at: datetime) -> datetime | None:
    return at + timedelta(seconds=source.collect_every_s) if source.collect_every_s else None


def retry_due(source: Source, at: datetime) -> datetime | None:
    """Time of the next try: a minute after the first failure, doubled with each further one; None without an
    interval.
    """
    if not source.collect_every_s:
        return None
    n_before = n_failures(source)
    return at + timedelta(seconds=min(FIRST_RETRY_S * 2.0 ** min(n_before, 16), _longest_wait_s(source)))


def n_failures(source: Source) -> int:
    """Number of consecutive failures among the newest collections."""
    ended = Run.objects.filter(kind=KIND, subject=subject_of(source), finished_at__isnull=False).order_by("-id")
    n_failed = 0
    for state in ended.values_list("state", flat=True)[:_MOST_COUNTED_FAILURES]:
        if state != Run.State.FAILED:
            break
        n_failed += 1
    return n_failed


def enqueue_due_collections(*, at: datetime) -> int:
    """Enqueue a run for each source that is due and not being collected; safe to run twice and concurrently."""
    collected = Source.objects.filter(is_paused=False, collect_due_at__isnull=False)
    collected = collected.exclude(kind__in=(Source.Kind.PUSH, Source.Kind.PEER))
    n_asked = 0
    for source in collected.order_by("collect_due_at", "pk"):
        if not _is_due(source, at):
            continue
        runs = Run.objects.filter(kind=KIND, subject=subject_of(source))
        if runs.filter(state__in=(Run.State.QUEUED, Run.State.RUNNING)).exists():
            continue
        newest = runs.order_by("-id").first()
        failed_at = newest.finished_at or at if newest is not None and newest.state == Run.State.FAILED else None
        if failed_at is not None and failed_at <= at + SKEW and source.collect_due_at is not None:
            # A worker that was lost has stored no new due time.
            due_at = retry_due(source, failed_at)
            if due_at is not None and source.collect_due_at <= failed_at and due_at > at:
                continue
        enqueue_collection(source, at=at)
        n_asked += 1
    return n_asked


def _is_due(source: Source, at: datetime) -> bool:
    """Whether its time has come, or is so far ahead that only a clock that was ahead can have set it."""
    due_at = source.collect_due_at
    if due_at is None:
        return False
    return due_at <= at or due_at > at + timedelta(seconds=_longest_wait_s(source)) + SKEW


def _longest_wait_s(source: Source) -> float:
    return max(LONGEST_COLLECT_RETRY_S, float(source.collect_every_s or 0))


def enqueue_collection(source: Source, *, at: datetime, owner: User | None = None) -> Run:
    """Enqueue a collection, or return the waiting one; its owner may follow the run."""
    return enqueue_run(
        kind=KIND,
        subject=subject_of(source),
        limit_key=_called_by(source),
        arguments={"source": source.slug},
        owner=owner,
        at=at,
    )


def _called_by(source: Source) -> str:
    """The host or program that a collection waits for; "" for a folder."""
    terms = source.collecting
    if source.kind == Source.Kind.SLURM_REST:
        address = str(terms["address"])
        return f"host:{split_address(address).netloc or address}"
    program = (terms.get("command") or terms.get("listing") or [""])[0]
    return f"program:{program}" if program else ""
