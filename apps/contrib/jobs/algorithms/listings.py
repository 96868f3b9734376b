"""Read the listings of `sprio` and `qstat` as rows of numbers; unreadable lines are rejected with their number."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from xml.parsers import expat

from apps.contrib.jobs.algorithms.slurm_multifactor import FACTORS
from apps.engine.case_text import shown
from apps.engine.errors import BadCase

MOST_LISTED_QUEUE_ROWS = 10_000
_LARGEST = 1e30  # urgencies of memory requests come to 1e20; sums and products of these stay finite
RUNNING, PENDING, ASIDE = "running", "pending", "aside"  # excluded: held, suspended, in error; in none of the lists
_TERMS = ("PRIORITY", "SITE", *(name.upper() for name in FACTORS), "NICE")
_SPRIO_REMEDY = "paste the output of sprio -l, and of sprio -w and sprio -n -l where you have them, headers included"
_TICKETS = ("tckts", "ovrts", "otckt", "ftckt", "stckt", "share")
_DATE = re.compile(r"(\d\d)/(\d\d)/(\d{4}) (\d\d:\d\d:\d\d)")
_CPU = re.compile(r"(?:\d+:)?\d+:\d\d:\d\d|NA")
_QSTAT_REMEDY = "paste the output of qstat -ext -urg -pri as it is, header included, or of qstat -xml -ext -urg -pri"

_NUMBERS = {
    "JAT_prio": "prior",
    "JB_nurg": "nurg",
    "JB_nppri": "npprior",
    "JAT_ntix": "ntckts",
    "JB_priority": "ppri",
    "JB_urg": "urg",
    "JB_rrcontr": "rrcontr",
    "JB_wtcontr": "wtcontr",
    "JB_dlcontr": "dlcontr",
    "tickets": "tckts",
    "JB_override_tickets": "ovrts",
    "otickets": "otckt",
    "ftickets": "ftckt",
    "stickets": "stckt",
    "JAT_share": "share",
}
_TEXTS = {"JB_job_number", "JB_owner", "state", "tasks", "JB_submission_time", "JAT_start_time"}
_QSTAT_XML_REMEDY = "paste the output of qstat -xml -ext -urg -pri as it is"


@dataclass(frozen=True)
class PrintedJob:
    """One row: `numbers` by the column names of Grid Engine's text, or Slurm's terms in lower case."""

    job: str
    line: int
    numbers: Mapping[str, float]
    user: str = ""
    state: str = ""
    role: str = PENDING
    submitted: str = ""  # in a sortable form


@dataclass(frozen=True)
class Printed:
    """All rows of a listing. weights and factors: Slurm's, if output of `sprio -w` and `sprio -n` is included."""

    scheduler: str
    jobs: tuple[PrintedJob, ...]
    weights: Mapping[str, float] = field(default_factory=dict)
    factors: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


def bad_line(line: int, message: str) -> BadCase:
    return BadCase(message, place=f"line {line}")


