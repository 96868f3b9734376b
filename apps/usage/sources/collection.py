"""Run the collection of usage sources, piece by piece, under the run's lease.

Each piece's records, buckets and cursor are stored in one transaction.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from django.db import DatabaseError, InterfaceError

from apps.core.errors import Conflict, DomainError, NotFound
from apps.core.postgresql import analyze_grown
from apps.runs.fault_points import fault_point
from apps.runs.leases import Lease, LeaseLost, RunCancelled
from apps.runs.models import Run
from apps.usage.authority import require_open
from apps.usage.models import Import, RejectedLine, Source
from apps.usage.parsers.base import Rejection
from apps.usage.records.ingest import GROWING, ingest_batch
from apps.usage.records.partitions import make_partitions
from apps.usage.records.versions import Counts
from apps.usage.sources import command, directory, slurm_rest
from apps.usage.sources.open_listings import close_silent_jobs, ingest_listing
from apps.usage.sources.pieces import Clock, Piece
from apps.usage.sources.schedule import (
    FIRST_RETRY_S,
    KIND,
    LONGEST_COLLECT_RETRY_S,
    MOST_COLLECT_THREADS,
    MOST_OF_HOST,
    enqueue_collection,
    enqueue_due_collections,
    n_failures,
    next_due,
    retry_due,
    subject_of,
)

__all__ = [
    "FIRST_RETRY_S",
    "KIND",
    "LONGEST_COLLECT_RETRY_S",
    "MOST_COLLECT_THREADS",
    "MOST_OF_HOST",
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


NUMBERS = ("new", "duplicate", "corrected", "late", "too_late", "vanished", "rejected", "lines")
MOST_REMEMBERED_LINES = 1000  # lines rejected again because windows overlap are listed once
_LONGEST_STORED_ERROR = 1000
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
        make_partitions(piece.parsed.batch.submit_us, until=lease.clock())
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
    for rejection in rejections:
        mark = hashlib.sha256(f"{rejection.code}\n{rejection.message}\n{rejection.excerpt}".encode()).hexdigest()[:16]
        if mark not in known:
            known.add(mark)
            remembered = [*remembered, mark]
            new.append(rejection)
    return new, remembered[-MOST_REMEMBERED_LINES:]


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
            line=n_before + rejection.line,
            code=rejection.code,
            message=f"{piece.location} line {rejection.line}: {rejection.message}"[:512],
            excerpt=rejection.excerpt,
        )
        for rejection in refused
    ]
    RejectedLine.objects.bulk_create(lines, ignore_conflicts=True)


def _note_failure(source: Source, lease: Lease, error: Exception) -> None:
    """Store the error of a failed collection and the time of the next try."""
    at = lease.clock()
    message = error.message if isinstance(error, DomainError) else f"It failed: {type(error).__name__}."
    due_at = retry_due(source, at)
    with lease.fenced():
        Source.all_objects.filter(pk=source.pk).update(
            collect_error=message[:_LONGEST_STORED_ERROR], collect_due_at=due_at
        )


def _finish(source: Source, lease: Lease, began_at: datetime, numbers: dict[str, int]) -> dict[str, Any]:
    problems = source.cursor.get("problems") or {}
    message = "; ".join(f"{name}: {why}" for name, why in sorted(problems.items()))
    with lease.fenced():
        Source.all_objects.filter(pk=source.pk).update(
            collected_at=began_at,
            collect_error=message[:_LONGEST_STORED_ERROR],
            collect_due_at=next_due(source, began_at),
        )
        result = {**numbers, "problems": problems}
        lease.finish(result, lease.clock())
        fault_point("usage.collect.before_finish")
    return result
