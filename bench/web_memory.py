"""Memory of ten web processes of one host that serve a policy of a million entries, after look-ups of 100,000 names.

Own memory is what a process shares with no other; together it is the sum of their proportional parts (PSS), in which
memory that they share counts once. Processes start one after the other and then map what the first has written.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from bench.report import BenchLine

N_ENTRIES = 1_000_000
N_PROCESSES, N_NAMES, AT_ONCE = 10, 100_000, 1_000
OWN_GOAL_MB, TOGETHER_GOAL_MB = 250.0, 1_500.0
_LOOK_S = 0.1
_SERVE = f"""
import gc, sys
import django
django.setup()
from fairshare_web import wsgi
from apps.priorities.serving import store
from apps.runs.memory import return_freed_memory
store.start()
snapshot = store.newest(sys.argv[1])
def wait():
    return_freed_memory()
    print("ready", flush=True)
    sys.stdin.readline()
wait()
names = [f"u{{at // 99}}-{{at % 99}}" for at in range({N_NAMES})]
for at in range(0, len(names), {AT_ONCE}):
    snapshot.lookup_json(names[at : at + {AT_ONCE}])
del names
wait()
"""


def measure_large() -> list[BenchLine]:
    from django.db import connection

    from apps.core.clock import now
    from bench import recompute

    at = now().replace(second=0, microsecond=0)
    recompute.round_of(recompute.build(N_ENTRIES, at), at)
    connection.close()
    with ExitStack() as stack:
        processes = [stack.enter_context(_process(recompute.SLUG)) for _ in range(N_PROCESSES)]
        lines = _lines(processes, "")
        for process in processes:
            _go_on(process)
        lines += _lines(processes, f", after look-ups of {N_NAMES:,} names in each")
        for process in processes:
            _stdin(process).close()
    return lines


def _process(slug: str) -> subprocess.Popen[str]:
    """A process that serves, once it says so."""
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVE, slug],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        text=True,
    )
    _wait(process)
    return process


def _go_on(process: subprocess.Popen[str]) -> None:
    _stdin(process).write("\n")
    _stdin(process).flush()
    _wait(process)


def _stdin(process: subprocess.Popen[str]) -> IO[str]:
    assert process.stdin is not None
    return process.stdin


def _wait(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    if process.stdout.readline() != "ready\n":
        raise RuntimeError(f"A web process ended with {process.wait()}.")


def _lines(processes: list[subprocess.Popen[str]], when: str) -> list[BenchLine]:
    sizes = [memory_sizes(process.pid) for process in processes]
    own = [size["Private_Clean"] + size["Private_Dirty"] for size in sizes]
    together = sum(size["Pss"] for size in sizes)
    return [
        BenchLine(
            f"MB of its own of a web process at {N_ENTRIES:,} entries, the largest of {len(own)}{when}",
            max(own),
            OWN_GOAL_MB,
            f"{min(own):.0f} to {max(own):.0f} MB",
        ),
        BenchLine(
            f"MB of {len(own)} such processes together{when}",
            together,
            TOGETHER_GOAL_MB,
            f"{together / len(own):.0f} MB each, shared memory in equal parts",
        ),
    ]


class PeakWatch(threading.Thread):
    """The most memory that one of these has in no file while this runs, looked at ten times a second."""

    def __init__(self, processes: Sequence[int]) -> None:
        super().__init__(name="memory", daemon=True)
        self._processes, self._is_over = processes, threading.Event()
        self.peak_mb = 0.0

    def run(self) -> None:
        while not self._is_over.wait(_LOOK_S):
            self.peak_mb = max(self.peak_mb, *(memory_sizes(pid)["Anonymous"] for pid in self._processes))

    def __enter__(self) -> PeakWatch:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._is_over.set()
        self.join()


def memory_sizes(pid: int) -> dict[str, float]:
    """MB by kind, from the kernel."""
    rows = (line.split() for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
    return {name.rstrip(":"): int(kilobytes) / 1024 for name, kilobytes, *_unit in rows}
