"""Jobs with one number and one second of submission: Slurm's own number of each keeps them apart, in any order."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from random import Random
from typing import Any, NamedTuple

import numpy as np
import orjson
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from apps.usage.models import Bucket, Record, ReplacedRecord, Source
from apps.usage.parsers.base import Reading, RecordBatch, RecordRow
from apps.usage.parsers.registry import FORMATS
from apps.usage.parsers.sluids import sluid_of, sluids_of
from apps.usage.quality.bucket_audit import audit_buckets
from apps.usage.records.imports import DryRun
from apps.usage.records.ingest import ingest_batch
from tests.examples import examples
from tests.instants import AT

MIDNIGHT = datetime(2026, 11, 1, tzinfo=UTC)
STATES = ("pending", "running", "finished")
_numbers = count()

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]
HURRIED = examples(12, suppress=HealthCheck, fixed=6)


class Job(NamedTuple):
    """A job as it was; times in seconds since midnight."""

    number: int
    submit: int
    start: int
    end: int
    cpus: int
    sluid: int


def fresh_source() -> Source:
    return Source.objects.create(slug=f"sluid{next(_numbers)}", name="S", namespace="s", created_at=AT)


def at(second: int) -> datetime:
    return MIDNIGHT + timedelta(seconds=second)


def row_of(job: Job, state: str = "finished", *, cut_s: int = 0) -> RecordRow:
    """What Slurm reports of it; cut_s: an end that is corrected later."""
    return RecordRow(
        job=str(job.number),
        user="ada",
        state=state,
        submit_at=at(job.submit),
        start_at=None if state == "pending" else at(job.start),
        end_at=at(max(job.end - cut_s, job.start)) if state == "finished" else None,
        cpus=float(job.cpus),
    )


def batch_of(reports: Sequence[tuple[RecordRow, int]]) -> RecordBatch:
    batch = RecordBatch.from_rows([row for row, _ in reports])
    return replace(batch, sluid=np.array([sluid for _, sluid in reports], np.int64))


def finished_records(source: Source) -> list[tuple[Any, ...]]:
    """The usage of each finished record, without its key."""
    rows = Record.objects.filter(source=source, state="finished")
    return sorted((int(row.job), row.start_at, row.end_at, row.cpus) for row in rows)


def truth(jobs: Sequence[Job]) -> list[tuple[Any, ...]]:
    return sorted((job.number, at(job.start), at(job.end), float(job.cpus)) for job in jobs)


def core_s(source: Source) -> float:
    return float(sum(Bucket.objects.filter(source=source).values_list("cpu_s", flat=True)))


def ingest(source: Source, reports: Sequence[tuple[RecordRow, int]]) -> None:
    expected = DryRun(source).classify(batch_of(reports), AT)
    counts = ingest_batch(source=source, rows=batch_of(reports), at=AT)
    assert counts.rejections == []
    assert expected.as_dict() == counts.as_dict()


@st.composite
def sites(draw: st.DrawFn) -> list[Job]:
    """Few numbers and seconds, so that jobs meet; those that meet start at different seconds, one after the other."""
    jobs: list[Job] = []
    for number in (1, 2):
        for submit in (0, 1):
            start = submit
            for _ in range(draw(st.integers(0, 3))):
                start += draw(st.integers(1, 500))
                end = start + draw(st.integers(0, 9000))
                jobs.append(Job(number, submit, start, end, draw(st.integers(0, 4)), len(jobs) + 7))
    return jobs


@HURRIED
@given(sites(), st.integers(0, 2**32))
def test_each_job_counts_once_whatever_was_reported_of_it_before(jobs: list[Job], seed: int) -> None:
    """Reports of every state with and without the number, in any order and repeated; then the whole accounting."""
    source, random = fresh_source(), Random(seed)
    first_of_key = {(job.number, job.submit): job for job in reversed(jobs)}
    for _ in range(random.randint(0, 6)):
        reports = []
        for job in random.sample(jobs, random.randint(0, len(jobs))):
            row = row_of(job, random.choice(STATES), cut_s=random.choice([0, 60]))
            is_plain = first_of_key[job.number, job.submit] is job and random.random() < 0.3
            reports.append((row, 0 if is_plain else job.sluid))
        ingest(source, reports)
    whole = [(row_of(job), job.sluid) for job in random.sample(jobs, len(jobs))]
    for _ in range(2):
        ingest(source, whole)
    assert finished_records(source) == truth(jobs)
    assert core_s(source) == sum((job.end - job.start) * job.cpus for job in jobs)
    assert audit_buckets(source).n_different == 0
    before = finished_records(source)
    for _ in range(2):  # the same file from before the numbers, in pieces
        ingest(source, [(row_of(job), 0) for job in random.sample(jobs, random.randint(0, len(jobs)))])
    assert finished_records(source) == before
    assert set(Record.objects.filter(source=source).values_list("sluid", flat=True)) == {job.sluid for job in jobs}


@HURRIED
@given(st.lists(st.tuples(st.sampled_from(STATES), st.booleans(), st.sampled_from([0, 30])), max_size=8))
def test_one_job_seen_with_and_without_its_number_is_one_record(reports: list[tuple[str, bool, int]]) -> None:
    job, source = Job(4711, 0, 100, 700, 4, sluid_of("sCGHM8HF9TTH00")), fresh_source()
    for state, has_number, cut_s in [*reports, ("finished", False, 0)]:
        ingest(source, [(row_of(job, state, cut_s=cut_s), job.sluid if has_number else 0)])
    assert finished_records(source) == truth([job])
    record = Record.objects.get(source=source)
    assert (record.restart, core_s(source)) == (0, 2400.0)
    assert record.sluid in ((None, job.sluid) if any(has_number for _, has_number, _ in reports) else (None,))


def test_a_record_from_before_the_numbers_keeps_its_key() -> None:
    source, first, second = fresh_source(), Job(1, 0, 10, 20, 1, 7), Job(1, 0, 30, 60, 2, 8)
    ingest(source, [(row_of(first), 0)])
    hashes = set(Record.objects.filter(source=source).values_list("key_hash", flat=True))
    ingest(source, [(row_of(second), 8), (row_of(first), 7)])
    records = {record.sluid: record for record in Record.objects.filter(source=source)}
    assert {records[7].key_hash} == hashes
    assert (records[7].restart, records[8].restart) == (0, 1)
    assert finished_records(source) == truth([first, second])


def test_a_correction_keeps_the_number_and_archives_the_former_version() -> None:
    source, job = fresh_source(), Job(1, 0, 10, 100, 1, 7)
    ingest(source, [(row_of(job, cut_s=50), 7)])
    ingest(source, [(row_of(job), 0)])
    assert Record.objects.get(source=source).sluid == 7
    assert ReplacedRecord.objects.get(source=source).sluid == 7
    assert finished_records(source) == truth([job])


def test_many_jobs_of_one_number_and_second_stay_apart() -> None:
    source = fresh_source()
    jobs = [Job(1, 0, 10 * place, 10 * place + 5, 1, 1000 + place) for place in range(1, 21)]
    for job in jobs:
        ingest(source, [(row_of(job), job.sluid)])
    ingest(source, [(row_of(job), job.sluid) for job in reversed(jobs)])
    assert finished_records(source) == truth(jobs)


def test_numbers_are_read_as_slurm_prints_them() -> None:
    assert sluid_of("s0000000000001") == 1
    assert sluid_of("s000000000000Z") == 31
    assert sluid_of("S00000000000Io") == 32  # I is 1, O is 0
    assert sluid_of("sFZZZZZZZZZZZZ") == -1  # all 64 bits
    assert sluid_of("sCGHM8HF9TTH00") != sluid_of("sCGHM8HF9TTH01")
    for text in ("", "0", "s", "xCGHM8HF9TTH00", "sCGHM8HF9TTH0", "sCGHM8HF9TTH000", "sCGHM8HF9TTHU0", None, 5):
        assert sluid_of(text) == 0
    assert sluids_of([]).tolist() == []


def of_json(format: str, **job: Any) -> RecordBatch:
    document = orjson.dumps({"jobs": [{"job_id": 13, "cluster": "fjord", "account": "phys", **job}], "errors": []})
    (parsed,) = FORMATS[format].parse(io.BytesIO(document), Reading(AT))
    assert parsed.rejections == []
    return parsed.batch


def test_accounting_and_queue_agree_on_the_number_also_of_a_resized_job() -> None:
    """Slurm gives each row of a resized job its own number; the controller goes on with the first."""
    first, own = "sCGHM8HF9VE800", "sCGHM8HFAE9000"
    amounts = [{"type": "cpu", "name": "", "count": 1}, {"type": "node", "name": "", "count": 1}]
    accounted = of_json(
        "sacct-json",
        user="ann",
        state={"current": ["RUNNING"]},
        time={"submission": 1795882806, "start": 1795882806, "end": 0},
        tres={"allocated": amounts, "requested": amounts},
        sluid=own,
        original_sluid=first,
    )
    listed = of_json(
        "squeue-json",
        user_name="ann",
        job_state=["RUNNING"],
        submit_time=1795882700,
        start_time=1795882750,
        resize_time=1795882806,
        cpus=1,
        step_id={"sluid": first},
    )
    assert accounted.sluid.tolist() == listed.sluid.tolist() == [sluid_of(first)]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("RUNNING|100|100|Unknown", 0),  # as begins the later part of a resized job
        ("RUNNING|100|101|Unknown", 7),
        ("PENDING|100|Unknown|Unknown", 7),
        ("RESIZING|100|110|120", 0),
        ("COMPLETED|100|110|120", 7),
    ],
)
def test_a_row_s_own_number_is_used_where_the_row_is_a_whole_job(row: str, expected: int) -> None:
    names = "JobIDRaw|Cluster|User|Account|State|Submit|Start|End|AllocCPUS|SLUID"
    text = f"{names}\n13|fjord|ann|phys|{row}|1|s0000000000007\n"
    (parsed,) = FORMATS["sacct"].parse(io.BytesIO(text.encode()), Reading(AT))
    assert (parsed.rejections, parsed.batch.sluid.tolist()) == ([], [expected])
