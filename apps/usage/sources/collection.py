"""Schedule and run the collection of usage sources, piece by piece, under the run's lease.

A source is collected at its interval, less often after failures, one run at a time. Each piece's records, buckets and
cursor are stored in one transaction. Open jobs that a complete listing does not contain have vanished, and are closed.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection, transaction

from apps.accounts import audit_log as audit
from apps.accounts.actor import SYSTEM
from apps.accounts.models import User
from apps.core.errors import Conflict, DomainError, NotFound
from apps.core.postgresql import analyze_grown
from apps.runs.fault_points import fault_point
from apps.runs.leases import Lease, LeaseLost, RunCancelled
from apps.runs.models import Run
from apps.runs.services import enqueue_run
from apps.usage import buckets, pgbinary
from apps.usage.authority import require_open
from apps.usage.models import Import, RejectedLine, Source
from apps.usage.parsers.base import I8, RecordBatch, RecordRow, Rejection, instant
from apps.usage.pgbinary import Int8Array
from apps.usage.records import overlaps
from apps.usage.records.ingest import GROWING, ingest_batch, read_limits
from apps.usage.records.record_rows import FINISHED_COLUMNS, finished_from_columns
from apps.usage.records.versions import VANISHED, Counts, lock_source
from apps.usage.sources import command, directory, slurm_rest
from apps.usage.sources.pieces import Clock, Piece

__all__ = [
    "FIRST_RETRY_S",
    "KIND",
    "LONGEST_RETRY_S",
    "close_silent_jobs",
    "enqueue_collection",
    "enqueue_due_collections",
    "ingest_listing",
    "n_failures",
    "next_due",
    "retry_due",
    "run_collect",
    "subject_of",
]

KIND = "usage_collect"
FIRST_RETRY_S = 60.0
LONGEST_RETRY_S = 3600.0  # or the source's own interval if longer
_MOST_COUNTED = 20


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
    longest_s = max(LONGEST_RETRY_S, float(source.collect_every_s))
    return at + timedelta(seconds=min(FIRST_RETRY_S * 2.0 ** min(n_before, 16), longest_s))


def n_failures(source: Source) -> int:
    """Number of consecutive failures among the newest collections."""
    ended = Run.objects.filter(kind=KIND, subject=subject_of(source), finished_at__isnull=False).order_by("-id")
    n_failed = 0
    for state in ended.values_list("state", flat=True)[:_MOST_COUNTED]:
        if state != Run.State.FAILED:
            break
        n_failed += 1
    return n_failed


def enqueue_due_collections(*, at: datetime) -> int:
    """Enqueue a run for each source that is due and not being collected; safe to run twice and concurrently."""
    due = Source.objects.filter(is_paused=False, collect_due_at__lte=at)
    due = due.exclude(kind__in=(Source.Kind.PUSH, Source.Kind.PEER))
    n_asked = 0
    for source in due.order_by("collect_due_at", "pk"):
        runs = Run.objects.filter(kind=KIND, subject=subject_of(source))
        if runs.filter(state__in=(Run.State.QUEUED, Run.State.RUNNING)).exists():
            continue
        newest = runs.order_by("-id").first()
        if newest is not None and newest.state == Run.State.FAILED and source.collect_due_at is not None:
            # A worker that was lost has stored no new due time.
            due_at = retry_due(source, newest.finished_at or at)
            if due_at is not None and source.collect_due_at <= (newest.finished_at or at) and due_at > at:
                continue
        enqueue_collection(source, at=at)
        n_asked += 1
    return n_asked


def enqueue_collection(source: Source, *, at: datetime, owner: User | None = None) -> Run:
    """Enqueue a collection, or return the waiting one; its owner may follow the run."""
    return enqueue_run(kind=KIND, subject=subject_of(source), arguments={"source": source.slug}, owner=owner, at=at)


_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


def ingest_listing(
    source: Source, batch: RecordBatch | Sequence[RecordRow], at: datetime, run: Run | None = None
) -> Counts:
    """Store a complete listing of the running and pending jobs at `at`, in the caller's transaction or a new one.

    An open record that the listing doesn't contain has vanished: a running one ends when it was last seen, a pending
    one is withdrawn, both with the note "vanished". Only clusters in the listing are concerned; for an empty listing,
    the source's cluster, or all if it has none. Accounting with the real end replaces the record later; a listing that
    contains the job again reopens it.
    """
    rows = batch if isinstance(batch, RecordBatch) else RecordBatch.from_rows(batch)
    with transaction.atomic():
        counts = ingest_batch(source=source, rows=rows, at=at, run=run, is_listing=True)
        lock_source(source.pk)  # after ids of names were assigned, as everywhere, to avoid a deadlock
        _close_missing(source, _clusters(rows, source), at, counts, contact_at=at)
    return counts


def close_silent_jobs(*, at: datetime) -> int:
    """Close open jobs of sources without contact for FAIRSHARE_CLOSE_OPEN_DAYS, as an empty listing would.

    Whether they still run is unknown, and their usage would grow for ever. Returns their number.
    """
    days: int = settings.FAIRSHARE_CLOSE_OPEN_DAYS
    if not days:
        return 0
    silent = Source.all_objects.filter(last_received_at__lt=at - timedelta(days=days)).exclude(kind=Source.Kind.PEER)
    return sum(_close_all(pk, at, days) for pk in silent.order_by("pk").values_list("pk", flat=True))


@transaction.atomic
def _close_all(source_id: int, at: datetime, days: int) -> int:
    lock_source(source_id)
    source, counts = Source.all_objects.get(pk=source_id), Counts()
    if source.last_received_at is None or source.last_received_at >= at - timedelta(days=days):
        return 0  # contacted in the meantime
    _close_missing(source, None, at, counts, contact_at=source.last_received_at)
    if counts.vanished:
        details = {"jobs": counts.vanished, "days": days}
        audit.record(actor=SYSTEM, verb="usage.open_jobs_closed", at=at, subject=source.slug, details=details)
    return counts.vanished


_MISSED = """
SELECT array_agg(id) FROM usage_record
WHERE source_id = %s AND NOT (state = 'finished') AND state IN ('pending', 'running')
    AND (cluster = ANY(%s::text[]) OR %s::text[] IS NULL)
    AND (seen_at IS NULL OR seen_at < %s) AND submit_at <= %s
