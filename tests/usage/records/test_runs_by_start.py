"""Runs of a job under one submission, as Slurm reports them without numbers: each counts once, by its start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import permutations
from random import Random

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from apps.usage.models import Bucket, Record, Source
from apps.usage.parsers.base import RecordBatch, RecordRow
from apps.usage.quality.bucket_audit import audit_buckets
from apps.usage.records.imports import DryRun
from apps.usage.records.ingest import ingest_batch
from tests.examples import examples
from tests.instants import AT
from tests.usage.records.test_sluids import fresh_source

MIDNIGHT = datetime(2026, 11, 1, tzinfo=UTC)
HOUR = 3600

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(300)]


def at(second: int) -> datetime:
    return MIDNIGHT + timedelta(seconds=second)


def run(start: int, end: int | None, *, job: str = "7001", cpus: float = 4.0) -> RecordRow:
    """A run from start to end, in seconds since midnight; it goes on without an end. All were submitted at midnight."""
    state = "running" if end is None else "finished"
    return RecordRow(
        job, "ada", state=state, submit_at=at(0), start_at=at(start), end_at=None if end is None else at(end), cpus=cpus
    )


WAITS = RecordRow("7001", "ada", state="pending", submit_at=at(0), cpus=4.0)


def send(source: Source, *rows: RecordRow) -> dict[str, int]:
    """Import rows as a file of Slurm's; its preview says the same."""
    batch = replace(RecordBatch.from_rows(rows), differ_by_start=True)
    expected = DryRun(source).classify(batch, AT)
    counts = ingest_batch(source=source, rows=batch, at=AT)
    assert counts.rejections == []
    assert expected.as_dict() == counts.as_dict()
    return {name: n for name, n in counts.as_dict().items() if n}


def cpu_s(source: Source) -> float:
    assert audit_buckets(source).n_different == 0
    return float(sum(Bucket.objects.filter(source=source).values_list("cpu_s", flat=True)))


def open_runs(source: Source) -> list[tuple[str, datetime | None]]:
    return sorted(Record.objects.filter(source=source, state__in=("pending", "running")).values_list("job", "start_at"))


FAILED, REPEATED = run(60, 2 * HOUR), run(3 * HOUR, 30 * HOUR)


@pytest.mark.parametrize("files", [[[FAILED], [REPEATED]], [[REPEATED], [FAILED]], [[FAILED, REPEATED]]])
def test_a_requeued_job_with_its_first_submission_counts_both_runs_in_whatever_files(
    files: Sequence[Sequence[RecordRow]],
) -> None:
    source = fresh_source()
    for _again in range(2):
        for rows in files:
            counts = send(source, *rows)
        assert cpu_s(source) == 4.0 * ((2 * HOUR - 60) + 27 * HOUR)
    assert counts == {"duplicate": len(files[-1])}
    assert send(source, REPEATED) == {"duplicate": 1}
    assert Record.objects.filter(source=source).count() == 2


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_the_days_that_sacct_truncates_a_job_to_add_up(order: Sequence[int]) -> None:
    days = [run(20 * HOUR, 24 * HOUR), run(24 * HOUR, 48 * HOUR), run(48 * HOUR, 50 * HOUR)]
    source = fresh_source()
    for day in order:
        send(source, days[day])
    send(source, days[order[0]])
    assert cpu_s(source) == 4.0 * 30 * HOUR


def test_a_run_seen_to_wait_and_to_run_is_closed_by_its_own_end() -> None:
    source = fresh_source()
    send(source, WAITS)
    send(source, run(60, None))
    assert open_runs(source) == [("7001", at(60))]
    assert send(source, FAILED, run(3 * HOUR, None)) == {"new": 1, "corrected": 1}
    assert open_runs(source) == [("7001", at(3 * HOUR))]
    assert send(source, WAITS) == {"late": 1}
    send(source, REPEATED)
    assert (open_runs(source), cpu_s(source)) == ([], 4.0 * ((2 * HOUR - 60) + 27 * HOUR))


def test_a_start_that_is_set_anew_while_a_node_boots_is_of_the_same_run() -> None:
    source = fresh_source()
    send(source, run(60, None))
    assert send(source, run(360, None)) == {"corrected": 1}
    assert send(source, run(60, None)) == {"duplicate": 1}
    assert open_runs(source) == [("7001", at(360))]
    assert send(source, run(360, HOUR)) == {"corrected": 1}
    assert (open_runs(source), cpu_s(source)) == ([], 4.0 * (HOUR - 360))


@examples(12, suppress=HealthCheck, fixed=6)
@given(
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 40)), min_size=1, max_size=5, unique_by=lambda each: each[0]),
    st.integers(0, 2**32),
)
def test_the_sum_is_that_of_all_runs_whatever_order_pieces_and_repetitions_they_come_in(
    runs: list[tuple[int, int]], seed: int
) -> None:
    random, source = Random(seed), fresh_source()
    ended = [run(start * HOUR, (start + hours) * HOUR) for start, hours in runs]
    files = [random.sample(ended, random.randint(1, len(ended))) for _ in range(random.randint(0, 4))]
    rest = [row for row in ended if not any(row in rows for rows in files)]
    files += [[row] for row in rest]
    random.shuffle(files)
    for rows in files:
        send(source, *rows)
    assert cpu_s(source) == sum(4.0 * HOUR * hours for _, hours in runs)
    assert Record.objects.filter(source=source).count() == len(runs)
