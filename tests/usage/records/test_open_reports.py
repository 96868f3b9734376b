"""What changes while a job waits or runs: the newest report counts, in every format."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apps.usage.models import Record, Source
from apps.usage.parsers.base import RecordBatch, RecordRow
from apps.usage.records.imports import DryRun
from apps.usage.records.ingest import ingest_batch
from tests.instants import AT
from tests.usage.records.test_sluids import fresh_source

MIDNIGHT = datetime(2026, 11, 1, tzinfo=UTC)
pytestmark = pytest.mark.django_db(transaction=True)

JOB = RecordRow(
    *("4100", "bo", "phys", "running", MIDNIGHT, MIDNIGHT + timedelta(seconds=100)),
    cpus=32.0,
    gpus=2.0,
    requested_s=3600.0,
    partition="main",
    qos="normal",
)
WAITING = JOB._replace(state="pending", start_at=None, cpus=400.0)


def send(source: Source, *rows: RecordRow) -> dict[str, int]:
    batch = RecordBatch.from_rows(rows)
    expected = DryRun(source).classify(batch, AT)
    counts = ingest_batch(source=source, rows=batch, at=AT)
    assert expected.as_dict() == counts.as_dict()
    return {name: n for name, n in counts.as_dict().items() if n}


def stored(source: Source) -> tuple[Any, ...]:
    record = Record.objects.select_related("account", "job_class").get(source=source)
    of_class = record.job_class
    return record.account.group_name, record.cpus, record.gpus, record.requested_s, of_class.partition, of_class.qos


@pytest.mark.parametrize("job", [JOB, WAITING])
@pytest.mark.parametrize(
    "change",
    [
        {"requested_s": 172_800.0},
        {"group": "chem"},
        {"cpus": 16.0},
        {"gpus": 1.0},
        {"partition": "long"},
        {"qos": "high"},
    ],
)
def test_a_change_of_an_open_job_is_taken_once(job: RecordRow, change: dict[str, Any]) -> None:
    source, newer = fresh_source(), job._replace(**change)
    assert send(source, job) == {"new": 1}
    assert send(source, newer) == {"corrected": 1}
    assert stored(source) == (newer.group, newer.cpus, newer.gpus, newer.requested_s, newer.partition, newer.qos)
    assert send(source, newer) == {"duplicate": 1}


def test_both_reports_in_one_file_are_taken_in_its_order() -> None:
    source, newer = fresh_source(), JOB._replace(requested_s=172_800.0, group="chem", partition="long")
    assert send(source, JOB, newer, newer) == {"new": 1, "corrected": 1, "duplicate": 1}
    assert stored(source) == ("chem", 32.0, 2.0, 172_800.0, "long", "normal")


@pytest.mark.parametrize(
    "less",
    [
        {"requested_s": None},
        {"group": ""},
        {"gpus": 0.0},
        {"partition": "", "qos": ""},
        {"qos": "", "partition": "long"},
    ],
)
def test_what_a_report_leaves_out_changes_nothing(less: dict[str, Any]) -> None:
    """Else two formats of one source would take turns: each poll would change the record."""
    source = fresh_source()
    send(source, JOB)
    assert send(source, JOB._replace(**less)) == {"duplicate": 1}
    assert stored(source) == ("phys", 32.0, 2.0, 3600.0, "main", "normal")


def test_a_report_that_says_more_is_taken() -> None:
    source = fresh_source()
    send(source, JOB._replace(requested_s=None, group="", partition="", qos="", gpus=0.0))
    assert send(source, JOB) == {"corrected": 1}
    assert stored(source) == ("phys", 32.0, 2.0, 3600.0, "main", "normal")


def test_an_ended_job_stays_as_it_ended() -> None:
    source, ended = fresh_source(), JOB._replace(state="finished", end_at=MIDNIGHT + timedelta(hours=1))
    send(source, ended)
    assert send(source, JOB._replace(requested_s=9.0), ended._replace(requested_s=9.0)) == {"late": 1, "duplicate": 1}
    assert stored(source)[3] == 3600.0
