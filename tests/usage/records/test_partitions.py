"""Partitions of records: made by the writer, pruned by queries, dropped by retention."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from django.db import connection, connections, transaction

from apps.core.postgresql import analyze_grown
from apps.runs.models import Run
from apps.runs.services import work_run_now
from apps.usage import pgbinary
from apps.usage.models import Record, SealedHour, Source
from apps.usage.parsers.base import RecordRow, microseconds
from apps.usage.records import partitions, retention
from apps.usage.records.ingest import GROWING, ingest_batch
from apps.usage.records.retention import enqueue_retention
from tests.instants import AT

Stored = Any
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture(autouse=True)
def clock_at_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())


def job(number: int, submit_at: datetime, **fields: Any) -> RecordRow:
    values: dict[str, Any] = {"user": f"u{number % 5}", "cpus": 1 + number % 3, "start_at": submit_at + HOUR}
    values["end_at"] = values["start_at"] + (1 + number % 4) * HOUR
    return RecordRow(job=str(number), submit_at=submit_at, **{**values, **fields})


def months_of_jobs(n: int = 60) -> list[RecordRow]:
    """Jobs of a year, one in six of them still open or withdrawn."""
    rows = [job(number, AT - timedelta(days=6 * number + 1)) for number in range(n)]
    for number in range(0, n, 6):
        rows[number] = rows[number]._replace(state="running", end_at=None)
    rows[1] = rows[1]._replace(state="withdrawn", end_at=None)
    return rows


def names() -> list[str]:
    return [name for name, _until_at in partitions.list_partitions()]


@pytest.mark.parametrize(
    ("submit_at", "name", "bounds"),
    [
        (datetime(1970, 1, 1, tzinfo=UTC), "usage_record_before", (None, datetime(2000, 1, 1, tzinfo=UTC))),
        (datetime(1999, 12, 31, 23, 59, tzinfo=UTC), "usage_record_before", (None, datetime(2000, 1, 1, tzinfo=UTC))),
        (
            datetime(2005, 11, 20, tzinfo=UTC),
            "usage_record_2005",
            (datetime(2005, 1, 1, tzinfo=UTC), datetime(2006, 1, 1, tzinfo=UTC)),
        ),
        (
            datetime(2026, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
            "usage_record_2026_12",
            (datetime(2026, 12, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)),
        ),
        (datetime(2199, 1, 1, tzinfo=UTC), "usage_record_after", (datetime(2100, 1, 1, tzinfo=UTC), None)),
    ],
)
def test_a_submission_has_one_partition(submit_at: datetime, name: str, bounds: tuple[Any, Any]) -> None:
    (number,) = partitions.partitions_of(np.array([microseconds(submit_at)])).tolist()
    assert (partitions.name_of(number), partitions.bounds_of(number)) == (name, bounds)


@pytest.mark.django_db
def test_the_writer_makes_the_partitions_of_its_records(source: Source) -> None:
    odd = [datetime(year, 3, 1, tzinfo=UTC) for year in (1971, 1999, 2003, 2019, 2020)]
    rows = [job(number, at) for number, at in enumerate(odd)] + months_of_jobs(20)
    assert ingest_batch(source=source, rows=rows, at=AT).new == len(rows)
    assert Record.objects.count() == len(rows)
    assert set(names()) >= {"usage_record_before", "usage_record_2003", "usage_record_2019", "usage_record_2020_03"}
    for name, until_at in partitions.list_partitions():
        with connection.cursor() as cursor:
            cursor.execute(f'SELECT max(submit_at) FROM "{name}"')  # noqa: S608 - its own name
            (last_at,) = cursor.fetchone()
        assert last_at is None or until_at is None or last_at < until_at
    assert ingest_batch(source=source, rows=rows, at=AT).duplicate == len(rows)


@pytest.mark.django_db
def test_a_writer_waits_for_no_reader_to_make_a_partition(source: Source) -> None:
    """Nor does a reader for it: neither takes a lock that the other needs."""
    ingest_batch(source=source, rows=[job(1, AT - DAY)], at=AT)
    with connection.cursor() as cursor:
        partitions.make_partitions(np.array([microseconds(datetime(2021, 5, 5, tzinfo=UTC))]))
        cursor.execute("SELECT mode FROM pg_locks WHERE pid = pg_backend_pid() AND relation = 'usage_record'::regclass")
        modes = {mode for (mode,) in cursor.fetchall()}
    assert "ShareUpdateExclusiveLock" in modes
    assert not modes & {"AccessExclusiveLock", "ExclusiveLock", "ShareLock", "ShareRowExclusiveLock"}


def plan_of(statement: str, parameters: list[Any]) -> str:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) {statement}", parameters)
        return "\n".join(line for (line,) in cursor.fetchall())


@pytest.mark.django_db
def test_queries_read_only_the_partitions_of_their_times(source: Source) -> None:
    ingest_batch(source=source, rows=months_of_jobs(), at=AT)
    analyze_grown(*GROWING)
    assert len([name for name in names() if "_20" in name]) >= 11
    day = plan_of("SELECT * FROM usage_record WHERE submit_at >= %s AND submit_at < %s", [AT - 20 * DAY, AT - 19 * DAY])
    read = {name for name in names() if name in day}
    assert read <= {f"usage_record_{AT - 20 * DAY:%Y_%m}", f"usage_record_{AT - 19 * DAY:%Y_%m}"}, day


@pytest.mark.django_db
def test_versions_are_found_and_removed_in_the_partition_of_their_submission(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also without statistics."""
    rows, plans, fetch_columns = months_of_jobs(), list[str](), pgbinary.fetch_columns
    ingest_batch(source=source, rows=rows, at=AT)

    def explained(query: str, parameters: Any) -> list[Any]:
        if "usage_record AS" in query:
            with transaction.atomic(), pgbinary.cursor() as cursor:
                cursor.execute(f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) {query}", parameters)
                plans.append("\n".join(line for (line,) in cursor.fetchall()))
                transaction.set_rollback(True)
        return fetch_columns(query, parameters)

    monkeypatch.setattr(pgbinary, "fetch_columns", explained)
    assert ingest_batch(source=source, rows=[rows[20]._replace(revision=1)], at=AT).corrected == 1
    looked_up, removed = plans
    month = f"usage_record_{rows[20].submit_at:%Y_%m}"
    for plan in (looked_up, removed):
        reads = [line for line in plan.splitlines() if "Scan" in line and " usage_record_" in line]
        assert not [line for line in reads if "Seq Scan" in line], plan
        done = [line for line in reads if "never executed" not in line]
        assert done, plan
        assert all(month in line for line in done), plan


