from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import numpy as np
import pytest
from django.db import IntegrityError, connection, transaction
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from apps.accounts.actor import COMMAND
from apps.usage.bucket_deltas import FinishedRecords, compute_delta
from apps.usage.models import Bucket, Record, Source
from apps.usage.parsers.base import MOST_JOB_S, MOST_RATE, RecordBatch, RecordRow
from apps.usage.records.imports import DryRun
from apps.usage.records.ingest import ingest_batch
from apps.usage.records.record_rows import copy_records
from apps.usage.records.versions import Counts
from apps.usage.services import NewSource, make_source
from tests.examples import examples
from tests.instants import AT
from tests.oracles import ingest as oracle

MIDNIGHT = datetime(2026, 11, 1, tzinfo=UTC)

Stored = Callable[[], dict[str, list[tuple[Any, ...]]]]


def hour(n: float) -> datetime:
    return MIDNIGHT + timedelta(hours=n)


def row(job: str = "1", **given: Any) -> RecordRow:
    values = {"user": "alice", "group": "physics", "start_at": hour(1), "end_at": hour(2), "cpus": 1.0, **given}
    return RecordRow(job=job, **values)


def take(source: Source, *rows: RecordRow) -> dict[str, int]:
    counts = ingest_batch(source=source, rows=rows, at=AT)
    return {name: n for name, n in counts.as_dict().items() if n}