def read_cell(text: str, column: str, line: int) -> float:
    """Read a printed number."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not abs(value) <= _LARGEST or "_" in text:  # also rejects NaN
        raise bad_line(line, f"{column} is {shown(text)}, and a number stands there; copy whole lines, with the header")
    return value


def distinct(jobs: list[PrintedJob]) -> tuple[PrintedJob, ...]:
    """Return the rows; reject two rows of the same job."""
    if len(jobs) > MOST_LISTED_QUEUE_ROWS:
        raise BadCase(
            f"{len(jobs)} jobs; the limit is {MOST_LISTED_QUEUE_ROWS}: paste those you want to see", place="text"
        )
    seen: dict[str, int] = {}
    for job in jobs:
        if job.job in seen:
            message = f"job {shown(job.job)} is on line {seen[job.job]} already; paste each listing once"
            raise bad_line(job.line, message)
        seen[job.job] = job.line
    return tuple(jobs)


def is_sprio(line: str) -> bool:
    """Whether this line is the header of an `sprio` listing."""
    words = line.split()
    return words[:1] == ["JOBID"] and "PRIORITY" in words


def read_sprio(lines: list[str]) -> Printed:
    """Rows of `-l`, with weights of `-w` and factors of `-n` if the text has them."""
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
            raise bad_line(number, f"no header JOBID … PRIORITY … before this line; {_SPRIO_REMEDY}")
        elif cells[0] == "Weights":
            weights = _read_weights(header, cells, number)
        else:
            job = _read_sprio_job(header, cells, number)
            if "SITE" in header or not _is_normalised(header, cells):
                jobs.append(job)
            else:
                factors[job.job] = dict(job.numbers)
    if not jobs:
        what = "factors without the priorities they make" if factors else "no job"
        raise bad_line(len(lines), f"{what}; {_SPRIO_REMEDY}")
    return Printed("slurm", distinct(jobs), weights=weights, factors=factors)


def _is_normalised(header: list[str], cells: list[str]) -> bool:
    """Whether this is output of `-n`, which prints the priority as a fraction of 2^32 and so with a decimal point."""
    return "." in cells[header.index("PRIORITY")]


def _read_sprio_job(header: list[str], cells: list[str], number: int) -> PrintedJob:
    """Read a row. The first PARTITION is its name, the one after PRIORITY its term; TRES may be empty."""
    at = header.index("PRIORITY")
    if not len(header) - ("TRES" in header) <= len(cells) <= len(header):
        raise bad_line(number, f"{len(cells)} cells below a header of {len(header)}; {_SPRIO_REMEDY}")
    numbers = {
        name.lower(): _read_tres(text, number) if name == "TRES" else read_cell(text, name, number)
        for name, text in zip(header[at:], cells[at:], strict=False)
        if name in _TERMS
    }
    user = cells[header.index("USER")] if "USER" in header[:at] else ""
    return PrintedJob(cells[0], number, numbers, user=user)


def _read_tres(text: str, number: int) -> float:
    """Sum of the terms of all resources: cpu=10,mem=5."""
    return sum(read_cell(part.rpartition("=")[2], "TRES", number) for part in text.split(","))


def _read_weights(header: list[str], cells: list[str], number: int) -> dict[str, float]:
    """Read the row of weights. Its numbers belong to the last columns; TRES may be empty, as it has several weights."""
    names = header[header.index("PRIORITY") + 1 :]
    if names[-1:] == ["TRES"]:
        names = names[:-1]
        cells = cells[:-1] if "=" in cells[-1] else cells
    if len(cells) - 1 > len(names):
        raise bad_line(number, f"{len(cells) - 1} weights below {len(names)} columns; {_SPRIO_REMEDY}")
    pairs = list(zip(reversed(names), reversed(cells[1:]), strict=False))
    return {name.lower(): read_cell(text, name, number) for name, text in reversed(pairs) if name.lower() in FACTORS}


def is_qstat(line: str) -> bool:
    """Whether this line is the header of a `qstat` listing."""
    return line.split()[:2] == ["job-ID", "prior"]


def role_of(state: str) -> str:
    """The role of a job by its state; held, suspended and failed jobs are in none of the scheduler's lists."""
    if "q" in state:
        return ASIDE if "h" in state or "E" in state else PENDING
    return ASIDE if set(state) & set("sST") else RUNNING


def read_qstat(lines: list[str]) -> Printed:
    """Every job of the listing; BadCase with the first line that can't be read."""
    header: list[str] = []
    jobs: list[PrintedJob] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or set(line.strip()) == {"-"}:
            continue
        if is_qstat(line):
            header = line.split()
        elif not header:
            raise bad_line(number, f"no header job-ID prior … before this line; {_QSTAT_REMEDY}")
        else:
            jobs.append(_read_qstat_job(header, line, number))
    return Printed("gridengine", distinct(jobs))


def _read_qstat_job(header: list[str], line: str, number: int) -> PrintedJob:
    if "name" not in header or "state" not in header:
        raise bad_line(number, f"the header has no name and state; {_QSTAT_REMEDY}")
    n_left = header.index("name")
    tokens = line.split()
    if len(tokens) < n_left + 4 or not tokens[0].isdigit():
        raise bad_line(number, f"{len(tokens)} cells are no row of a job; {_QSTAT_REMEDY}")
    numbers = {
        name: read_cell(text, name, number) for name, text in zip(header[1:n_left], tokens[1:n_left], strict=True)
    }
    words, submitted, tail = _split(header, line.split(maxsplit=n_left)[n_left], number)
    n_owners = len([name for name in ("user", "project", "department", "state") if name in header])
    if len(words) < n_owners + 1:
        raise bad_line(number, f"name, user and state can't be distinguished; {_QSTAT_REMEDY}")
    user, state = words[-n_owners], words[-1]
    if "tckts" in header:
        tail = tail[3:] if tail and _CPU.fullmatch(tail[0]) else tail
        if len(tail) < len(_TICKETS):
            raise bad_line(number, f"{len(tail)} cells where tickets and share stand; {_QSTAT_REMEDY}")
        numbers |= {name: read_cell(text, name, number) for name, text in zip(_TICKETS, tail, strict=False)}
        tail = tail[len(_TICKETS) :]
    task = tail[-1] if len(tail) > 1 and tail[-2].isdigit() else ""
    job = f"{tokens[0]}.{task}" if task else tokens[0]
    return PrintedJob(job, number, numbers, user=user, state=state, role=role_of(state), submitted=submitted)