@pytest.mark.django_db(transaction=True)
def test_statistics_are_made_of_partitions_that_grew(source: Source) -> None:
    ingest_batch(
        source=source, rows=[job(number, AT - DAY - timedelta(seconds=number)) for number in range(9000)], at=AT
    )
    month = f"usage_record_{AT - DAY:%Y_%m}"
    analyze_grown("usage_record")
    with connection.cursor() as cursor:
        cursor.execute("SELECT relname, reltuples FROM pg_class WHERE relname IN ('usage_record', %s)", [month])
        rows = dict(cursor.fetchall())
        assert rows[month] >= 8000
        assert rows["usage_record"] >= 8000, "of the whole table, too"
        cursor.execute("SELECT count(*) FROM pg_stats WHERE tablename = 'usage_record' AND inherited")
        assert cursor.fetchone()[0] > 10


def run_retention(at: datetime = AT) -> Run:
    run = enqueue_retention(at=at)
    assert run is not None
    run = work_run_now(run.pk)
    assert run.state == Run.State.SUCCEEDED, run.error
    return run


def add_up(source: Source) -> tuple[int, float]:
    """Records and core-seconds: of records, and of what was sealed."""
    ended = Record.objects.filter(source=source, state="finished")
    core_s = sum((row.end_at - row.start_at).total_seconds() * row.cpus for row in ended)  # type: ignore[operator, misc]
    sealed = SealedHour.objects.filter(source=source)
    n = Record.objects.filter(source=source).count() + sum(sealed.values_list("n_records", flat=True))
    return n, core_s + sum(sealed.values_list("cpu_s", flat=True))