def cpu_s_by_hour() -> list[tuple[int, float]]:
    found = Bucket.objects.order_by("hour_at").values_list("hour_at", "cpu_s")
    return [(int((at - MIDNIGHT).total_seconds() // 3600), cpu_s) for at, cpu_s in found]


@pytest.mark.django_db
@pytest.mark.paper("4.28")
def test_usage_is_spread_over_the_hours_in_which_the_job_ran(source: Source) -> None:
    take(source, row(start_at=hour(1.25), end_at=hour(3.5), cpus=8))
    assert cpu_s_by_hour() == [(1, 8 * 2700), (2, 8 * 3600), (3, 8 * 1800)]
    assert list(Bucket.objects.order_by("hour_at").values_list("jobs", flat=True)) == [0, 0, 1]


@pytest.mark.django_db
@pytest.mark.paper("4.19")
def test_every_resource_is_counted_in_its_unit(source: Source) -> None:
    take(source, row(cpus=2, gpus=1, mem_mb=2048, nodes=0.5, billing=10))
    bucket = Bucket.objects.get(hour_at=hour(1))
    assert (bucket.cpu_s, bucket.gpu_s, bucket.mem_gb_s) == (7200, 3600, 7200)
    assert (bucket.node_s, bucket.billing) == (1800, 36000)


@pytest.mark.django_db
def test_a_job_without_length_is_counted_and_uses_nothing(source: Source) -> None:
    take(source, row(end_at=hour(1)))
    bucket = Bucket.objects.get()
    assert (bucket.jobs, bucket.cpu_s, bucket.hour_at) == (1, 0, hour(1))


@pytest.mark.django_db
@pytest.mark.fault("F5")
def test_ingesting_the_same_document_again_changes_nothing(source: Source, stored: Stored) -> None:
    rows = [row(str(n), cpus=n) for n in range(5)]
    assert take(source, *rows) == {"new": 5}
    before = stored()
    first_ids = list(Record.objects.order_by("id").values_list("id", flat=True))
    assert take(source, *rows, rows[0]) == {"duplicate": 6}
    assert stored() == before
    assert list(Record.objects.order_by("id").values_list("id", flat=True)) == first_ids
    source.refresh_from_db()
    assert (source.watermark, source.n_records) == (1, 5)


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("older", "newer"),
    [
        (row(revision=1, end_at=hour(5)), row(revision=2, end_at=hour(3))),
        (row(end_at=hour(2)), row(end_at=hour(3))),
        (row(state="running", end_at=None), row(end_at=hour(3))),
        (row(state="pending", submit_at=hour(1), start_at=None, end_at=None), row(state="running", end_at=None)),
        (row(end_at=hour(3)), row(state="withdrawn", end_at=None)),
        (row(state="withdrawn", end_at=None), row(revision=1, end_at=hour(3))),
    ],
    ids=["revision", "later end", "finished", "running", "withdrawn", "revision after a withdrawal"],
)
@pytest.mark.fault("F6")
def test_a_later_version_replaces_an_earlier_one_in_any_order(
    source: Source, stored: Stored, older: RecordRow, newer: RecordRow
) -> None:
    assert take(source, older) == {"new": 1}
    assert take(source, newer) == {"corrected": 1}
    forwards = stored()
    other = make_source(NewSource(slug="other", name="Other", namespace="cluster"), at=AT, actor=COMMAND)
    assert take(other, newer) == {"new": 1}
    assert take(other, older) == {"late": 1}
    backwards = [line for line in stored()["buckets"] if line[0] == "other"]
    assert [line[1:] for line in backwards] == [line[1:] for line in forwards["buckets"]]


@pytest.mark.django_db
@pytest.mark.fault("F7")
def test_a_withdrawn_record_removes_its_usage_and_is_not_counted_again(source: Source) -> None:
    take(source, row(cpus=0.3, end_at=hour(7.77)), row("2"))
    assert take(source, row(state="withdrawn", end_at=None)) == {"corrected": 1}
    assert cpu_s_by_hour() == [(1, 3600), (2, 0)]
    assert take(source, row(cpus=0.3, end_at=hour(7.77))) == {"late": 1}
    assert take(source, row("2", state="withdrawn", end_at=None)) == {"corrected": 1}
    assert not Bucket.objects.exists()


@pytest.mark.django_db
def test_a_correction_moves_usage_to_the_new_account_and_queue(source: Source) -> None:
    take(source, row(queue="short"), row("2", queue="short"))
    take(source, row(user="bob", queue="long", revision=1))
    found = Bucket.objects.filter(cpu_s__gt=0).values_list("account__user_name", "job_class__queue", "cpu_s")
    assert sorted(found) == [("alice", "short", 3600), ("bob", "long", 3600)]


@pytest.mark.django_db
def test_job_ids_are_distinguished_by_submit_time_restart_array_task_and_cluster(source: Source) -> None:
    rows = [
        row(),
        row(submit_at=hour(0)),
        row(restart=1),
        row(array_task="1"),
        row(cluster="c2"),
        row("11"),
    ]
    assert take(source, *rows) == {"new": 6}
    assert take(source, *rows) == {"duplicate": 6}


@pytest.mark.django_db
def test_the_source_supplies_missing_cluster_and_site(source: Source) -> None:
    Source.objects.update(cluster="home", site="here")
    source.refresh_from_db()
    take(source, row(), row("2", site="there", cluster="away"))
    assert sorted(Record.objects.values_list("cluster", "site")) == [("away", "there"), ("home", "here")]
    assert take(source, row(cluster="home")) == {"duplicate": 1}


@pytest.mark.django_db
@pytest.mark.fault("F9")
def test_pending_and_running_jobs_move_the_watermark_and_no_bucket(source: Source) -> None:
    take(source, row(state="pending", submit_at=hour(0), start_at=None, end_at=None))
    take(source, row(state="running", submit_at=hour(0), end_at=None))
    source.refresh_from_db()
    assert (source.watermark, source.last_record_end_at) == (2, None)
    assert not Bucket.objects.exists()


@pytest.mark.django_db
@pytest.mark.fault("F12")
def test_a_job_of_four_hundred_days_is_spread_to_the_last_second(source: Source) -> None:
    take(source, row(start_at=hour(0.5) - timedelta(days=400), end_at=hour(0.5), cpus=3))
    amounts = list(Bucket.objects.order_by("hour_at").values_list("cpu_s", flat=True))
    assert len(amounts) == 400 * 24 + 1
    assert sum(amounts) == 3 * 400 * 86400


def finished(*, start_us: int, end_us: int, cpus: float) -> FinishedRecords:
    one, nothing = np.ones(1, np.int64), np.zeros(1)
    times = (np.array([start_us]), np.array([end_us]))
    return FinishedRecords(
        one, one, one, one, np.array([b"s"]), *times, np.array([cpus]), nothing, nothing, nothing, nothing
    )


@given(
    start_us=st.integers(0, 4_000_000_000 * 10**6),
    length_us=st.integers(0, 40 * 86400 * 10**6),
    cpus=st.floats(0, 1e5) | st.just(1 / 3),
)
@pytest.mark.fault("F12")
def test_hourly_parts_are_whole_quanta_and_add_up(start_us: int, length_us: int, cpus: float) -> None:
    delta = compute_delta(finished(start_us=start_us, end_us=start_us + length_us, cpus=cpus))
    amounts = delta.amounts[:, 0]
    exact = cpus * length_us * 1024 / 1e6
    assert (amounts >= 0).all()
    assert abs(int(amounts.sum()) - exact) <= 1 + exact * 1e-15
    assert delta.amounts[:, -1].sum() == 1


@pytest.mark.fault("F13")
def test_the_largest_accepted_job_does_not_overflow() -> None:
    delta = compute_delta(finished(start_us=0, end_us=MOST_JOB_S * 10**6, cpus=MOST_RATE))
    hour = round(MOST_RATE * 3600 * 1024)
    assert hour < 2**53
    assert delta.amounts[:-1, 0].tolist() == [hour] * (MOST_JOB_S // 3600)


quarters = st.integers(0, 8).map(lambda n: n / 4)
instants = st.integers(0, 6 * 3600).map(lambda seconds: MIDNIGHT + timedelta(seconds=seconds))


@st.composite
def records(draw: st.DrawFn) -> RecordRow:
    state = draw(st.sampled_from(["finished"] * 4 + ["running", "withdrawn"]))
    submit_at = MIDNIGHT - timedelta(hours=draw(st.integers(0, 1)))
    start_at, end_at = sorted((draw(instants), draw(instants)))
    version = draw(st.integers(0, 1))
    return RecordRow(
        job=str(draw(st.integers(0, 4))),
        user=draw(st.sampled_from(["alice", "bob"])),
        site=draw(st.sampled_from(["", "north"])),
        queue=draw(st.sampled_from(["", "long"])),
        state=state,
        submit_at=submit_at,
        start_at=start_at,
        end_at=end_at if state == "finished" else None,
        cpus=draw(quarters),
        revision=version,
    )


def read_buckets(source: Source) -> dict[oracle.Bucket, tuple[float, float]]:
    columns = ("account__user_name", "account__group_name", "site", "job_class__queue", "hour_at", "cpu_s", "jobs")
    found = Bucket.objects.filter(source=source).values_list(*columns)
    return {line[:5]: line[5:] for line in found}


@pytest.mark.django_db(transaction=True)
@examples(60, suppress=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(st.lists(records(), max_size=12), max_size=4), number=st.integers(0, 10**9))
@pytest.mark.fault("F6")
def test_batches_with_repeats_corrections_and_disorder_equal_the_oracle(
    batches: list[list[RecordRow]], number: int
) -> None:
    source = Source.objects.create(slug=f"s{Source.objects.count()}", name="S", namespace="s", created_at=AT)
    total, dry_total = Counts(), Counts()
    dry = DryRun(source)
    for batch in batches:
        dry_total.add(dry.classify(RecordBatch.from_rows(batch), AT))
    for batch in batches:
        total.add(ingest_batch(source=source, rows=batch, at=AT))
    flat = [one for batch in batches for one in batch]
    kept, counts = oracle.newest(flat)
    assert total.as_dict() == {**counts, "too_late": 0, "rejected": 0} == dry_total.as_dict()
    assert read_buckets(source) == oracle.buckets_of(kept.values())
    assert total.core_s == sum(cpu_s for cpu_s, _ in oracle.buckets_of(kept.values()).values())
    assert Record.objects.filter(source=source).count() == len(kept)
    source.refresh_from_db()
    assert source.n_records == len(kept)


@pytest.mark.django_db
def test_sums_that_are_copied_and_sums_that_are_added_equal_the_oracle(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apps.usage.buckets._MANY", 1)  # batches of few sums look at the stored ones, as large ones do
    random = Random(3)
    rows: list[RecordRow] = []
    for batch in range(8):
        begins = [random.randrange(24) / 4 + 3 * batch for _ in range(20)]
        some = [
            row(
                f"{batch}{number:02}",
                user=random.choice(["alice", "bob"]),
                site=random.choice(["", "north"]),
                queue=random.choice(["", "long"]),
                start_at=hour(begin),
                end_at=hour(begin + random.randrange(40) / 4),
            )
            for number, begin in enumerate(begins)
        ]
        take(source, *some)
        rows += some
    assert read_buckets(source) == oracle.buckets_of(rows)


@pytest.mark.django_db
@pytest.mark.fault("F8")
def test_any_order_of_different_versions_ends_the_same(source: Source, stored: Stored) -> None:
    random = Random(7)
    versions = [
        row(str(job), revision=revision, cpus=revision + 0.1, end_at=hour(2 + random.random() * 50))
        for job in range(40)
        for revision in range(4)
    ]
    expected = None
    for number in range(4):
        random.shuffle(versions)
        shuffled = make_source(NewSource(slug=f"n{number}", name="N", namespace="same"), at=AT, actor=COMMAND)
        for start in range(0, len(versions), 23):
            take(shuffled, *versions[start : start + 23])
        mine = {name: [line[1:] for line in lines if line[0] == f"n{number}"] for name, lines in stored().items()}
        expected = expected or mine
        assert mine == expected
    assert expected is not None
    assert len(expected["records"]) == 40


@pytest.mark.django_db(transaction=True)
@pytest.mark.fault("F5")
def test_workers_with_overlapping_batches_count_each_record_once(source: Source, stored: Stored) -> None:
    rows = [row(str(n), user=f"u{n % 7}", end_at=hour(1.5 + n % 9), cpus=n % 4) for n in range(600)]
    counts = [Counts() for _ in range(3)]
    failures: list[BaseException] = []

    def send(worker: int, mine: Sequence[RecordRow]) -> None:
        try:
            for start in range(0, len(mine), 50):
                counts[worker].add(ingest_batch(source=source, rows=mine[start : start + 50], at=AT))
        except BaseException as failure:
            failures.append(failure)
        finally:
            connection.close()

    shares = [rows[:400], rows[200:], rows[::-1]]
    threads = [threading.Thread(target=send, args=(n, share)) for n, share in enumerate(shares)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert sum(count.new for count in counts) == 600
    assert sum(count.duplicate for count in counts) == 400 + 400 + 600 - 600
    assert read_buckets(source) == oracle.buckets_of(rows)


@pytest.mark.django_db(transaction=True)
def test_a_failure_in_the_middle_stores_nothing(
    source: Source, stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(source, row("kept"))
    before = stored()
    for place in ("after_keys", "after_copy", "after_buckets", "before_commit"):
        monkeypatch.setenv("FAULT", f"usage.ingest.{place}:raise:1")
        monkeypatch.setattr("apps.runs.fault_points._passed", __import__("collections").Counter())
        with pytest.raises(RuntimeError, match=place):
            take(source, row("lost"), row("kept", revision=1))
        assert stored() == before


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (row(cpus=1e13), "cpus"),
        (row(gpus=-1), "gpus"),
        (row(mem_mb=float("nan")), "mem_mb"),
        (row(restart=-1), "restart"),
        (row(start_at=hour(2), end_at=hour(1)), "ends before"),
        (row(start_at=None), "no start"),
        (row(end_at=None), "no end"),
    ],
)
def test_the_writer_rejects_records_that_no_reader_lets_pass(source: Source, bad: RecordRow, why: str) -> None:
    batch = RecordBatch.from_rows([bad])
    some_id = np.array([source.pk])
    with pytest.raises(IntegrityError, match=why):
        copy_records(source.pk, batch, some_id, some_id, None, AT)
    assert not Record.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize("unknown", ["source", "account", "job class"])
def test_the_writer_rejects_usage_of_unknown_objects(source: Source, unknown: str) -> None:
    take(source, row())
    known = Record.objects.get()
    ids = {"source": known.source_id, "account": known.account_id, "job class": known.job_class_id, unknown: 10**9}
    references = (np.array([ids["account"]]), np.array([ids["job class"]]))
    with pytest.raises(IntegrityError, match=f"There is no {unknown} 1000000000"):
        copy_records(ids["source"], RecordBatch.from_rows([row("another")]), *references, None, AT)
    assert Record.objects.count() == 1


@pytest.mark.django_db
@pytest.mark.parametrize("table", ["usage_source", "accounts_account", "usage_jobclass"])
def test_objects_referenced_by_usage_cannot_be_deleted(source: Source, table: str) -> None:
    take(source, row())
    with pytest.raises(IntegrityError, match="refers"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"DELETE FROM {table}")  # noqa: S608 - constants only


def test_counts_of_batches_add_up() -> None:
    total = Counts(new=1, corrected=2, core_s=2.5, changed_from_us=7, account_ids={1})
    total.add(Counts(new=3, duplicate=4, core_s=0.5, changed_from_us=5, account_ids={2}))
    counted = {name: n for name, n in total.as_dict().items() if n}
    assert counted == {"new": 4, "corrected": 2, "duplicate": 4}
    assert (total.core_s, total.changed_from_us, total.account_ids) == (3.0, 5, {1, 2})
