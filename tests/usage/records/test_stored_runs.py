"""Logs of PBS: what a run held counts once, from one file, from daily files in any order, and read again."""

from __future__ import annotations

import io
import itertools
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from apps.usage.models import Bucket, Record, Source
from apps.usage.parsers.base import Reading
from apps.usage.parsers.pbs import Pbs
from apps.usage.records.ingest import ingest_batch

pytestmark = pytest.mark.django_db
AT = datetime(2027, 1, 2, tzinfo=UTC)
CPU_S = {
    "501.cl1": 16 * (2 + 3 + 2) * 3600,
    "501.cl2": 16 * 29 * 3600,
    "502.cl1": (96 * 12 + 64 * 12 + 32 * 18) * 3600,
    "503.cl1": 8 * (24 + 24) * 3600,
    "504.cl1": 4 * (2 + 24) * 3600,
    "505.cl1": 2 * 24 * 3600,
    "506.cl1": 12 * 24 * 3600,
    "507.cl1": 10 * 24 * 3600,
    "508.cl1": (40 * 1 + 30 * 23) * 3600,
    "509.cl1": 20 * 2 * 3600,
}


@pytest.fixture
def days(golden_dir: Path) -> list[str]:
    """The log, day by day."""
    text = (golden_dir / "field" / "p01_runs.acct").read_text(encoding="utf-8").splitlines(keepends=True)
    return ["".join(group) for _, group in itertools.groupby(text, key=lambda line: line[:10])]


def ingest(source: Source, text: str, *, zone: str = "UTC") -> int:
    """Number of lines that nothing explains."""
    n_unexplained = 0
    for piece in Pbs().parse(io.BytesIO(text.encode()), Reading(AT, ZoneInfo(zone))):
        assert piece.rejections == []
        n_unexplained += ingest_batch(source=source, rows=piece.batch, at=AT).unexplained
    return n_unexplained


def cpu_s() -> dict[str, float]:
    """By job, of what has ended."""
    sums: dict[str, float] = {}
    for row in Record.objects.filter(state="finished"):
        assert row.start_at is not None
        assert row.end_at is not None
        sums[row.job] = sums.get(row.job, 0.0) + row.cpus * (row.end_at - row.start_at).total_seconds()
    return {job: round(total, 3) for job, total in sorted(sums.items())}


def running() -> list[str]:
    return [row.job for row in Record.objects.filter(state="running").order_by("job")]


def test_each_run_counts_what_it_held_from_one_file(source: Source, days: list[str]) -> None:
    assert ingest(source, "".join(days)) == 0
    assert (cpu_s(), running()) == (CPU_S, ["510.cl1"])
    assert sum(Bucket.objects.values_list("cpu_s", flat=True)) == sum(CPU_S.values())


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=lambda order: "".join(map(str, order)))
def test_each_run_counts_what_it_held_from_daily_files(source: Source, days: list[str], order: Sequence[int]) -> None:
    for day in order:
        ingest(source, days[day])
    print(order, {job: (got, CPU_S[job]) for job, got in cpu_s().items() if got != CPU_S[job]}, running())
    assert (cpu_s(), running()) == (CPU_S, ["510.cl1"])
