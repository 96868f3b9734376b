"""Ten million jobs: memory of the importing process, and a recompute beside it.

The files are SWF of the shape of bench.ingest's synthetic log, repeated with other job numbers. Each is imported by a
process of its own, as on a command line, so that its peak of resident memory is its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench.ingest import synthetic_log
from bench.report import BenchLine

MILLION = 1_000_000
GOAL_GROWTH_MB = 50.0
GOAL_RECOMPUTE = 1.1
ROUNDS = 5
_ENDED_AT = datetime(2005, 12, 15, tzinfo=UTC)  # behind the last job of the log
_ROOT = Path(__file__).resolve().parent.parent


def measure_large() -> list[BenchLine]:
    """Imports 1 and 10 million jobs, then recomputes with the records and without them."""
    folder = Path(os.environ["FAIRSHARE_VAR"])
    million = _import(_log(folder / "one.swf", 1), "one")
    ten_million = _import(_log(folder / "ten.swf", 10), "ten")
    growth_mb = (ten_million.peak_kb - million.peak_kb) / 1024
    with_s, without_s = _recomputes("ten")
    return [
        BenchLine(
            "worker's peak memory, 10 M lines over 1 M lines / 50 MB",
            growth_mb / GOAL_GROWTH_MB,
            1.0,
            f"{million.peak_kb / 1024:.0f} MB and {ten_million.peak_kb / 1024:.0f} MB; "
            f"{ten_million.seconds:.0f} s for 10 M",
        ),
        BenchLine(
            "time of 10 M lines / ten times that of 1 M",
            ten_million.seconds / (10 * million.seconds),
            None,
            f"{million.seconds:.0f} s for 1 M",
        ),
        BenchLine(
            "recompute beside 10 M records / with the same buckets alone",
            with_s / without_s,
            GOAL_RECOMPUTE,
            f"{with_s:.2f} s and {without_s:.2f} s",
        ),
    ]


class _Imported:
    """The cost of importing a file."""

    def __init__(self, seconds: float, peak_kb: int) -> None:
        self.seconds = seconds
        self.peak_kb = peak_kb


def _log(path: Path, n_millions: int) -> Path:
    """A million jobs again and again, under other numbers."""
    header, _, jobs = synthetic_log(MILLION).partition(b"\n")
    rest = [line.partition(b" ")[2] for line in jobs.splitlines()]
    with path.open("wb") as file:
        file.write(header + b"\n")
        for number in range(n_millions):
            first = number * MILLION + 1
            file.write(b"".join(b"%d %b\n" % (first + place, line) for place, line in enumerate(rest)))
    return path


# A process begins with the peak of the one that starts it, and the writer of the logs is large: a small one starts it.
_MEASURED = """
import os, subprocess, sys
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
_pid, status, used = os.wait4(process.pid, 0)
print(os.waitstatus_to_exitcode(status), used.ru_maxrss)
"""


def _import(path: Path, slug: str) -> _Imported:
    """Resident memory as the kernel counted it for the process (`ru_maxrss`, in kB on Linux)."""
    command = [sys.executable, "manage.py", "import_usage", "--source", slug, "--format", "swf", str(path)]
    started = time.perf_counter()
    measured = subprocess.check_output([sys.executable, "-c", _MEASURED, *command], cwd=_ROOT, text=True)
    code, peak_kb = map(int, measured.split())
    if code:
        raise RuntimeError(f"The import of {path.name} ended with {code}.")
    path.unlink()
    return _Imported(time.perf_counter() - started, peak_kb)


def _recomputes(slug: str) -> tuple[float, float]:
    """Fastest of several as of instants of their own, with the records and then without them."""
    from django.db import connection

    from apps.accounts.actor import COMMAND
    from apps.contrib.onboarding.services import PolicyProposal, propose_policy
    from apps.core.clock import now

    propose_policy(
        PolicyProposal(policy_slug="big", source_slug=slug, publish=True, reason="bench"), at=now(), actor=COMMAND
    )
    with_s = min(_recompute(_ENDED_AT + timedelta(minutes=number)) for number in range(ROUNDS))
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE usage_record")
    without_s = min(_recompute(_ENDED_AT - timedelta(minutes=number + 1)) for number in range(ROUNDS))
    return with_s, without_s


def _recompute(as_of: datetime) -> float:
    from apps.accounts.actor import COMMAND
    from apps.core.clock import now
    from apps.priorities.recompute.staleness import request_recompute
    from apps.runs.services import work_run_now

    run = request_recompute(policy_slug="big", as_of=as_of, at=now(), actor=COMMAND)
    started = time.perf_counter()
    done = work_run_now(run.pk)
    seconds = time.perf_counter() - started
    if done.state != "succeeded":
        raise RuntimeError(done.error)
    return seconds
