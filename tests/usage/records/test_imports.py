"""Imports as runs: exact counts, rejected lines, dry runs, cancelling, and death at every step."""

from __future__ import annotations

import gzip
import io
import os
import stat
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from apps.accounts.actor import COMMAND, Actor
from apps.accounts.models import AuditEvent, User
from apps.core import clock
from apps.core.errors import Conflict, Invalid, NotAllowed, NotFound, TooLarge
from apps.runs.leases import LeaseLost
from apps.runs.models import Run
from apps.runs.services import cancel_run, claim_run, work_due_runs, work_lease, work_run_now
from apps.usage import selectors
from apps.usage.models import Bucket, Import, Record, RejectedLine, Source
from apps.usage.parsers.base import Parsed, RecordBatch, RecordRow
from apps.usage.records import uploads
from apps.usage.records.imports import ImportTotals, run_import
from apps.usage.records.versions import Counts
from apps.usage.services import NewImport, confirm_import, start_import
from tests.instants import AT
from tests.killed_process import work_all, work_until_killed

HEADER = "; UnixStartTime: 1132444805\n"
PAST = datetime(2020, 1, 1, tzinfo=UTC)
BLOCK_BYTES = 4 * 1024**2

Stored = Callable[[], dict[str, list[tuple[Any, ...]]]]


def line(job: int, *, run: int = 3000, padding: int = 0) -> str:
    return f"{job} {job * 7} -1 {run} {1 + job % 3} -1 -1 -1 -1{' ' * padding} -1 1 {job % 5} {job % 2} -1 -1 1 -1 -1\n"


def log(n_jobs: int, *, padding: int = 0, extra: str = "") -> bytes:
    return (HEADER + "".join(line(job, padding=padding) for job in range(n_jobs)) + extra).encode()


def start(data: bytes, **given: Any) -> Import:
    options: dict[str, Any] = {"source_slug": "cluster", "format": "auto", "file_name": "log.swf", **given}
    at, actor = options.pop("at", AT), options.pop("actor", COMMAND)
    return start_import(NewImport(file=io.BytesIO(data), **options), at=at, actor=actor)


def done(data: bytes, **given: Any) -> Import:
    made = start(data, **given)
    run = work_run_now(made.run_id)
    assert run.state == "succeeded", run.error
    return Import.objects.select_related("run").get(pk=made.pk)


def kept_files() -> list[str]:
    directory = uploads.path_of("x").parent
    return sorted(path.name for path in directory.glob("*.usage")) if directory.is_dir() else []


@pytest.fixture(autouse=True)
def no_files_left_before() -> None:
    for name in kept_files():
        uploads.remove(name)


@pytest.mark.django_db
@pytest.mark.usefixtures("source")
def test_every_line_is_counted_and_each_rejected_one_is_listed() -> None:
    made = done(log(10, extra="1 2 3\n" + line(11, run=10**12) + line(3)))
    assert made.run.counts == {
        "new": 10,
        "duplicate": 1,
        "corrected": 0,
        "late": 0,
        "too_late": 0,
        "rejected": 2,
        "lines": 14,
    }
    found = selectors.list_rejected_lines(import_id=made.pk, actor=COMMAND)
    assert [(one.line, one.code) for one in found] == [(12, "too_few_fields"), (13, "absurd_run_time")]
    assert selectors.count_rejected_lines(import_id=made.pk, actor=COMMAND) == {
        "too_few_fields": 1,
        "absurd_run_time": 1,
    }
    assert made.run.result["by_code"] == {"too_few_fields": 1, "absurd_run_time": 1}
    assert made.run.progress_done == made.run.progress_total
    assert made.run.result["n_accounts"] == 10
    assert made.first_start_at == datetime.fromtimestamp(1132444805, UTC)
    assert kept_files() == []
    assert AuditEvent.objects.filter(verb="usage.imported").count() == 1


@pytest.mark.django_db
@pytest.mark.usefixtures("source")
@pytest.mark.parametrize("dry_run", [True, False])
def test_the_period_of_an_import_is_that_of_its_accepted_records(dry_run: bool) -> None:
    ahead = "99 899742601 -1 3000 1 -1 -1 -1 -1 -1 1 4 1 -1 -1 1 -1 -1\n"
    made, plain = done(log(10, extra=ahead), dry_run=dry_run), done(log(10), dry_run=True)
    assert made.run.result["by_code"] == {"ahead_of_clock": 1}
    assert made.last_end_at is not None
    assert (made.first_start_at, made.last_end_at) == (plain.first_start_at, plain.last_end_at)