def _split(header: list[str], rest: str, number: int) -> tuple[list[str], str, list[str]]:
    """Split a row at its dates: words before, the first date in sortable form, and cells behind."""
    dates = list(_DATE.finditer(rest))
    if "submit/start" in header:
        if not dates:
            raise bad_line(number, f"no date of submission as 11/20/2026 06:45:20; {_QSTAT_REMEDY}")
        month, day, year, time = dates[0].groups()
        return rest[: dates[0].start()].split(), f"{year}-{month}-{day} {time}", rest[dates[-1].end() :].split()
    n_words = len([name for name in ("name", "user", "project", "department", "state") if name in header])
    cells = rest.split()
    return cells[:n_words], "", cells[n_words:]


def read_qstat_xml(text: str) -> Printed:
    """Every job of the document; BadCase with the line that can't be read."""
    reader = _Reader()
    try:
        reader.parser.Parse(text, True)
    except expat.ExpatError as problem:
        raise bad_line(problem.lineno, f"no XML: {expat.ErrorString(problem.code)}; {_QSTAT_XML_REMEDY}") from None
    return Printed("gridengine", distinct(reader.jobs))


class _Reader:
    """Collect the leaf elements of each `job_list`."""

    def __init__(self) -> None:
        self.jobs: list[PrintedJob] = []
        self.leaves: dict[str, tuple[str, int]] | None = None
        self.words: list[str] = []
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self.words.append
        self.parser.StartDoctypeDeclHandler = self._refuse_doctype

    def _refuse_doctype(self, *_: object) -> None:
        raise bad_line(self.parser.CurrentLineNumber, f"a document type isn't taken; {_QSTAT_XML_REMEDY}")

    def _start(self, name: str, _: object) -> None:
        self.words.clear()
        if name == "job_list":
            self.leaves = {}

    def _end(self, name: str) -> None:
        line = self.parser.CurrentLineNumber
        if name == "job_list" and self.leaves is not None:
            self.jobs.append(_read_qstat_xml_job(self.leaves, line))
            self.leaves = None
        elif self.leaves is not None and (name in _NUMBERS or name in _TEXTS):
            self.leaves[name] = "".join(self.words).strip(), line
        self.words.clear()


def _read_qstat_xml_job(leaves: dict[str, tuple[str, int]], line: int) -> PrintedJob:
    def text(name: str) -> str:
        return leaves.get(name, ("", line))[0]

    if not text("JB_job_number") or not text("state"):
        raise bad_line(line, f"the job_list that ends here has no JB_job_number or state; {_QSTAT_XML_REMEDY}")
    numbers = {
        _NUMBERS[name]: read_cell(cell, name, at) for name, (cell, at) in leaves.items() if name in _NUMBERS and cell
    }
    if "prior" not in numbers:
        raise bad_line(line, f"job {text('JB_job_number')} has no JAT_prio; {_QSTAT_XML_REMEDY}")
    parts = [numbers[name] for name in ("rrcontr", "wtcontr", "dlcontr") if name in numbers]
    if "urg" not in numbers and len(parts) == 3:
        numbers["urg"] = sum(parts)
    task, state = text("tasks"), text("state")
    job = f"{text('JB_job_number')}.{task}" if task else text("JB_job_number")
    submitted = text("JB_submission_time") or text("JAT_start_time")
    return PrintedJob(job, line, numbers, user=text("JB_owner"), state=state, role=role_of(state), submitted=submitted)


def read_printed(text: str) -> Printed:
    """The jobs of a `qstat` or `sprio` listing; BadCase with line and remedy for other text."""
    if text.lstrip().startswith("<"):
        return read_qstat_xml(text.lstrip())
    lines = [line.rstrip("\r") for line in text.split("\n")]
    first = next((number for number, line in enumerate(lines, start=1) if line.strip()), None)
    if first is None:
        raise BadCase("nothing is here; paste a listing with its header, or a case as JSON", place="text")
    header = lines[first - 1]
    if is_qstat(header):
        return read_qstat(lines)
    if is_sprio(header):
        return read_sprio(lines)
    message = "no listing begins like this; paste qstat -ext -urg -pri, qstat -xml, sprio -l or a case as JSON"
    raise BadCase(message, place=f"line {first}")
