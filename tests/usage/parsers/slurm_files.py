"""Files of Slurm for tests: rows by column, and what a reader makes of them."""

from __future__ import annotations

import io
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from apps.usage.parsers.base import Collector, Parsed, Reading, RecordBatch, Rejection
from apps.usage.parsers.sacct import Sacct

AT = datetime(2026, 11, 21, tzinfo=UTC)
READING = Reading(at=AT, zone=ZoneInfo("UTC"))
STOCKHOLM = Reading(at=AT, zone=ZoneInfo("Europe/Stockholm"))

JOB = {
    "JobIDRaw": "4711",
    "Cluster": "fram",
    "User": "ada",
    "Account": "physics",
    "Partition": "normal",
    "QOS": "high",
    "Submit": "1767225600",
    "Start": "1767225660",
    "End": "1767229260",
    "ElapsedRaw": "3600",
    "State": "COMPLETED",
    "AllocCPUS": "8",
    "AllocTRES": "billing=8,cpu=8,mem=16G,node=1",
}


def sacct(*jobs: dict[str, str], columns: Sequence[str] = (), trailing: str = "") -> str:
    """What sacct -P prints of some jobs, each given by its differences from JOB."""
    names = columns or tuple(dict.fromkeys([*JOB, *(name for job in jobs for name in job)]))
    rows = [[(JOB | job).get(name, "") for name in names] for job in jobs]
    return "".join("|".join(row) + trailing + "\n" for row in [list(names), *rows])


def read(text: str | bytes, reading: Reading = READING, collector: Collector | None = None) -> Parsed:
    """All pieces as one; the batch is that of the only piece that has records."""
    data = text.encode() if isinstance(text, str) else text
    pieces = list((collector or Sacct()).parse(io.BytesIO(data), reading))
    full = [piece for piece in pieces if len(piece.batch)]
    assert len(full) <= 1, "the file is small enough for one piece"
    notes: dict[str, int] = {}
    for piece in pieces:
        for name, n in piece.notes.items():
            notes[name] = notes.get(name, 0) + n
    rejections = [rejection for piece in pieces for rejection in piece.rejections]
    batch = full[0].batch if full else RecordBatch.from_rows([])
    return Parsed(batch, rejections, notes, {}, sum(piece.n_lines for piece in pieces))


def only(text: str | bytes, reading: Reading = READING, collector: Collector | None = None) -> RecordBatch:
    found = read(text, reading, collector)
    assert found.rejections == []
    return found.batch


def refused(text: str | bytes, reading: Reading = READING, collector: Collector | None = None) -> Rejection:
    found = read(text, reading, collector)
    assert len(found.batch) == 0
    assert len(found.rejections) == 1, found.rejections
    return found.rejections[0]


def states(batch: RecordBatch) -> list[int]:
    """How many are pending, running, finished and withdrawn."""
    return [int((batch.state == state).sum()) for state in range(4)]


def core_s(batch: RecordBatch) -> float:
    """Of finished jobs."""
    done = batch.state == 2
    return float((((batch.end_us - batch.start_us) / 1e6) * batch.cpus)[done].sum())


def facts(batch: RecordBatch) -> list[tuple[Any, ...]]:
    """Records by name, one a row, to compare."""
    names = ("line", "job", "array_task", "cluster", "restart", "state", "submit_us", "start_us", "end_us", "cpus")
    columns = [getattr(batch, name).tolist() for name in names]
    people = [batch.people[code] for code in batch.who.tolist()]
    return list(zip(*columns, people, strict=True))