@pytest.mark.django_db
@pytest.mark.usefixtures("source")
def test_jobs_with_zero_processors_are_noted() -> None:
    idle = "98 686 -1 3000 0 -1 -1 0 -1 -1 1 4 1 -1 -1 1 -1 -1\n"
    made = done(log(3, extra=idle))
    assert made.run.counts["new"] == 4
    assert made.run.result["notes"]["no_processors"] == 1


@pytest.mark.django_db
@pytest.mark.usefixtures("source")
def test_the_first_ten_thousand_rejected_lines_are_listed_and_all_are_counted() -> None:
    made = done(log(1, extra="x\n" * 12_000))
    assert made.run.counts["rejected"] == 12_000
    assert RejectedLine.objects.count() == 10_000
    assert selectors.count_rejected_lines(import_id=made.pk, actor=COMMAND) == {"too_few_fields": 12_000}


@pytest.mark.django_db
@pytest.mark.usefixtures("source")
def test_a_dry_run_counts_the_same_and_stores_nothing(stored: Stored) -> None:
    done(log(5))
    before = stored()
    data = log(20, extra=line(3) + "bad\n")
    dry = done(data, dry_run=True)
    assert stored() == before
    real = confirm_import(import_id=dry.pk, at=AT, actor=COMMAND)
    assert confirm_import(import_id=dry.pk, at=AT, actor=COMMAND).pk == real.pk
    run = work_run_now(real.run_id)
    assert (
        run.counts
        == dry.run.counts
        == {**{"new": 15, "duplicate": 6, "corrected": 0, "late": 0, "too_late": 0, "rejected": 1, "lines": 23}}
    )
    assert run.result["cpu_s"] == dry.run.result["cpu_s"]
    assert Record.objects.count() == 20
    assert kept_files() == []
    with pytest.raises(Conflict):
        confirm_import(import_id=real.pk, at=AT, actor=COMMAND)


@pytest.mark.django_db
@pytest.mark.usefixtures("source")
def test_a_dry_run_without_its_file_is_reported() -> None:
    dry = done(log(2), dry_run=True)
    uploads.remove(dry.stored_path)
    with pytest.raises(Conflict) as caught:
        confirm_import(import_id=dry.pk, at=AT, actor=COMMAND)
    assert caught.value.code == "file_gone"


@pytest.mark.django_db
@pytest.mark.usefixtures("source")
def test_the_uploaded_file_is_readable_by_the_service_alone() -> None:
    made = start(log(1))
    assert stat.S_IMODE(uploads.path_of(made.stored_path).stat().st_mode) == 0o600


@pytest.mark.django_db
@pytest.mark.usefixtures("source")
def test_a_gzip_file_can_have_several_members_and_padding() -> None:
    data = log(100)
    packed = gzip.compress(data[:1000]) + gzip.compress(data[1000:]) + b"\0" * 512
    assert done(packed).run.counts["new"] == 100