"""
_CLOSE = f"""
WITH closed AS (
    UPDATE usage_record SET note = '{VANISHED}',
        state = CASE WHEN state = 'running' AND COALESCE(seen_at, start_at) >= %s THEN 'finished' ELSE 'withdrawn' END,
        end_at = CASE WHEN state = 'running' AND COALESCE(seen_at, start_at) >= %s THEN GREATEST(start_at, seen_at) END
    WHERE id = ANY(%s::int8[]) RETURNING *)
SELECT {FINISHED_COLUMNS} FROM closed WHERE state = 'finished'
"""  # noqa: S608 - constants only
_ADVANCE = """
UPDATE usage_source SET watermark = watermark + 1, last_received_at = GREATEST(last_received_at, %s) WHERE id = %s
"""


def _close_missing(
    source: Source, clusters: list[str] | None, at: datetime, counts: Counts, *, contact_at: datetime
) -> None:
    found = pgbinary.fetch_columns(_MISSED, [source.pk, clusters, clusters, at, at])
    if not found:
        return
    missed: I8 = found[0]
    limits = read_limits(source.pk)
    sealed_at = instant(limits.sealed_us) if limits.sealed_us is not None else _LONG_AGO
    ended = finished_from_columns(pgbinary.fetch_columns(_CLOSE, [sealed_at, sealed_at, Int8Array(missed)]), sign=1)
    if len(ended):
        delta = buckets.compute_delta(ended)
        buckets.apply_delta(source.pk, delta)
        nothing = RecordBatch.from_rows([])
        overlaps.add_presence(source, delta, nothing, has_rivals=limits.has_rivals, at=at)
        counts.core_s += float(delta.amounts[:, 0].sum()) / buckets.QUANTA
        counts.account_ids |= set(np.unique(ended.account_id).tolist())
    counts.vanished = len(missed)
    with connection.cursor() as cursor:
        cursor.execute(_ADVANCE, [contact_at, source.pk])


def _clusters(rows: RecordBatch, source: Source) -> list[str] | None:
    """Clusters that the listing covers; None for all."""
    if not len(rows):
        return [source.cluster] if source.cluster else None
    return sorted({name.decode() or source.cluster for name in np.unique(rows.cluster)})


logger = logging.getLogger(__name__)

NUMBERS = ("new", "duplicate", "corrected", "late", "too_late", "vanished", "rejected", "lines")
MOST_REMEMBERED = 1000  # lines rejected again because windows overlap are listed once
_MOST_ERROR = 1000
PIECES: dict[str, Callable[[Source, datetime, Clock], Iterator[Piece]]] = {
    Source.Kind.DIRECTORY: directory.collect_pieces,
    Source.Kind.COMMAND: command.collect_pieces,
    Source.Kind.SLURM_REST: slurm_rest.collect_pieces,
}


def run_collect(run: Run, lease: Lease) -> dict[str, Any]:
    """Handler of `usage_collect`: resumes behind the source's cursor. A failure leaves stored data unchanged."""
    source = Source.all_objects.filter(slug=run.arguments.get("source", "")).first()
    if source is None or source.kind not in PIECES:
        raise NotFound("There is no collected source with this name.")
    require_open(source)
    began_at = lease.clock()
    try:
        numbers = _collect(source, run, lease, began_at)
    except (LeaseLost, DatabaseError, InterfaceError):
        raise
    except RunCancelled:
        Source.all_objects.filter(pk=source.pk).update(collect_due_at=next_due(source, lease.clock()))
        raise
    except Exception as error:
        _note_failure(source, lease, error)
        raise
    return _finish(source, lease, began_at, numbers)


