"""Real files of Slurm. Each count was computed from the file by hand, as noted beside it."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path

import pytest

from apps.usage.models import Source
from apps.usage.parsers.base import Parsed
from apps.usage.parsers.registry import AUTO, FORMATS, format_of
from apps.usage.parsers.sacct_json import SacctJson
from apps.usage.parsers.slurm_queue import SlurmQueue
from apps.usage.records.ingest import ingest_batch
from tests.usage.parsers.slurm_files import AT, core_s, read, states

# 32 jobs ended after they had run. Their CPUTimeRAW, as Slurm itself has multiplied it: 16 + 12 + 10 + 6 (jobs 1 to 4)
# + 81 + 472 + 10 (7, 11, 12) + 3 × 3 (array 6) + 768 (13) + 8 × 8 + 16 (14 to 22) + 4 × 8 (array 23)
# + 2 + 4 + 6 (27 to 29) + 2 + 3 × 4 (33 to 36) + 10 (39) = 1532.
DEMO_CORE_S = 1532
# 30, 38 and the array 40 wait; 37 runs; 5, 8+0 and 8+1 were cancelled before they started.
DEMO_STATES = [3, 1, 32, 3]


def sample(golden_dir: Path, name: str) -> bytes:
    return (golden_dir / "slurm" / "samples" / name).read_bytes()


def trace(traces_dir: Path, name: str) -> bytes:
    return gzip.decompress((traces_dir / name).read_bytes())


def auto(data: bytes) -> Parsed:
    """As an upload without a named format is read."""
    return read(data, collector=format_of(AUTO, data[:65536]))


def test_steps_of_39_jobs_are_not_counted(golden_dir: Path) -> None:
    """73 lines: the header, 33 rows of .batch steps and 39 of jobs."""
    found = auto(sample(golden_dir, "sacct-P.txt"))
    assert (len(found.batch), found.rejections, found.n_lines) == (39, [], 73)
    assert states(found.batch) == DEMO_STATES
    assert core_s(found.batch) == DEMO_CORE_S
    assert found.notes == {"steps_skipped": 33, "never_started": 3, "arrays_waiting": 1}


@pytest.mark.parametrize(
    ("name", "n_lines", "n_bars"),
    [
        ("sacct-X-P.txt", 40, 0),  # a header and 39 jobs
        ("sacct-X-P-epoch-noheader.txt", 39, 0),  # these jobs, and no header
        # Jobs 5 (we|ird name), 27, 28, 29 (quick|1 to quick|3) and 40 (pend|pipe) have a bar in their name.
        ("sacct-X-P-more.txt", 40, 5),
    ],
)
def test_every_column_order_gives_the_same_39_jobs(golden_dir: Path, name: str, n_lines: int, n_bars: int) -> None:
    found = auto(sample(golden_dir, name))
    assert (len(found.batch), found.rejections, found.n_lines) == (39, [], n_lines)
    assert states(found.batch) == DEMO_STATES
    assert core_s(found.batch) == DEMO_CORE_S
    assert found.notes.get("bars_in_text", 0) == n_bars


def test_local_and_absolute_times_are_the_same_instants(golden_dir: Path) -> None:
    local = auto(sample(golden_dir, "sacct-X-P.txt")).batch
    epoch = auto(sample(golden_dir, "sacct-X-P-epoch-noheader.txt")).batch
    for name in ("job", "submit_us", "start_us", "end_us", "cpus", "requested_s"):
        assert getattr(local, name).tolist() == pytest.approx(getattr(epoch, name).tolist(), nan_ok=True), name


def test_a_trailing_bar_is_not_a_column(golden_dir: Path) -> None:
    """Jobs 1 to 3: 2 × 8 s, 1 × 12 s and 2 × 5 s."""
    found = auto(sample(golden_dir, "sacct-X-p-trailing-bar.txt"))
    assert (len(found.batch), found.rejections) == (3, [])
    assert core_s(found.batch) == 16 + 12 + 10


def test_a_repeated_job_of_slurm_21_08_with_bars_in_three_columns_is_read(traces_dir: Path) -> None:
    """9 lines with the empty last one: a header, 5 rows of job 7957382 (2 CPUs, 56 s) and 2 of its steps."""
    found = auto(trace(traces_dir, "sacct-parsable-slurm2110.log.gz"))
    assert (len(found.batch), found.rejections) == (5, [])
    assert set(found.batch.job.tolist()) == {b"7957382"}
    assert found.notes == {"bars_in_text": 5, "steps_skipped": 2}
    assert core_s(found.batch) == 5 * 2 * 56
    assert {found.batch.people[code][:2] for code in found.batch.who} == {("user001", "account001")}


def test_cancelled_arrays_of_slurm_21_01_never_ran_and_a_truncated_row_is_rejected(traces_dir: Path) -> None:
    """16 lines: a header; 6 array tasks cancelled while they waited (elapsed 0, AllocTRES empty); job 4822203 (25
    CPUs, 128,930 s) with 2 steps; jobs 4830973 to 4830977 (40 CPUs, 259,222 s each), of which 4 have bars in names;
    and a row of which the first 33 fields are missing."""
    found = auto(trace(traces_dir, "sacct-parsable-slurm2101.log.gz"))
    assert len(found.batch) == 12
    assert states(found.batch) == [0, 0, 6, 6]
    assert core_s(found.batch) == 25 * 128_930 + 5 * 40 * 259_222
    assert [(rejection.line, rejection.code) for rejection in found.rejections] == [(16, "too_few_fields")]
    assert found.notes == {"bars_in_text": 4, "steps_skipped": 2, "never_started": 6}


def test_line_ends_within_a_row_are_accepted(traces_dir: Path) -> None:
    """19 lines: a header; job 7957382 in 5 rows (2 CPUs, 56 s) and job 9067954 in one (576 CPUs, 9,600 s); 7 rows of
    steps, of which 9067954.1 goes over lines 8 to 12; and an empty line."""
    found = auto(trace(traces_dir, "sacct-multiline-submitline.log.gz"))
    assert (len(found.batch), found.rejections) == (6, [])
    assert sorted(found.batch.job.tolist()) == [b"7957382"] * 5 + [b"9067954"]
    assert found.notes == {"bars_in_text": 5, "lines_joined": 1, "steps_skipped": 7}
    assert core_s(found.batch) == 5 * 2 * 56 + 576 * 9600


@pytest.mark.parametrize(
    ("name", "jobs", "expected", "total"),
    [
        # 37 runs, 38 and the array 40 wait, 39 ended: 5 CPUs for 2 s.
        ("sacct.json", [37, 38, 39, 40], [2, 1, 1, 0], 10),
        # 35 and 36 (2 CPUs, 2 s) and 39 ended. Of 37, 38 and 40 the document gives the time of the query as the end.
        ("slurmrestd-slurmdb-v0.0.38-jobs.json", [35, 36, 37, 38, 39, 40], [2, 1, 3, 0], 2 * 2 + 2 * 2 + 5 * 2),
    ],
)
def test_documents_of_the_accounting_database(
    golden_dir: Path, name: str, jobs: Sequence[int], expected: list[int], total: float
) -> None:
    data = sample(golden_dir, name)
    assert isinstance(format_of(AUTO, data[:65536]), SacctJson)
    found = auto(data)
    assert [int(job) for job in found.batch.job] == jobs
    assert (states(found.batch), found.rejections) == (expected, [])
    assert core_s(found.batch) == total


@pytest.mark.parametrize(
    ("name", "jobs", "expected", "total"),
    [
        # 10, 30, 38 and the array 40 wait; 37 runs; 5 was cancelled while it waited. 4 (6 s), 31 (3 s) and 7 (81 s)
        # ended with one CPU each, 39 with 5 CPUs after 2 s.
        ("squeue.json", [4, 5, 31, 7, 10, 30, 37, 38, 39, 40], [4, 1, 4, 1], 6 + 3 + 81 + 5 * 2),
        ("slurmrestd-slurm-v0.0.38-jobs.json", [10, 38, 40], [3, 0, 0, 0], 0),
    ],
)
def test_listings_of_waiting_and_running_jobs(
    golden_dir: Path, name: str, jobs: Sequence[int], expected: list[int], total: float
) -> None:
    data = sample(golden_dir, name)
    assert isinstance(format_of(AUTO, data[:65536]), SlurmQueue)
    found = auto(data)
    assert [int(job) for job in found.batch.job] == jobs
    assert (states(found.batch), found.rejections) == (expected, [])
    assert core_s(found.batch) == total
    # The array 40 waits with four tasks of 8 CPUs.
    assert found.batch.cpus[jobs.index(40)] == 4 * 8


def test_no_sample_is_recognised_as_another_format() -> None:
    for collector in FORMATS.values():
        recognised = [other.name for other in FORMATS.values() if other.sniff(collector.sample.encode())]
        assert recognised == [collector.name]


def test_other_slurm_documents_are_not_recognised_as_jobs(golden_dir: Path) -> None:
    for kind in ("accounts", "associations", "users"):
        head = sample(golden_dir, f"slurmrestd-slurmdb-v0.0.38-{kind}.json")[:65536]
        assert [collector.name for collector in FORMATS.values() if collector.sniff(head)] == []


@pytest.mark.django_db
def test_repeated_rows_of_a_job_are_duplicates(traces_dir: Path, source: Source) -> None:
    """2 jobs in 6 rows: 2 are new."""
    batch = auto(trace(traces_dir, "sacct-multiline-submitline.log.gz")).batch
    counts = ingest_batch(source=source, rows=batch, at=AT)
    assert (counts.new, counts.duplicate, counts.corrected, counts.late) == (2, 4, 0, 0)
    assert counts.core_s == 2 * 56 + 576 * 9600


@pytest.mark.django_db
def test_text_json_and_listing_give_a_job_the_same_key(golden_dir: Path, source: Source) -> None:
    """The listing names 10 of the 39 jobs of sacct, one of which (10) sacct wasn't asked for."""
    listing = auto(sample(golden_dir, "squeue.json")).batch
    assert ingest_batch(source=source, rows=listing, at=AT).new == 10
    text = ingest_batch(source=source, rows=auto(sample(golden_dir, "sacct-X-P.txt")).batch, at=AT)
    assert (text.new, text.duplicate, text.corrected) == (39 - 9, 9, 0)
    document = auto(sample(golden_dir, "slurmrestd-slurmdb-v0.0.38-jobs.json")).batch
    again = ingest_batch(source=source, rows=document, at=AT)
    assert (again.new, again.duplicate, again.corrected) == (0, 6, 0)
