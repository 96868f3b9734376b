"""`sprio -l`, `sprio -w` and `sprio -n -l`, in any order in one text: terms, weights, normalised factors."""

from __future__ import annotations

from apps.engine.jobs.printed.rows import Printed, PrintedJob, bad_line, distinct, read_cell
from apps.engine.jobs.slurm_multifactor import FACTORS

_TERMS = ("PRIORITY", "SITE", *(name.upper() for name in FACTORS), "NICE")
_REMEDY = "paste the output of sprio -l, and of sprio -w and sprio -n -l where you have them, headers included"


def is_sprio(line: str) -> bool:
    """Whether this is the header of a listing."""
    words = line.split()
    return words[:1] == ["JOBID"] and "PRIORITY" in words


def read_sprio(lines: list[str]) -> Printed:
    """Rows of `-l`, with weights of `-w` and factors of `-n` where they are in the text."""
    header: list[str] = []
    jobs: list[PrintedJob] = []
    weights: dict[str, float] = {}
    factors: dict[str, dict[str, float]] = {}
    for number, line in enumerate(lines, start=1):
        cells = line.split()
        if not cells:
            continue
        if is_sprio(line):
            header = cells
        elif not header:
            raise bad_line(number, f"no header JOBID … PRIORITY … before this line; {_REMEDY}")
        elif cells[0] == "Weights":
            weights = _read_weights(header, cells, number)
        else:
            job = _read_job(header, cells, number)
            if "SITE" in header or not _is_normalised(header, cells):
                jobs.append(job)
            else:
                factors[job.job] = dict(job.numbers)
    if not jobs:
        what = "factors without the priorities they make" if factors else "no job"
        raise bad_line(len(lines), f"{what}; {_REMEDY}")
    return Printed("slurm", distinct(jobs), weights=weights, factors=factors)


def _is_normalised(header: list[str], cells: list[str]) -> bool:
    """`-n` prints the priority as a fraction of 2^32, so it has a point."""
    return "." in cells[header.index("PRIORITY")]


def _read_job(header: list[str], cells: list[str], number: int) -> PrintedJob:
    """The first PARTITION is its name, the one behind PRIORITY its term; TRES may be empty."""
    at = header.index("PRIORITY")
    if not len(header) - ("TRES" in header) <= len(cells) <= len(header):
        raise bad_line(number, f"{len(cells)} cells below a header of {len(header)}; {_REMEDY}")
    numbers = {
        name.lower(): _read_tres(text, number) if name == "TRES" else read_cell(text, name, number)
        for name, text in zip(header[at:], cells[at:], strict=False)
        if name in _TERMS
    }
    user = cells[header.index("USER")] if "USER" in header[:at] else ""
    return PrintedJob(cells[0], number, numbers, user=user)


def _read_tres(text: str, number: int) -> float:
    """The terms of all resources together: cpu=10,mem=5."""
    return sum(read_cell(part.rpartition("=")[2], "TRES", number) for part in text.split(","))


def _read_weights(header: list[str], cells: list[str], number: int) -> dict[str, float]:
    """Numbers are below the last columns; those on the left are empty, and TRES may be: it has a weight for each."""
    names = header[header.index("PRIORITY") + 1 :]
    if names[-1:] == ["TRES"]:
        names = names[:-1]
        cells = cells[:-1] if "=" in cells[-1] else cells
    if len(cells) - 1 > len(names):
        raise bad_line(number, f"{len(cells) - 1} weights below {len(names)} columns; {_REMEDY}")
    pairs = list(zip(reversed(names), reversed(cells[1:]), strict=False))
    return {name.lower(): read_cell(text, name, number) for name, text in reversed(pairs) if name.lower() in FACTORS}
