"""Records ahead of our clock are refused, those of sealed times are listed, and every day's numbers are kept."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apps.accounts.actor import COMMAND
from apps.core.errors import Invalid
from apps.runs.services import work_run_now
from apps.usage.models import Bucket, Record, RejectedLine, ReplacedRecord, Source, SourceDay, TooLateRecord
from apps.usage.parsers.base import RecordBatch, RecordRow, RunEvent, microseconds
from apps.usage.parsers.runs import NOTHING
from apps.usage.records.ingest import ingest_batch
from apps.usage.records.source_clocks import ahead_of_clock, ahead_rejection, ahead_rejections, clock_skew_s
from apps.usage.records.versions import Counts
from apps.usage.services import NewImport, PushedRecords, push_records, start_import
from tests.instants import AT

SEAL = datetime(2026, 11, 2, tzinfo=UTC)
MINUTE = timedelta(minutes=1)

pytestmark = pytest.mark.django_db


def row(job: str = "1", **given: Any) -> RecordRow:
    values = {"user": "alice", "start_at": AT - timedelta(hours=2), "end_at": AT - MINUTE, "cpus": 1.0, **given}
    return RecordRow(job=job, **values)


def take(source: Source, *rows: RecordRow) -> Counts:
    return ingest_batch(source=source, rows=rows, at=AT)


@pytest.fixture
def sealed(source: Source) -> Source:
    Source.objects.filter(pk=source.pk).update(sealed_before_at=SEAL)
    return source


@pytest.mark.fault("F9")
def test_records_beyond_the_clock_tolerance_are_rejected_and_the_skew_is_stored(source: Source) -> None:
    counts = take(source, row(), row("2", end_at=AT + 5 * MINUTE), row("3", end_at=AT + 6 * MINUTE))
    assert (counts.new, counts.rejected) == (2, 1)
    refusal = counts.rejections[0]
    assert (refusal.line, refusal.code) == (3, "ahead_of_clock")
    assert "end (2026-11-20 12:06:00+00:00) is 360 s in the future" in refusal.message
    source.refresh_from_db()
    assert source.skew_s == 360
    take(source, row("4"))
    source.refresh_from_db()
    assert source.skew_s == 0


def test_old_records_do_not_measure_the_clock(source: Source) -> None:
    Source.objects.update(skew_s=7)
    take(source, row(start_at=SEAL, end_at=SEAL + MINUTE))
    source.refresh_from_db()
    assert source.skew_s == 7


@pytest.mark.parametrize("name", ["submit_at", "start_at"])
@pytest.mark.fault("F9")
def test_open_jobs_in_the_future_are_rejected(source: Source, name: str) -> None:
    later: dict[str, Any] = {name: AT + 10 * MINUTE}
    ahead = row(state="running", end_at=None, **later)
    assert take(source, ahead).rejected == 1
    assert not Record.objects.exists()
    assert list(SourceDay.objects.values_list("n_rejected", "n_ahead", "n_new")) == [(1, 1, 0)]


def test_each_source_has_its_own_tolerance(source: Source) -> None:
    Source.objects.update(skew_tolerance_s=3600)
    source.refresh_from_db()
    assert take(source, row(end_at=AT + 59 * MINUTE)).new == 1


def push(*records: dict[str, Any], atomic: bool = False) -> dict[str, Any]:
    body = io.BytesIO(json.dumps(records).encode())
    return push_records(
        PushedRecords(source_slug="cluster", body_stream=body, content_type="application/json", atomic=atomic),
        at=AT,
        actor=COMMAND,
    )


def record(job: str, end: str) -> dict[str, Any]:
    return {"job": job, "user": "alice", "start": "2026-11-20T10:00:00Z", "end": end, "cpus": 1}


def test_a_push_reports_future_records_and_all_or_nothing_accepts_none(source: Source) -> None:
    good, ahead = record("1", "2026-11-20T11:00:00Z"), record("2", "2026-11-20T13:00:00Z")
    with pytest.raises(Invalid) as caught:
        push(good, ahead, atomic=True)
    assert caught.value.fields[0].where == "line 2"
    assert not Record.objects.exists()
    answer = push(good, ahead)
    assert answer["new"] == 1
    assert [(one["line"], one["code"]) for one in answer["rejected"]] == [(2, "ahead_of_clock")]


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.fault("F9")
def test_an_import_lists_future_records(source: Source, monkeypatch: pytest.MonkeyPatch, dry_run: bool) -> None:
    start = int((AT - timedelta(hours=1)).timestamp())
    log = f"; UnixStartTime: {start}\n1 0 -1 60 1 -1 -1 -1 -1 -1 1 1 1 -1 -1 1 -1 -1\n"
    log += "2 0 -1 360000000 1 -1 -1 -1 -1 -1 1 1 1 -1 -1 1 -1 -1\n3 0 -1 86400 1 -1 -1 -1 -1 -1 1 1 1 -1 -1 1 -1 -1\n"
    made = start_import(
        NewImport(source_slug="cluster", format="swf", file=io.BytesIO(log.encode()), file_name="log", dry_run=dry_run),
        at=datetime(2020, 1, 1, tzinfo=UTC),
        actor=COMMAND,
    )
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
    run = work_run_now(made.run_id)
    assert run.state == "succeeded", run.error
    assert (run.counts["new"], run.counts["rejected"]) == (1, 2)
    codes = dict(RejectedLine.objects.values_list("line", "code"))
    assert codes == {3: "absurd_run_time", 4: "ahead_of_clock"}
    assert run.result["by_code"] == {"absurd_run_time": 1, "ahead_of_clock": 1}


def old(job: str = "1", **given: Any) -> RecordRow:
    return row(job, **{"start_at": SEAL - 120 * MINUTE, "end_at": SEAL - 60 * MINUTE, "cpus": 3.0, **given})


@pytest.mark.fault("F8")
def test_records_before_the_seal_are_listed_once_and_never_counted(sealed: Source) -> None:
    assert take(sealed, old(), row("2")).as_dict() == Counts(new=1, too_late=1).as_dict()
    assert take(sealed, old()).too_late == 1
    listed = TooLateRecord.objects.get()
    assert (listed.job, listed.cpu_s, listed.end_at) == ("1", 3 * 3600, SEAL - 60 * MINUTE)
    assert sum(Bucket.objects.values_list("cpu_s", flat=True)) == 119 * 60
    assert SourceDay.objects.get().n_too_late == 2


def test_a_record_that_is_too_late_moves_the_watermark_if_its_account_is_new(sealed: Source) -> None:
    def watermark() -> int:
        return Source.objects.values_list("watermark", flat=True).get(pk=sealed.pk)

    take(sealed, row("2"))
    before = watermark()
    take(sealed, old(job="3"))
    assert watermark() == before, "its account is known"
    take(sealed, old(job="4", user="newcomer"))
    assert watermark() == before + 1, "places of accounts in snapshots have another input"
    take(sealed, old(job="4", user="newcomer"))
    assert watermark() == before + 1


@pytest.mark.parametrize(
    "change",
    [
        old(revision=1),
        old(revision=1, end_at=SEAL + 60 * MINUTE),
        old(state="withdrawn", end_at=None),
    ],
    ids=["corrected", "corrected to end behind the seal", "withdrawn"],
)
def test_corrections_of_deleted_records_are_listed(sealed: Source, change: RecordRow) -> None:
    assert take(sealed, change).as_dict() == Counts(too_late=1).as_dict()
    assert not Record.objects.exists()
    assert TooLateRecord.objects.get().state == change.state


def test_a_first_report_that_ends_after_the_seal_counts(sealed: Source) -> None:
    assert take(sealed, old(end_at=SEAL + 60 * MINUTE)).new == 1


def test_a_running_job_with_a_late_end_is_closed(sealed: Source) -> None:
    take(sealed, old(state="running", end_at=None))
    assert take(sealed, old()).too_late == 1
    assert list(Record.objects.values_list("state", "note")) == [("withdrawn", "too_late")]
    assert not Bucket.objects.exists()


def test_every_day_has_its_numbers(source: Source) -> None:
    ingest_batch(source=source, rows=[row(), row("2"), row()], at=AT, n_rejected=4)
    take(source, row(revision=1), row("2", end_at=AT - 2 * MINUTE))
    ingest_batch(source=source, rows=[row("3")], at=AT + timedelta(days=1), n_rejected=1)
    columns = ("received_on", "n_new", "n_duplicate", "n_corrected", "n_late", "n_rejected")
    assert [line[1:] for line in SourceDay.objects.order_by("received_on").values_list(*columns)] == [
        (2, 1, 1, 1, 4),
        (1, 0, 0, 0, 1),
    ]


def test_a_replaced_finished_version_is_retained(source: Source) -> None:
    take(source, row(), row("2", state="running", end_at=None))
    take(source, row(revision=1, cpus=9.0), row("2"))
    kept = ReplacedRecord.objects.get()
    assert (kept.job, kept.revision, kept.cpus, kept.replaced_at) == ("1", 0, 1.0, AT)


def test_a_refusal_names_the_seconds_that_a_time_is_ahead() -> None:
    far_at = AT + timedelta(seconds=10_000_000)
    batch = RecordBatch.from_rows([RecordRow("7", "ada", start_at=AT, end_at=far_at, submit_at=AT, cpus=1.0)], [3])
    (rejection,) = ahead_rejections(batch, ahead_of_clock(batch, tolerance_s=60, at=AT), at=AT)
    assert (rejection.line, rejection.code) == (3, "ahead_of_clock")
    assert rejection.message.startswith("end (")
    assert " is 10000000 s in the future: " in rejection.message
    event = RunEvent("rest", "7", "", microseconds(far_at), 4, NOTHING, None)
    assert " is 10000000 s in the future: " in ahead_rejection(event, at=AT).message


def test_the_skew_of_a_clock_is_that_of_its_newest_instant() -> None:
    """0 where it isn't ahead; unknown where nothing is of the last day."""

    def skew_s(*ends_s: float) -> float | None:
        rows = [
            row(str(at), start_at=AT - timedelta(days=9), end_at=AT + timedelta(seconds=s))
            for at, s in enumerate(ends_s)
        ]
        return clock_skew_s(RecordBatch.from_rows(rows), at=AT)

    assert skew_s(90.5, -700_000.0) == 90.5
    assert skew_s(-90.0) == 0.0
    assert skew_s(1.0 - 86_400.0) == 0.0
    assert skew_s(-86_400.0) is None
    assert skew_s() is None
