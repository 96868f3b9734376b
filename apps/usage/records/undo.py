"""Undo an import: afterwards records and buckets are as if it had never happened.

Its records are removed and the versions that they replaced are restored, piece by piece, each in one fenced
transaction. Records received meanwhile are processed as if the import were already undone (see ingest).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import uuid4

from django.db import connection, transaction
from django.db.models import F

from apps.accounts import audit_log as audit
from apps.accounts.actor import Actor
from apps.core.errors import Conflict, NotFound
from apps.runs.fault_points import fault_point
from apps.runs.leases import Lease
from apps.runs.models import Run
from apps.runs.services import enqueue_run, work_other_runs
from apps.usage import pgbinary
from apps.usage.authority import require_open, require_write
from apps.usage.models import Import, Repetition, ReplacedRecord, RunLine, Source, TooLateRecord
from apps.usage.parsers.base import PENDING, instant
from apps.usage.records.ingest import IMPORT, rebuild
from apps.usage.records.overlaps import remove_presence
from apps.usage.records.record_rows import undo_records
from apps.usage.records.stored_versions import lock_source

KIND = "usage_undo"
AT_A_TIME = 50_000  # pieces touch mostly the same buckets: few large ones are faster
_OVER = (Run.State.SUCCEEDED, Run.State.FAILED, Run.State.CANCELLED)
_IDS = "SELECT COALESCE(min(id), 0), COALESCE(max(id), -1) FROM usage_record WHERE run_id = %s AND id > %s"
_NEXT = "SELECT array_agg(id) FROM usage_record WHERE id > %s AND id <= %s AND run_id = %s"

# For records that retention removed, the newest sealed hour is used. What the first of them were is only known from
# before: the first submissions of a source stay as they are then.
_TIMES = f"""
UPDATE usage_source SET last_record_end_at = COALESCE(
        found.last_end_at, (SELECT max(hour_at) FROM usage_sealedhour WHERE source_id = %(source)s)),
    first_submit_at = CASE WHEN sealed_before_at IS NULL THEN found.first_at ELSE usage_source.first_submit_at END,
    first_wait_at = CASE WHEN sealed_before_at IS NULL THEN found.wait_at ELSE usage_source.first_wait_at END
FROM (SELECT max(end_at) AS last_end_at, min(submit_at) AS first_at,
    min(submit_at) FILTER (WHERE submit_at < start_at OR state = {PENDING}) AS wait_at
    FROM usage_record WHERE source_id = %(source)s) AS found
WHERE id = %(source)s
"""  # noqa: S608 - constants only


@transaction.atomic
def undo_import(*, import_id: int, reason: str = "", at: datetime, actor: Actor) -> Import:
    """Request the undo of an import; repeated requests change nothing while it runs or when it is done.

    Raises:
        NotFound: there is no such import, or another person owns it.
        Conflict: it can't be undone, with the reason.
    """
    imports = Import.objects.select_related("source", "run", "undone_run").select_for_update(of=("self",), no_key=True)
    usage_import = imports.filter(pk=import_id).first()
    if usage_import is None or not (
        actor.is_admin or (actor.user is not None and usage_import.owner_id == actor.user.pk)
    ):
        raise NotFound(f"There is no import {import_id}.")
    require_write(actor, usage_import.source.slug)
    require_open(usage_import.source)
    if usage_import.undone_at is not None or (
        usage_import.undone_run is not None and usage_import.undone_run.state not in _OVER
    ):
        return usage_import
    refusal = undo_conflict(usage_import)
    if refusal is not None:
        raise refusal
    earlier = (
        usage_import.undone_run.cursor if usage_import.undone_run is not None else {}
    )  # resume an undo that stopped half-way
    usage_import.undone_run = enqueue_run(
        kind=KIND,
        subject=f"source:{usage_import.source.slug}",
        arguments={"import": usage_import.pk},
        owner=actor.user,
        idempotency_key=f"undo:{usage_import.pk}:{uuid4()}",
        at=at,
    )
    counts = usage_import.run.counts
    total = int(counts.get("new", 0)) + int(counts.get("corrected", 0))
    Run.objects.filter(pk=usage_import.undone_run.pk).update(progress_total=total, cursor=earlier)
    usage_import.save(update_fields=["undone_run"])
    details = {"import": usage_import.pk, "file": usage_import.file_name, "reason": reason.strip()}
    audit.record(actor=actor, verb="usage.undo_asked", at=at, subject=usage_import.source.slug, details=details)
    return usage_import


def undo_conflict(usage_import: Import) -> Conflict | None:
    """The reason why this import can't be undone, None if it can."""
    if usage_import.dry_run:
        return Conflict("A dry run has stored nothing that could be undone.", code="nothing_to_undo")
    if usage_import.run.kind != IMPORT:
        return Conflict("These records were collected: the next collection would import them again.", code="collected")
    if usage_import.run.state not in _OVER:
        return Conflict("This import is running: stop it first.", code="still_at_work")
    return _sealed_conflict(usage_import) or _dependency_conflict(usage_import)


def _sealed_conflict(usage_import: Import) -> Conflict | None:
    source = Source.all_objects.get(pk=usage_import.source_id)
    first_us = usage_import.run.cursor.get("changed_from_us")
    first_at = instant(int(first_us)) if first_us is not None else None
    sealed_at = source.sealed_before_at
    if sealed_at is None or first_at is None or first_at >= sealed_at:
        return None
    return Conflict(
        f"Its records begin on {first_at:%Y-%m-%d}, and the hours of {source.slug} before {sealed_at:%Y-%m-%d} are"
        " sealed: records of that time are no longer stored.",
        code="hours_sealed",
    )


