"""What a scheduler printed about its jobs, as rows of numbers; and how a line that can't be read is refused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from apps.engine.case_text import shown
from apps.engine.errors import BadCase

MOST_ROWS = 10_000
_LARGEST = 1e30  # urgencies of memory requests come to 1e20; sums and products of these stay finite
RUNNING, PENDING, ASIDE = "running", "pending", "aside"  # aside: held, suspended, in error; in none of the lists


@dataclass(frozen=True)
class PrintedJob:
    """One row: `numbers` by the names that Grid Engine's text has, or Slurm's terms in lower case."""

    job: str
    line: int
    numbers: Mapping[str, float]
    user: str = ""
    state: str = ""
    role: str = PENDING
    submitted: str = ""  # sortable


@dataclass(frozen=True)
class Printed:
    """All rows of a paste. weights and factors: of Slurm, where `sprio -w` and `sprio -n` are in it."""

    scheduler: str
    jobs: tuple[PrintedJob, ...]
    weights: Mapping[str, float] = field(default_factory=dict)
    factors: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


def bad_line(line: int, message: str) -> BadCase:
    return BadCase(message, place=f"line {line}")


def read_cell(text: str, column: str, line: int) -> float:
    """A printed number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not abs(value) <= _LARGEST or "_" in text:  # NaN isn't, either
        raise bad_line(line, f"{column} is {shown(text)}, and a number stands there; copy whole lines, with the header")
    return value


def distinct(jobs: list[PrintedJob]) -> tuple[PrintedJob, ...]:
    """The rows, if no two are of the same job."""
    if len(jobs) > MOST_ROWS:
        raise BadCase(f"{len(jobs)} jobs; the limit is {MOST_ROWS}: paste those you want to see", place="text")
    seen: dict[str, int] = {}
    for job in jobs:
        if job.job in seen:
            message = f"job {shown(job.job)} is on line {seen[job.job]} already; paste each listing once"
            raise bad_line(job.line, message)
        seen[job.job] = job.line
    return tuple(jobs)
