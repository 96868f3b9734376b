"""Lines of accounting logs read in a second of processor time, by format, beside `sacct -P`."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from zoneinfo import ZoneInfo

from apps.core import clock
from apps.usage.parsers.base import Reading
from apps.usage.parsers.registry import FORMATS
from bench.report import BenchLine

N_LINES = 20_000
ROUNDS = 3
_NAMES = ("sacct", "gridengine", "gridengine-jsonl", "pbs", "lsf", "flux")
_JOBS = {"sacct": b"4711", "pbs": b"17.pbs", "flux": b"14965276672"}  # the job's number in the sample; else 101


def measure() -> Iterator[BenchLine]:
    """A log of the format's own sample with as many jobs; the least of several rounds."""
    reading = Reading(clock.now(), ZoneInfo("UTC"))
    beside = 0.0
    for name in _NAMES:
        log = _log(name)
        least_s = min(_read_s(name, log, reading) for _ in range(ROUNDS))
        rate = N_LINES / least_s
        beside = beside or rate
        note = f"{rate:,.0f} lines a second of processor time, {len(log) / least_s / 1e6:.1f} MB"
        yield BenchLine(f"lines of {name} / of sacct, in the same time", rate / beside, None, note)


def _log(name: str) -> bytes:
    *head, line = FORMATS[name].sample.encode().splitlines(keepends=True)
    job = _JOBS.get(name, b"101")
    lines = [line.replace(job, b"%d%s" % (number, job.lstrip(b"0123456789"))) for number in range(1, N_LINES + 1)]
    return b"".join([*(head if name in ("sacct", "gridengine") else []), *lines])


def _read_s(name: str, log: bytes, reading: Reading) -> float:
    began = time.process_time()
    n_read = sum(len(piece.batch) for piece in FORMATS[name].parse(io.BytesIO(log), reading))
    spent_s = time.process_time() - began
    assert n_read >= N_LINES * 0.99, (name, n_read)
    return spent_s