@pytest.mark.django_db
@pytest.mark.usefixtures("source")
@pytest.mark.parametrize("place", ["header", "middle", "end", "cut", "tail"])
def test_a_broken_gzip_is_rejected_with_the_byte(place: str, stored: Stored) -> None:
    packed = bytearray(gzip.compress(log(20_000)))
    n = len(packed)
    if place == "cut":
        packed = packed[: n // 2]
    elif place == "tail":
        packed += b"garbage"
    else:
        at = {"header": 3, "middle": n // 2, "end": n - 6}[place]
        packed[at : at + 4] = bytes(255 - byte for byte in packed[at : at + 4])
    with pytest.raises(Invalid, match=r"at byte \d+") as caught:
        start(bytes(packed))
    assert caught.value.code == "corrupt_gzip"
    assert stored()["records"] == []
    assert not Run.objects.exists()
    assert kept_files() == []


@pytest.mark.django_db
@pytest.mark.usefixtures("source")
def test_bombs_empty_files_and_files_over_the_limit_are_rejected(settings: Any) -> None:
    with pytest.raises(TooLarge, match="unpacks"):
        start(gzip.compress(b" " * 64 * 1024**2))
    with pytest.raises(Invalid, match="empty"):
        start(b"")
    with pytest.raises(Invalid, match="recognised"):
        start(b"name;colour\n")
    settings.FAIRSHARE_UPLOAD_BYTES = 1000
    with pytest.raises(TooLarge):
        start(log(1000))
    assert kept_files() == []


@pytest.mark.django_db
@pytest.mark.usefixtures("source")
def test_a_log_without_a_start_time_fails_with_the_remedy() -> None:
    run = work_run_now(start(b"; Version: 2.2\n" + line(1).encode()).run_id)
    assert (run.state, run.error_code, run.attempts) == ("failed", "no_start_time", 1)
    assert "UnixStartTime" in run.error
    assert kept_files() == []


@pytest.mark.django_db
@pytest.mark.usefixtures("source")
def test_a_cancelled_import_keeps_whole_batches_and_can_be_completed_later() -> None:
    data = log(3_000, padding=4096)
    made = start(data)
    lease = claim_run(at=AT)
    assert lease is not None
    take_piece = lease.fenced
    n_pieces = 0

    def cancel_after_one() -> Any:
        nonlocal n_pieces
        n_pieces += 1
        if n_pieces == 2:
            cancel_run(run_id=made.run_id, at=AT, actor=COMMAND)
        return take_piece()

    lease.fenced = cancel_after_one  # type: ignore[method-assign]
    work_lease(lease)
    run = Run.objects.get()
    assert run.state == "cancelled"
    assert 0 < run.counts["new"] < 3_000
    assert Record.objects.count() == run.counts["new"]
    again = done(data)
    assert again.run.counts["new"] + again.run.counts["duplicate"] == 3_000
    assert Record.objects.count() == 3_000


@pytest.mark.django_db
@pytest.mark.usefixtures("source")
def test_a_worker_without_its_lease_commits_no_batch() -> None:
    start(log(100))
    late = claim_run(at=AT)
    assert late is not None
    stale = Run.objects.get()
    Run.objects.update(lease_until=PAST)
    newer = claim_run(at=AT)
    assert newer is not None
    with pytest.raises(LeaseLost):
        run_import(stale, late)
    assert not Record.objects.exists()
    work_lease(newer)
    assert Run.objects.get().state == "succeeded"
    assert Record.objects.count() == 100


@pytest.mark.faults
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("source")
@pytest.mark.parametrize(
    "place",
    [
        "ingest.after_copy:kill:2",
        "import.after_commit:kill:1",
        *(
            pytest.param(place, marks=pytest.mark.deep)
            for place in (
                "ingest.after_keys:kill:2",
                "ingest.after_buckets:kill:1",
                "ingest.before_commit:kill:3",
                "import.after_commit:kill:3",
                "import.before_finish:kill",
            )
        ),
    ],
)
@pytest.mark.fault("F1")
def test_a_worker_killed_anywhere_leaves_an_import_that_ends_exactly(
    place: str, stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(clock.VARIABLE, AT.isoformat())
    data = log(2_000, padding=6_000, extra="bad\n")
    assert 2 * BLOCK_BYTES < len(data) < 3 * BLOCK_BYTES + 10**6
    made = start(data)
    work_until_killed(work_all, fault=f"usage.{place}")
    interrupted = Run.objects.get()
    assert interrupted.state == "running"
    assert Record.objects.count() == interrupted.counts.get("new", 0)
    Run.objects.update(lease_until=PAST)
    assert work_due_runs(clock=lambda: AT) == 1
    run = Run.objects.get()
    assert (run.state, run.attempts) == ("succeeded", 2)
    assert run.counts == {
        "new": 2_000,
        "duplicate": 0,
        "corrected": 0,
        "late": 0,
        "too_late": 0,
        "rejected": 1,
        "lines": 2_002,
    }
    assert [one.line for one in RejectedLine.objects.filter(usage_import=made)] == [2_002]
    seconds = sum(3000 * (1 + job % 3) for job in range(2_000))
    assert sum(Bucket.objects.values_list("cpu_s", flat=True)) == seconds == run.result["cpu_s"]
    assert sum(Bucket.objects.values_list("jobs", flat=True)) == 2_000
    assert Source.objects.get().n_records == 2_000
    assert kept_files() == []
    before = stored()
    assert done(data).run.counts["duplicate"] == 2_000
    assert stored() == before


@pytest.mark.django_db
@pytest.mark.usefixtures("source")
def test_only_those_who_may_write_import_and_only_the_owner_sees_it() -> None:
    person = Actor(user=User.objects.create(username="p"), via="page")
    admin = Actor(user=User.objects.create(username="a", is_superuser=True), via="page")
    with pytest.raises(NotAllowed):
        start(log(1), actor=person)
    made = start(log(1), actor=admin)
    assert selectors.list_imports(actor=admin) == [made]
    assert selectors.list_imports(actor=person) == []
    with pytest.raises(NotFound):
        selectors.get_import(import_id=made.pk, actor=person)
    with pytest.raises(NotFound):
        confirm_import(import_id=made.pk, at=AT, actor=person)


@pytest.mark.django_db
@pytest.mark.usefixtures("source")
def test_abandoned_files_are_removed_after_a_day(tmp_path: Path, settings: Any) -> None:
    settings.FILE_UPLOAD_TEMP_DIR = str(tmp_path / "tmp")
    left = tmp_path / "tmp" / "tmpab" / "dump.cfg"  # of a killed process
    left.parent.mkdir(parents=True)
    left.write_bytes(b"x")
    stray = uploads.path_of("stray.usage")
    stray.parent.mkdir(parents=True, exist_ok=True)
    stray.write_bytes(b"x")
    fresh = uploads.path_of("fresh.usage")
    fresh.write_bytes(b"x")
    old = (AT - timedelta(days=2)).timestamp()
    for path in (stray, left):
        os.utime(path, (old, old))
    os.utime(fresh, (AT.timestamp(), AT.timestamp()))
    uploads.remove_unused([], at=AT)
    assert (stray.exists(), left.exists(), fresh.exists()) == (False, False, True)


@pytest.mark.django_db(transaction=True)
def test_lines_of_joined_rows_are_counted_singly(source: Source) -> None:
    header = b"JobIDRaw|User|JobName|State|Submit|Start|End|AllocCPUS\n"
    made = done(header + b"x\n" * 1000, format="sacct")
    assert made.run.result["rejected"] == 1000
    assert made.run.result["by_code"] == {"too_few_fields": 1000}
    assert RejectedLine.objects.count() == 5  # of 200 lines each


def test_totals_of_a_dry_run_add_up_by_account_over_all_pieces() -> None:
    totals = ImportTotals({})
    for user, core_s in (("ada", 10.0), ("ben", 3.0), ("ada", 2.5)):
        rows = [RecordRow("1", user, start_at=AT - timedelta(hours=1), end_at=AT, cpus=1.0)]
        batch = RecordBatch.from_rows(rows)
        totals.add(Counts(core_s=core_s, core_s_of={batch.people[0]: core_s}), Parsed(batch, [], {}, {}, 1), batch)
    result = totals.result()
    assert [(names[0], core_s) for names, core_s in zip(result["names"], result["core_s_of_names"], strict=True)] == [
        ("ada", 12.5),
        ("ben", 3.0),
    ]
    assert (result["cpu_s"], result["lines"]) == (15.5, 3)


def test_counts_of_two_batches_add_up() -> None:
    names = ("new", "duplicate", "corrected", "late", "too_late", "rejected", "vanished")
    ones: dict[str, Any] = dict.fromkeys(names, 1)
    tens: dict[str, Any] = {name: 10 * at for at, name in enumerate(names)}
    total = Counts(**ones, core_s=1.5, account_ids={1}, notes={"a": 1}, changed_from_us=7, first_us=5, last_us=6)
    total.add(
        Counts(
            **tens,
            core_s=2.0,
            account_ids={1, 2},
            notes={"a": 2, "b": 1},
            changed_from_us=4,
            first_us=8,
            last_us=9,
        )
    )
    assert [getattr(total, name) for name in names] == [1, 11, 21, 31, 41, 51, 61]
    assert (total.core_s, total.account_ids, total.notes) == (3.5, {1, 2}, {"a": 3, "b": 1})
    assert (total.changed_from_us, total.first_us, total.last_us) == (4, 5, 9)
    total.add(Counts())
    assert (total.new, total.changed_from_us, total.first_us, total.last_us) == (1, 4, 5, 9)
