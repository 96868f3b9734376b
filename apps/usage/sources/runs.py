"""The work of a collection: each piece's records, buckets and cursor in one transaction, under the run's lease."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from django.db import DatabaseError, InterfaceError

from apps.core.errors import Conflict, DomainError, NotFound
from apps.runs.fault_points import fault_point
from apps.runs.leases import Lease, LeaseLost, RunCancelled
from apps.runs.models import Run
from apps.usage.models import Import, RejectedLine, Source
from apps.usage.parsers.base import Rejection
from apps.usage.records.ingest import ingest_batch
from apps.usage.records.queue_listing import ingest_listing
from apps.usage.records.versions import Counts
from apps.usage.sources import command, directory, slurm_rest
from apps.usage.sources.pieces import Clock, Piece
from apps.usage.sources.schedule import KIND, next_due, retry_due

__all__ = ["KIND", "work_collect"]

logger = logging.getLogger(__name__)

NUMBERS = ("new", "duplicate", "corrected", "late", "too_late", "vanished", "rejected", "lines")
MOST_REMEMBERED = 1000  # refused lines that an overlap brings again and again are listed once
_MOST_ERROR = 1000
PIECES: dict[str, Callable[[Source, datetime, Clock], Iterator[Piece]]] = {
    Source.Kind.DIRECTORY: directory.pieces_of,
    Source.Kind.COMMAND: command.pieces_of,
    Source.Kind.SLURM_REST: slurm_rest.pieces_of,
}


def work_collect(run: Run, lease: Lease) -> dict[str, Any]:
    """Handler of `usage_collect`: goes on behind the source's cursor. A failure leaves what is stored as it is."""
    source = Source.objects.filter(slug=run.arguments.get("source", "")).first()
    if source is None or source.kind not in PIECES:
        raise NotFound("There is no source of this name that is collected.")
    began_at = lease.clock()
    try:
        numbers = _collect(source, run, lease, began_at)
    except (LeaseLost, DatabaseError, InterfaceError):
        raise
    except RunCancelled:
        Source.objects.filter(pk=source.pk).update(collect_due_at=next_due(source, lease.clock()))
        raise
    except Exception as error:
        _note_failure(source, lease, error)
        raise
    return _finish(source, lease, began_at, numbers)


def _collect(source: Source, run: Run, lease: Lease, began_at: datetime) -> dict[str, int]:
    numbers = {**dict.fromkeys(NUMBERS, 0), **run.cursor.get("numbers", {})}
    for piece in PIECES[source.kind](source, began_at, lease.clock):
        fault_point("usage.collect.after_fetch")
        with lease.fenced() as held:
            _import_piece(source, held, piece, numbers, lease.clock())
            fault_point("usage.collect.before_commit")
        fault_point("usage.collect.after_commit")
    return numbers


def _import_piece(source: Source, held: Run, piece: Piece, numbers: dict[str, int], at: datetime) -> None:
    batch = piece.parsed.batch
    unread, remembered = _without_contact(piece.parsed.rejections, source.cursor.get("refused", []))
    if piece.listed_at is not None:
        counts = ingest_listing(source, batch, piece.listed_at, held)
    else:
        counts = ingest_batch(source=source, rows=batch, at=at, run=held, n_rejected=len(unread))
    refused, remembered = _without_contact(counts.rejections, remembered)
    _keep_refused(source, held, piece, [*unread, *refused], numbers["lines"], at)
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
    """Only while the source is what it was when this collection began: a cursor fits one place and no other."""
    same = Source.objects.filter(
        pk=source.pk, kind=source.kind, collecting=source.collecting, is_paused=False, namespace=source.namespace
    )
    if not same.update(cursor=cursor):
        if Source.objects.filter(pk=source.pk, is_paused=True).exists():
            raise RunCancelled(f"{source.slug} is paused.")
        raise Conflict("The source's settings changed meanwhile: it is collected again.", code="settings_changed")
    source.cursor = cursor


def _without_contact(rejections: list[Rejection], remembered: list[str]) -> tuple[list[Rejection], list[str]]:
    """Those that weren't refused before, word for word."""
    heard, new = set(remembered), []
    for one in rejections:
        mark = hashlib.sha256(f"{one.code}\n{one.message}\n{one.excerpt}".encode()).hexdigest()[:16]
        if mark not in heard:
            heard.add(mark)
            remembered = [*remembered, mark]
            new.append(one)
    return new, remembered[-MOST_REMEMBERED:]


def _keep_refused(
    source: Source, held: Run, piece: Piece, refused: list[Rejection], n_before: int, at: datetime
) -> None:
    """Listed like the lines of an import that was refused them; `place` says of which file or command."""
    if not refused:
        return
    made, _ = Import.objects.get_or_create(
        run=held,
        defaults={
            "source": source,
            "format": piece.format,
            "file_name": piece.place[-255:],
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
            message=f"{piece.place} line {one.line}: {one.message}"[:512],
            excerpt=one.excerpt,
        )
        for one in refused
    ]
    RejectedLine.objects.bulk_create(lines, ignore_conflicts=True)


def _note_failure(source: Source, lease: Lease, error: Exception) -> None:
    """What is stored stays; the next try waits longer with every failure."""
    at = lease.clock()
    told = error.message if isinstance(error, DomainError) else f"It failed: {type(error).__name__}."
    due_at = retry_due(source, at)
    with lease.fenced():
        Source.objects.filter(pk=source.pk).update(collect_error=told[:_MOST_ERROR], collect_due_at=due_at)


def _finish(source: Source, lease: Lease, began_at: datetime, numbers: dict[str, int]) -> dict[str, Any]:
    problems = source.cursor.get("problems") or {}
    told = "; ".join(f"{name}: {why}" for name, why in sorted(problems.items()))
    with lease.fenced():
        Source.objects.filter(pk=source.pk).update(
            collected_at=began_at, collect_error=told[:_MOST_ERROR], collect_due_at=next_due(source, began_at)
        )
        result = {**numbers, "problems": problems}
        lease.finish(result, lease.clock())
        fault_point("usage.collect.before_finish")
    return result
