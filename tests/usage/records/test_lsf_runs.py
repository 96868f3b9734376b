"""Logs of LSF: every run and every part of a resized job counts once, from files in any order, and read again."""

from __future__ import annotations

import io
import itertools
from collections.abc import Sequence
from pathlib import Path

import pytest

from apps.usage.models import Bucket, Record, Source, UnclearJob
from apps.usage.parsers.base import Reading
from apps.usage.parsers.lsf import Lsf
from apps.usage.records.ingest import ingest_batch
from tests.instants import AT
from tests.oracles import lsf as oracle
from tests.usage.parsers.test_lsf import START, finish

pytestmark = pytest.mark.django_db
H = 3600


def ingest(source: Source, *lines: str) -> None:
    for piece in Lsf().parse(io.BytesIO("".join(lines).encode()), Reading(AT)):
        assert piece.rejections == []
        ingest_batch(source=source, rows=piece.batch, at=AT)


def slot_s() -> float:
    return float(sum(Bucket.objects.values_list("cpu_s", flat=True)))


@pytest.mark.parametrize("order", [*itertools.permutations(range(3)), (2, 1, 2, 0, 1), (1, 2, 0, 0)])
def test_parts_of_a_resized_job_come_in_any_order(source: Source, golden_dir: Path, order: Sequence[int]) -> None:
    lines = (golden_dir / "field/l02_resized.acct").read_text(encoding="utf-8").splitlines(keepends=True)
    for place in order:
        ingest(source, lines[place])
    assert slot_s() == sum(oracle.slot_seconds([line.rstrip("\n") for line in lines]).values()) == 28 * H
    assert sorted(Record.objects.values_list("state", "cpus", "job")) == [
        ("finished", 4, "201"),
        ("finished", 6, "201"),
        ("finished", 12, "201"),
    ]
    assert not UnclearJob.objects.exists()


def test_a_missing_part_is_named_until_its_file_comes(source: Source, golden_dir: Path) -> None:
    lines = (golden_dir / "field/l02_resized.acct").read_text(encoding="utf-8").splitlines(keepends=True)
    ingest(source, lines[2])
    assert [(each.job, each.gaps) for each in UnclearJob.objects.all()] == [("201", ["phases_unknown"])]
    ingest(source, lines[1], lines[0])
    assert not UnclearJob.objects.exists()
    assert slot_s() == 28 * H


@pytest.mark.parametrize("is_one_file", [True, False])
def test_each_run_of_a_requeued_job_counts(source: Source, is_one_file: bool) -> None:
    """Both have one submission; a run is known by its start."""
    runs = [finish(exit=10, status=32), finish(start=START + 2 * H, at=START + 5 * H)]
    for lines in [runs] if is_one_file else [[runs[1]], [runs[0]], [runs[1]]]:
        ingest(source, *lines)
    assert slot_s() == 4 * (1 + 3) * H
    assert sorted(Record.objects.values_list("restart", "cpus")) == [(0, 4), (1, 4)]


def test_tasks_of_an_array_are_jobs_of_their_own(source: Source) -> None:
    ingest(source, *[finish(idx=idx) for idx in (1, 2, 3)], finish(job=7))
    assert slot_s() == 4 * 4 * H
    assert sorted(Record.objects.values_list("job", "array_task")) == [
        ("101", "1"),
        ("101", "2"),
        ("101", "3"),
        ("7", ""),
    ]