@pytest.mark.django_db(transaction=True)
def test_retention_drops_partitions_of_which_nothing_is_kept(
    source: Source, settings: Any, stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.FAIRSHARE_KEEP_RECORDS_DAYS = 40
    monkeypatch.setattr(retention, "_IDS_AT_A_TIME", 3)
    rows = [row._replace(state="finished", end_at=row.start_at and row.start_at + HOUR) for row in months_of_jobs()]
    rows[50] = rows[50]._replace(state="running", end_at=None)  # its month stays
    ingest_batch(source=source, rows=rows, at=AT)
    before, added, many = stored()["buckets"], add_up(source), names()
    run = run_retention()
    assert stored()["buckets"] == before
    assert add_up(source) == added
    kept = [row for row in rows if row.end_at is None or row.end_at >= AT.replace(hour=0, minute=0) - 40 * DAY]
    assert set(Record.objects.values_list("job", flat=True)) == {row.job for row in kept}
    assert run.result["gone"] == {"cluster": len(rows) - len(kept)}
    expected = {f"usage_record_{row.submit_at:%Y_%m}" for row in kept if row.submit_at}
    assert {name for name in names() if name.startswith("usage_record_202")} == expected
    assert len(names()) < len(many)
    assert ingest_batch(source=source, rows=rows[-1:], at=AT).too_late == 1
    late = rows[-1]._replace(job="999", end_at=AT, submit_at=rows[-1].submit_at)
    assert ingest_batch(source=source, rows=[late], at=AT).new == 1, "the partition is made again"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("reader_stays", [True, False])
def test_a_partition_in_use_is_emptied_instead(
    source: Source, settings: Any, stored: Stored, monkeypatch: pytest.MonkeyPatch, reader_stays: bool
) -> None:
    """A reader's long transaction, or a writer at work: the run does not wait for them."""
    settings.FAIRSHARE_KEEP_RECORDS_DAYS = 40
    monkeypatch.setattr(retention, "_PATIENCE", "SET LOCAL lock_timeout = '50ms'")
    rows = [row._replace(state="finished", end_at=row.start_at and row.start_at + HOUR) for row in months_of_jobs(30)]
    ingest_batch(source=source, rows=rows, at=AT)
    before, added, many = stored()["buckets"], add_up(source), names()
    with other_session() as cursor:
        cursor.execute("SELECT count(*) FROM usage_record" if reader_stays else partitions.HOLD)
        run_retention()
    assert names() == many
    assert (stored()["buckets"], add_up(source)) == (before, added)
    assert Record.objects.count() < len(rows)
    Source.objects.update(sealed_before_at=AT - 41 * DAY)
    run_retention()
    assert len(names()) < len(many), "the empty ones go with the next run"
    assert add_up(source) == added


def other_session() -> Any:
    from contextlib import contextmanager

    @contextmanager
    def opened() -> Iterator[Any]:
        other = connections.create_connection("default")
        try:
            other.set_autocommit(False)
            with other.cursor() as cursor:
                yield cursor
            other.rollback()
        finally:
            other.close()

    return opened()


@pytest.mark.django_db(transaction=True)
def test_a_kill_while_a_partition_is_dropped_loses_and_doubles_nothing(
    source: Source, settings: Any, stored: Stored, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.FAIRSHARE_KEEP_RECORDS_DAYS = 40
    rows = [row._replace(state="finished", end_at=row.start_at and row.start_at + HOUR) for row in months_of_jobs()]
    ingest_batch(source=source, rows=rows, at=AT)
    before, added = stored()["buckets"], add_up(source)
    monkeypatch.setenv("FAULT", "usage.retention.before_drop:raise:3")
    run = run_retention()
    assert run.attempts == 2
    assert (stored()["buckets"], add_up(source)) == (before, added)
    assert run.result["gone"] == {"cluster": len(rows) - Record.objects.count()}