def _collect(source: Source, run: Run, lease: Lease, began_at: datetime) -> dict[str, int]:
    numbers = {**dict.fromkeys(NUMBERS, 0), **run.cursor.get("numbers", {})}
    longest_s = float(source.collecting.get("timeout_s", 0))  # of one command or answer
    lease.note_progress(then_s=longest_s)
    for piece in PIECES[source.kind](source, began_at, lease.clock):
        fault_point("usage.collect.after_fetch")
        with lease.fenced() as held:
            _import_piece(source, held, piece, numbers, lease.clock())
            fault_point("usage.collect.before_commit")
        fault_point("usage.collect.after_commit")
        analyze_grown(*GROWING)
        lease.note_progress(then_s=longest_s)
    return numbers


def _import_piece(source: Source, held: Run, piece: Piece, numbers: dict[str, int], at: datetime) -> None:
    batch = piece.parsed.batch
    unread, remembered = _new_rejections(piece.parsed.rejections, source.cursor.get("refused", []))
    if piece.listed_at is not None:
        counts = ingest_listing(source, batch, piece.listed_at, held)
    else:
        counts = ingest_batch(source=source, rows=batch, at=at, run=held, n_rejected=len(unread))
    refused, remembered = _new_rejections(counts.rejections, remembered)
    _list_rejected(source, held, piece, [*unread, *refused], numbers["lines"], at)
    _count(numbers, counts, piece, len(unread) + len(refused))
    _move_cursor(source, {**piece.cursor, "refused": remembered})
    held.cursor, held.counts, held.progress_done = {"numbers": numbers}, dict(numbers), numbers["lines"]
    held.save(update_fields=["cursor", "counts", "progress_done"])


def _count(numbers: dict[str, int], counts: Counts, piece: Piece, n_refused: int) -> None:
    for name in ("new", "duplicate", "corrected", "late", "too_late", "vanished"):
        numbers[name] += getattr(counts, name)
    numbers["rejected"] += n_refused
    numbers["lines"] += piece.parsed.n_lines


def _move_cursor(source: Source, cursor: dict[str, Any]) -> None:
    """Store the cursor, unless settings changed since this collection began: a cursor is valid for one location
    only.
    """
    same = Source.all_objects.filter(
        pk=source.pk, kind=source.kind, collecting=source.collecting, is_paused=False, namespace=source.namespace
    )
    if not same.update(cursor=cursor):
        if Source.all_objects.filter(pk=source.pk, is_paused=True).exists():
            raise RunCancelled(f"{source.slug} is paused.")
        raise Conflict("The source's settings changed meanwhile: it is collected again.", code="settings_changed")
    source.cursor = cursor


def _new_rejections(rejections: list[Rejection], remembered: list[str]) -> tuple[list[Rejection], list[str]]:
    """Rejections that were not rejected identically before, and the extended list of remembered ones."""
    known, new = set(remembered), []
    for one in rejections:
        mark = hashlib.sha256(f"{one.code}\n{one.message}\n{one.excerpt}".encode()).hexdigest()[:16]
        if mark not in known:
            known.add(mark)
            remembered = [*remembered, mark]
            new.append(one)
    return new, remembered[-MOST_REMEMBERED:]


def _list_rejected(
    source: Source, held: Run, piece: Piece, refused: list[Rejection], n_before: int, at: datetime
) -> None:
    """List rejected lines like those of an import; `piece.location` names the file or command."""
    if not refused:
        return
    made, _ = Import.objects.get_or_create(
        run=held,
        defaults={
            "source": source,
            "format": piece.format,
            "file_name": piece.location[-255:],
            "n_bytes": 0,
            "sha256": "",
            "time_zone": source.time_zone,
            "created_at": at,
        },
    )
    lines = [
        RejectedLine(
            usage_import=made,
            line=n_before + one.line,
            code=one.code,
            message=f"{piece.location} line {one.line}: {one.message}"[:512],
            excerpt=one.excerpt,
        )
        for one in refused
    ]
    RejectedLine.objects.bulk_create(lines, ignore_conflicts=True)


def _note_failure(source: Source, lease: Lease, error: Exception) -> None:
    """Store the error of a failed collection and the time of the next try."""
    at = lease.clock()
    message = error.message if isinstance(error, DomainError) else f"It failed: {type(error).__name__}."
    due_at = retry_due(source, at)
    with lease.fenced():
        Source.all_objects.filter(pk=source.pk).update(collect_error=message[:_MOST_ERROR], collect_due_at=due_at)


def _finish(source: Source, lease: Lease, began_at: datetime, numbers: dict[str, int]) -> dict[str, Any]:
    problems = source.cursor.get("problems") or {}
    message = "; ".join(f"{name}: {why}" for name, why in sorted(problems.items()))
    with lease.fenced():
        Source.all_objects.filter(pk=source.pk).update(
            collected_at=began_at, collect_error=message[:_MOST_ERROR], collect_due_at=next_due(source, began_at)
        )
        result = {**numbers, "problems": problems}
        lease.finish(result, lease.clock())
        fault_point("usage.collect.before_finish")
    return result
