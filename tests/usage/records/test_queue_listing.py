"""Listings of running and waiting jobs: jobs they lack have vanished, until accounting reports their end."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apps.usage.arrays import load_open_records
from apps.usage.models import Bucket, Record, ReplacedRecord, Source
from apps.usage.parsers.base import RecordRow
from apps.usage.records.ingest import ingest_batch
from apps.usage.sources.open_listings import ingest_listing

MIDNIGHT = datetime(2026, 11, 1, tzinfo=UTC)

Stored = Callable[[], dict[str, list[tuple[Any, ...]]]]

pytestmark = pytest.mark.django_db


def hour(n: float) -> datetime:
    return MIDNIGHT + timedelta(hours=n)


def running(job: str = "1", **given: Any) -> RecordRow:
    values = {"user": "alice", "state": "running", "submit_at": hour(0), "start_at": hour(1), "cpus": 2.0, **given}
    return RecordRow(job=job, **values)


def waiting(job: str = "1", **given: Any) -> RecordRow:
    return running(job, **{"state": "pending", "start_at": None, **given})


def listed(source: Source, n: float, *rows: RecordRow) -> dict[str, int]:
    counts = ingest_listing(source, rows, hour(n))
    found = {**counts.as_dict(), "vanished": counts.vanished}
    return {name: n for name, n in found.items() if n}


def states() -> list[tuple[str, str, str, datetime | None]]:
    return list(Record.objects.order_by("job").values_list("job", "state", "note", "end_at"))


def test_a_job_listed_again_stays_one_record(source: Source) -> None:
    assert listed(source, 2, running(), waiting("2")) == {"new": 2}
    assert listed(source, 3, running(), waiting("2")) == {"duplicate": 2}
    assert set(Record.objects.values_list("seen_at", flat=True)) == {hour(3)}
    assert not Bucket.objects.exists()


def test_an_empty_listing_closes_the_jobs_of_every_cluster_where_the_source_has_none(source: Source) -> None:
    listed(source, 2, running(cluster="a"), running("2", cluster="b"))
    assert listed(source, 3) == {"vanished": 2}
    listed(source, 4, running("3", cluster="a"), running("4", cluster="b"))
    assert listed(source, 5, running("3", cluster="a")) == {"duplicate": 1}, "it speaks of cluster a alone"


def test_a_running_job_that_a_listing_misses_ended_when_it_was_last_seen(source: Source) -> None:
    listed(source, 2, running(), running("2"))
    listed(source, 3, running(), running("2"))
    assert listed(source, 4, running("2")) == {"duplicate": 1, "vanished": 1}
    assert states() == [("1", "finished", "vanished", hour(3)), ("2", "running", "", None)]
    assert list(Bucket.objects.values_list("hour_at", "cpu_s").order_by("hour_at"))[:2] == [
        (hour(1), 7200),
        (hour(2), 7200),
    ]
    source.refresh_from_db()
    assert source.watermark == 2


def test_a_waiting_job_that_a_listing_misses_is_withdrawn(source: Source) -> None:
    listed(source, 2, waiting())
    assert listed(source, 3) == {"vanished": 1}
    assert states() == [("1", "withdrawn", "vanished", None)]
    assert len(load_open_records(sources=[source.pk]).cpus) == 0
    assert listed(source, 4) == {}


@pytest.mark.parametrize("end", [2.5, 3.0, 9.0])
@pytest.mark.parametrize("first", [running(), waiting()], ids=["running", "waiting"])
def test_the_accounted_end_replaces_the_end_of_a_vanished_job(
    source: Source, stored: Stored, first: RecordRow, end: float
) -> None:
    listed(source, 3, first)
    listed(source, 4)
    real = running(state="finished", end_at=hour(end))
    assert ingest_batch(source=source, rows=[real], at=hour(10)).corrected == 1
    assert states() == [("1", "finished", "", hour(end))]
    assert sum(Bucket.objects.values_list("cpu_s", flat=True)) == (end - 1) * 7200
    assert sum(Bucket.objects.values_list("jobs", flat=True)) == 1
    assert listed(source, 11) == {}


def test_a_job_listed_again_ran_without_interruption(source: Source) -> None:
    listed(source, 2, running(), waiting("2"))
    assert listed(source, 3) == {"vanished": 2}
    assert listed(source, 4, running(), waiting("2")) == {"corrected": 2}
    assert [state[1:] for state in states()] == [("running", "", None), ("pending", "", None)]
    assert not Bucket.objects.exists()
    assert ReplacedRecord.objects.get().note == "vanished"


def test_a_listing_affects_only_its_clusters(source: Source) -> None:
    listed(source, 2, running(cluster="a"), running("2", cluster="b"), running("3"))
    assert listed(source, 3, running(cluster="a")) == {"duplicate": 1}
    assert [state[1] for state in states()] == ["running", "running", "running"]
    Source.objects.filter(pk=source.pk).update(cluster="b")
    source.refresh_from_db()
    assert listed(source, 4) == {"vanished": 1}, "an empty one speaks of the source's own cluster"
    assert [state[1] for state in states()] == ["running", "finished", "running"]


def test_jobs_submitted_after_the_listing_have_not_vanished(source: Source) -> None:
    ingest_batch(source=source, rows=[waiting(submit_at=hour(5))], at=hour(5))
    assert listed(source, 4) == {}
    ingest_batch(source=source, rows=[waiting("2")], at=hour(5))
    assert listed(source, 4.5) == {}
    assert listed(source, 6) == {"vanished": 2}


def test_a_charge_uses_hours_and_counts_as_no_job(source: Source) -> None:
    charge = running(state="finished", end_at=hour(2), is_charge=True)
    ingest_batch(source=source, rows=[charge, running("2", state="finished", end_at=hour(2))], at=hour(3))
    assert sum(Bucket.objects.values_list("cpu_s", flat=True)) == 4 * 3600
    assert sum(Bucket.objects.values_list("jobs", flat=True)) == 1
    ingest_batch(source=source, rows=[running(state="withdrawn", revision=1, start_at=None)], at=hour(3))
    assert sum(Bucket.objects.values_list("jobs", flat=True)) == 1
    assert sum(Bucket.objects.values_list("cpu_s", flat=True)) == 2 * 3600