def _dependency_conflict(usage_import: Import) -> Conflict | None:
    """The reason why records received later prevent the undo: they replaced or repeated records of the import."""
    replaced = ReplacedRecord.objects.filter(run=usage_import.run_id).exclude(by_run=usage_import.run_id)
    later = replaced.order_by("id").first()
    if later is not None:
        n = replaced.count()
        return Conflict(
            f"{n} of its records were corrected since by {_cause(later.by_run_id)}: {_remedy(later.by_run_id)}.",
            code="replaced_since",
        )
    again = Repetition.objects.filter(run=usage_import.run_id).order_by("id").first()
    if again is not None:
        return Conflict(
            f"{again.n_records} of its records were received again from {_cause(again.by_run_id)} and would be lost:"
            f" {_remedy(again.by_run_id)}.",
            code="repeated_since",
        )
    return None


def _cause(run_id: int | None) -> str:
    later = Import.objects.filter(run=run_id).first() if run_id is not None else None
    return f"import {later.pk} ({later.file_name})" if later is not None else "pushed or collected records"


def _remedy(run_id: int | None) -> str:
    if run_id is not None and Import.objects.filter(run=run_id).exists():
        return "undo that one first"
    return "send corrections or withdrawals of single records instead"


def run_undo(run: Run, lease: Lease) -> dict[str, Any]:
    """Handler of `usage_undo`: resumes behind the last committed piece."""
    usage_import = Import.objects.select_related("source", "run", "owner").get(pk=run.arguments["import"])
    cursor: dict[str, int] = {"id": 0, "last_id": 0, "removed": 0, "put_back": 0, **run.cursor}
    is_first = True
    while True:
        with lease.fenced() as held:
            lock_source(usage_import.source_id)
            refusal = (_dependency_conflict(usage_import) if is_first and not run.cursor else None) or _sealed_conflict(
                usage_import
            )
            if refusal is not None:
                raise refusal
            n_removed = _undo_piece(usage_import, cursor)
            held.cursor, held.progress_done = cursor, cursor["removed"]
            held.counts = {name: cursor[name] for name in ("removed", "put_back")}
            held.save(update_fields=["cursor", "progress_done", "counts"])
            fault_point("usage.undo.before_commit")
        fault_point("usage.undo.after_commit")
        is_first = False
        if not n_removed:
            return _finish(usage_import, lease, cursor)
        work_other_runs(lease)


def _undo_piece(usage_import: Import, cursor: dict[str, int]) -> int:
    chosen: list[Any] = []
    while not chosen:  # in an interval of ids, others may have written all records
        if cursor["id"] >= cursor["last_id"]:
            with connection.cursor() as db_cursor:
                db_cursor.execute(_IDS, [usage_import.run_id, cursor["id"]])
                first_id, cursor["last_id"] = db_cursor.fetchone()
            if cursor["last_id"] < 0:
                return 0
            cursor["id"] = first_id - 1
        after_id, cursor["id"] = cursor["id"], min(cursor["id"] + AT_A_TIME, cursor["last_id"])
        chosen = pgbinary.fetch_columns(_NEXT, [after_id, cursor["id"], usage_import.run_id])
    n_removed, n_back = undo_records(usage_import.source_id, chosen[0])
    cursor["removed"] += n_removed
    cursor["put_back"] += n_back
    return n_removed


def _rebuild_without(usage_import: Import, at: datetime) -> None:
    """Delete the lines of jobs that the import added, and make their records again from those that are left."""
    lines = RunLine.objects.filter(run=usage_import.run_id)
    names = set(lines.values_list("job", "array_task").distinct())
    if names:
        lines.delete()
        rebuild(Source.all_objects.get(pk=usage_import.source_id), names, at=at)


def _finish(usage_import: Import, lease: Lease, cursor: dict[str, int]) -> dict[str, Any]:
    at, run_id = lease.clock(), usage_import.run_id
    result = {name: cursor[name] for name in ("removed", "put_back")}
    with lease.fenced() as held:
        lock_source(usage_import.source_id)
        ReplacedRecord.objects.filter(by_run=run_id).delete()
        Repetition.objects.filter(by_run=run_id).delete()
        TooLateRecord.objects.filter(run=run_id).delete()
        _rebuild_without(usage_import, at)
        first_us, last_us = usage_import.run.cursor.get("first_us"), usage_import.run.cursor.get("last_us")
        if first_us is not None and last_us is not None:
            from_at, to_at = instant(int(first_us)), instant(int(last_us))
            if from_at is not None and to_at is not None:
                remove_presence(usage_import.source_id, from_at=from_at, to_at=to_at)
        with connection.cursor() as plain:
            plain.execute(_TIMES, {"source": usage_import.source_id})
        Source.all_objects.filter(pk=usage_import.source_id).update(watermark=F("watermark") + 1)
        Import.objects.filter(pk=usage_import.pk).update(undone_at=at)
        details = {**result, "import": usage_import.pk, "file": usage_import.file_name, "sha256": usage_import.sha256}
        owner = Actor(user=held.owner, via="worker")
        audit.record(actor=owner, verb="usage.import_undone", at=at, subject=usage_import.source.slug, details=details)
        fault_point("usage.undo.before_finish")
        lease.finish(result, at)
    return result
