"""An import undone: records and buckets as if it had never been, or a reason why not."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import AuditEvent, User
from apps.core.errors import Conflict, NotFound
from apps.runs.models import Run
from apps.runs.services import cancel_run, work_run_now
from apps.usage.models import Bucket, Import, Record, Repetition, ReplacedRecord, SiteDay, Source, TooLateRecord
from apps.usage.records import undo
from apps.usage.records.undo import undo_import
from apps.usage.services import NewImport, PushedRecords, push_records, start_import
from tests.instants import AT

MIDNIGHT = datetime(2026, 11, 1, tzinfo=UTC)

Stored = Callable[[], dict[str, list[tuple[Any, ...]]]]

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("source")]


def record(job: int | str, *, hours: float = 1, **given: Any) -> dict[str, Any]:
    start, end = MIDNIGHT + timedelta(hours=2), MIDNIGHT + timedelta(hours=2 + hours)
    times = {"start": start.isoformat(), "end": end.isoformat()}
    return {"job": str(job), "user": "alice", "cpus": 1, "site": "north", **times, **given}


def running(job: int | str, **given: Any) -> dict[str, Any]:
    return {**record(job), "state": "running", "end": None, **given}


def bring(*records: dict[str, Any], name: str = "log.ndjson", **given: Any) -> Import:
    body = "\n".join(json.dumps({k: v for k, v in one.items() if v is not None}) for one in records)
    options = {"source_slug": "cluster", "format": "ndjson", "file_name": name, **given}
    made = start_import(NewImport(file=io.BytesIO(body.encode() + b"\n"), **options), at=AT, actor=COMMAND)
    run = work_run_now(made.run_id)
    assert run.state == "succeeded", run.error
    return Import.objects.get(pk=made.pk)


def push(*records: dict[str, Any]) -> dict[str, Any]:
    body = io.BytesIO(json.dumps([{k: v for k, v in one.items() if v is not None} for one in records]).encode())
    return push_records(
        PushedRecords(source_slug="cluster", body_stream=body, content_type="application/json"), at=AT, actor=COMMAND
    )


def undone(made: Import) -> Run:
    asked = undo_import(import_id=made.pk, reason="wrong file", at=AT, actor=COMMAND)
    assert asked.undone_run_id is not None
    return work_run_now(asked.undone_run_id)


def facts() -> tuple[int, Any]:
    return Source.objects.values_list("n_records", "last_record_end_at").get()


def test_undo_removes_new_records_and_restores_replaced_versions(stored: Stored) -> None:
    push(record(1), record(2), running(3))
    before, counted = stored(), facts()
    made = bring(record(1, cpus=5, revision=1), record(3, hours=9, user="bob"), record(4), record(2))
    assert made.run.counts["corrected"] == 2
    run = undone(made)
    assert (run.state, run.result) == ("succeeded", {"removed": 3, "put_back": 2})
    assert stored() == before
    assert facts() == counted
    made.refresh_from_db()
    assert made.undone_at is not None
    assert not ReplacedRecord.objects.exists()
    assert AuditEvent.objects.filter(verb="usage.import_undone", subject="cluster").count() == 1
    assert AuditEvent.objects.get(verb="usage.undo_asked").details["reason"] == "wrong file"


def first_times() -> tuple[Any, Any]:
    return Source.objects.values_list("first_submit_at", "first_wait_at").get()


def test_an_undone_import_tells_nothing_of_submit_times_any_more(stored: Stored) -> None:
    push(record(1))
    known = first_times()
    assert known[0] is not None
    submit_at = (known[0] - timedelta(days=9)).isoformat()
    made = bring(record(2, submit=submit_at))
    assert first_times() == (datetime.fromisoformat(submit_at),) * 2
    undone(made)
    assert first_times() == known


def test_undo_of_versions_replaced_within_the_file_leaves_nothing(stored: Stored) -> None:
    push(record(1))
    before = stored()
    made = bring(*(record(1, revision=n, cpus=n) for n in range(1, 5)), running(2), record(2, hours=3))
    undone(made)
    assert stored() == before


def test_an_undone_file_can_be_imported_again(stored: Stored) -> None:
    made = bring(record(1), record(2))
    brought = stored()
    undone(made)
    assert not Record.objects.exists()
    assert not Bucket.objects.exists()
    assert not SiteDay.objects.exists()
    bring(record(1), record(2))
    assert stored() == brought


def test_undo_runs_in_batches_and_resumes(stored: Stored, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undo, "AT_A_TIME", 3)
    push(record(1))
    before = stored()
    made = bring(*(record(n, revision=1) for n in range(10)))
    monkeypatch.setenv("FAULT", "usage.undo.after_commit:raise:2")
    monkeypatch.setattr("apps.runs.fault_points._passed", __import__("collections").Counter())
    asked = undo_import(import_id=made.pk, at=AT, actor=COMMAND)
    assert undo_import(import_id=made.pk, at=AT, actor=COMMAND).undone_run_id == asked.undone_run_id
    run = work_run_now(asked.undone_run_id or 0)
    assert (run.attempts, run.result) == (2, {"removed": 10, "put_back": 1})
    assert stored() == before


def test_records_sent_during_undo_are_treated_as_if_it_had_finished(
    stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(undo, "AT_A_TIME", 2)
    push(record(1))
    made = bring(*(record(n, revision=1, cpus=7) for n in range(6)))
    asked = undo_import(import_id=made.pk, at=AT, actor=COMMAND)
    sent: list[dict[str, Any]] = []

    def send(place: str) -> None:
        if place == "usage.undo.after_commit" and not sent:
            sent.append(push(record(4), record(5, revision=1, cpus=7), record(1, hours=2)))

    monkeypatch.setattr("apps.usage.records.undo.fault_point", send)
    assert work_run_now(asked.undone_run_id or 0).state == "succeeded"
    assert {name: sent[0][name] for name in ("new", "duplicate", "corrected", "late")} == {
        "new": 2,
        "duplicate": 0,
        "corrected": 1,
        "late": 0,
    }
    found = Record.objects.order_by("job").values_list("job", "cpus", "revision")
    assert list(found) == [("1", 1, 0), ("4", 1, 0), ("5", 7, 1)]


def test_a_later_import_that_replaced_one_of_its_records_is_named() -> None:
    first = bring(record(1), record(2))
    second = bring(record(2, hours=5), name="later.ndjson")
    with pytest.raises(Conflict, match=rf"import {second.pk} \(later.ndjson\): undo that one first") as caught:
        undo_import(import_id=first.pk, at=AT, actor=COMMAND)
    assert caught.value.code == "replaced_since"
    undone(second)
    assert undone(first).result == {"removed": 2, "put_back": 0}
    assert not Record.objects.exists()


def test_records_also_sent_by_another_import_are_kept() -> None:
    first, second = bring(record(1)), bring(record(1), name="again.ndjson")
    with pytest.raises(Conflict, match=r"again\.ndjson") as caught:
        undo_import(import_id=first.pk, at=AT, actor=COMMAND)
    assert caught.value.code == "repeated_since"
    assert undone(second).result == {"removed": 0, "put_back": 0}
    push(record(1))
    with pytest.raises(Conflict, match="pushed or collected"):
        undo_import(import_id=first.pk, at=AT, actor=COMMAND)
    Repetition.objects.all().delete()
    assert undone(first).result["removed"] == 1


def test_an_older_version_sent_since_blocks_undo() -> None:
    first = bring(record(1, revision=2))
    assert push(record(1))["late"] == 1
    with pytest.raises(Conflict, match="received again"):
        undo_import(import_id=first.pk, at=AT, actor=COMMAND)


def test_sealed_hours_block_undo() -> None:
    made = bring(record(1))
    Source.objects.update(sealed_before_at=MIDNIGHT + timedelta(days=2))
    with pytest.raises(Conflict, match="before 2026-11-03 are sealed") as caught:
        undo_import(import_id=made.pk, at=AT, actor=COMMAND)
    assert caught.value.code == "hours_sealed"


def test_late_records_are_removed_with_their_import() -> None:
    Source.objects.update(sealed_before_at=MIDNIGHT + timedelta(hours=2.5))
    made = bring(record(1, hours=0.25), record(2, start=(MIDNIGHT + timedelta(hours=2.6)).isoformat()))
    assert (made.run.counts["too_late"], made.run.counts["new"]) == (1, 1)
    assert undone(made).state == "succeeded"
    assert not TooLateRecord.objects.exists()


def test_dry_runs_and_running_imports_cannot_be_undone() -> None:
    dry = bring(record(1), dry_run=True)
    with pytest.raises(Conflict, match="stored nothing"):
        undo_import(import_id=dry.pk, at=AT, actor=COMMAND)
    waiting = start_import(
        NewImport(
            source_slug="cluster", format="ndjson", file=io.BytesIO(json.dumps(record(1)).encode()), file_name="f"
        ),
        at=AT,
        actor=COMMAND,
    )
    with pytest.raises(Conflict, match="running"):
        undo_import(import_id=waiting.pk, at=AT, actor=COMMAND)
    cancel_run(run_id=waiting.run_id, at=AT, actor=COMMAND)
    assert undone(Import.objects.get(pk=waiting.pk)).result == {"removed": 0, "put_back": 0}


def test_undo_needs_write_access_and_visibility_of_the_import() -> None:
    made = bring(record(1))
    person = Actor(user=User.objects.create(username="p"), via="page")
    with pytest.raises(NotFound):
        undo_import(import_id=made.pk, at=AT, actor=person)


def start_whole(*lines: str) -> Run:
    made = start_import(
        NewImport(
            source_slug="cluster",
            format="ndjson",
            file=io.BytesIO("\n".join(lines).encode()),
            file_name="f",
            all_or_nothing=True,
        ),
        at=AT,
        actor=COMMAND,
    )
    return work_run_now(made.run_id)


def test_all_or_nothing_rejects_a_file_with_an_invalid_line() -> None:
    good = json.dumps(record(1))
    run = start_whole(good, "{", good)
    assert (run.state, run.error_code) == ("failed", "records_rejected")
    assert "1 of 3 lines are invalid, so none was imported" in run.error
    assert not Record.objects.exists()
    made = Import.objects.get()
    assert [(one.line, one.code) for one in made.rejected_lines.all()] == [(2, "bad_json")]


def test_all_or_nothing_accepts_a_valid_file_also_after_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAULT", "usage.import.after_check:raise")
    monkeypatch.setattr("apps.runs.fault_points._passed", __import__("collections").Counter())
    run = start_whole(json.dumps(record(1)), json.dumps(record(2)))
    assert (run.state, run.attempts, run.counts["new"], run.counts["lines"]) == ("succeeded", 2, 2, 2)
    assert run.progress_done == run.progress_total
    assert Record.objects.count() == 2


def test_a_second_undo_command_reports_nothing_to_remove() -> None:
    made = bring(record(1), record(2))
    out = io.StringIO()
    call_command("undo_import", str(made.pk), stdout=out)
    assert out.getvalue() == "2 records removed, 0 earlier versions restored\n"
    with pytest.raises(CommandError, match="nothing was left to remove") as caught:
        call_command("undo_import", str(made.pk), stdout=out)
    assert caught.value.returncode == 1
    assert AuditEvent.objects.filter(verb="usage.undo_asked").count() == 1
