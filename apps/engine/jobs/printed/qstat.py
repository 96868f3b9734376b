"""`qstat -ext -urg -pri` in text (each of the three alone, too): columns by the header, cells by their shape."""

from __future__ import annotations

import re

from apps.engine.jobs.printed.rows import ASIDE, PENDING, RUNNING, Printed, PrintedJob, bad_line, distinct, read_cell

_TICKETS = ("tckts", "ovrts", "otckt", "ftckt", "stckt", "share")
_DATE = re.compile(r"(\d\d)/(\d\d)/(\d{4}) (\d\d:\d\d:\d\d)")
_CPU = re.compile(r"(?:\d+:)?\d+:\d\d:\d\d|NA")
_REMEDY = "paste the output of qstat -ext -urg -pri as it is, header included, or of qstat -xml -ext -urg -pri"


def is_qstat(line: str) -> bool:
    """Whether this is the header of the listing."""
    return line.split()[:2] == ["job-ID", "prior"]


def role_of(state: str) -> str:
    """Whether a job in this state takes part, and how. Held, suspended and failed ones are in none of the lists."""
    if "q" in state:
        return ASIDE if "h" in state or "E" in state else PENDING
    return ASIDE if set(state) & set("sST") else RUNNING


def read_qstat(lines: list[str]) -> Printed:
    """Every job of the listing; BadCase with the line of the first that can't be read."""
    header: list[str] = []
    jobs: list[PrintedJob] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip() or set(line.strip()) == {"-"}:
            continue
        if is_qstat(line):
            header = line.split()
        elif not header:
            raise bad_line(number, f"no header job-ID prior … before this line; {_REMEDY}")
        else:
            jobs.append(_read_job(header, line, number))
    return Printed("gridengine", distinct(jobs))


def _read_job(header: list[str], line: str, number: int) -> PrintedJob:
    if "name" not in header or "state" not in header:
        raise bad_line(number, f"the header has no name and state; {_REMEDY}")
    n_left = header.index("name")
    tokens = line.split()
    if len(tokens) < n_left + 4 or not tokens[0].isdigit():
        raise bad_line(number, f"{len(tokens)} cells are no row of a job; {_REMEDY}")
    numbers = {
        name: read_cell(text, name, number) for name, text in zip(header[1:n_left], tokens[1:n_left], strict=True)
    }
    words, submitted, tail = _split(header, line.split(maxsplit=n_left)[n_left], number)
    n_owners = len([name for name in ("user", "project", "department", "state") if name in header])
    if len(words) < n_owners + 1:
        raise bad_line(number, f"name, user and state can't be told apart; {_REMEDY}")
    user, state = words[-n_owners], words[-1]
    if "tckts" in header:
        tail = tail[3:] if tail and _CPU.fullmatch(tail[0]) else tail
        if len(tail) < len(_TICKETS):
            raise bad_line(number, f"{len(tail)} cells where tickets and share stand; {_REMEDY}")
        numbers |= {name: read_cell(text, name, number) for name, text in zip(_TICKETS, tail, strict=False)}
        tail = tail[len(_TICKETS) :]
    task = tail[-1] if len(tail) > 1 and tail[-2].isdigit() else ""
    job = f"{tokens[0]}.{task}" if task else tokens[0]
    return PrintedJob(job, number, numbers, user=user, state=state, role=role_of(state), submitted=submitted)


def _split(header: list[str], rest: str, number: int) -> tuple[list[str], str, list[str]]:
    """Words before the dates, the first date in an order that sorts, and the cells behind the dates."""
    dates = list(_DATE.finditer(rest))
    if "submit/start" in header:
        if not dates:
            raise bad_line(number, f"no date of submission as 11/20/2026 06:45:20; {_REMEDY}")
        month, day, year, time = dates[0].groups()
        return rest[: dates[0].start()].split(), f"{year}-{month}-{day} {time}", rest[dates[-1].end() :].split()
    n_words = len([name for name in ("name", "user", "project", "department", "state") if name in header])
    cells = rest.split()
    return cells[:n_words], "", cells[n_words:]
