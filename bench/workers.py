"""Four files, and recomputes of four policies, on two Celery workers beside one.

What two workers can gain is what two loops gain that need nothing but a core; on a busy machine that is less than two,
and it is measured in the same minute. CPU seconds don't depend on that: two workers that need as many as one, and never
wait for each other's locks, gain what the cores allow.
"""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from bench.ingest import synthetic_log
from bench.report import BenchLine

N_JOBS, N_ENTRIES = 400_000, 400_000  # of each file, and of each policy: ends of runs weigh little
N_AT_ONCE = 4
ROUNDS = 2
GOAL = 1 / 1.7
_READY_S = 900.0
_WARMING = 2  # rounds, so that each worker has met most sources and policies, and keeps in memory what it keeps
_LOOP = "import time; began = time.process_time()\nwhile time.process_time() - began < 1.0: pass"


def measure_large() -> list[BenchLine]:
    """Fastest of several rounds, with one worker and with two in turn."""
    log = synthetic_log(N_JOBS)
    slugs = _policies(N_ENTRIES)
    return [
        *gain("four files", lambda number: _files(log, number)),
        *gain("recomputes of four policies", lambda number: _recomputes(slugs, number)),
    ]


@dataclass(slots=True)
class _Waited:
    """How often all was looked at, and how often a worker waited for a lock."""

    n: int = 0
    n_locked: int = 0


def gain(
    name: str,
    enqueue: Callable[[int], list[int]],
    queues: str = "import,recompute",
    *,
    rounds: int = ROUNDS,
    warming: int = _WARMING,
) -> list[BenchLine]:
    """What `enqueue` makes, on one worker of these queues and on two."""
    seconds = {1: float("inf"), 2: float("inf")}
    loops, cpu = dict(seconds), dict(seconds)
    waited = _Waited()
    number = 0
    for _round in range(rounds):
        for n_workers in seconds:
            with _workers(n_workers, queues) as pids:
                for is_measured in (*[False] * warming, True):
                    run_ids = enqueue(number)
                    began, began_cpu = time.perf_counter(), _cpu_s(pids)
                    _wait(run_ids, waited if is_measured and n_workers == 2 else _Waited())
                    number += 1
                    if is_measured:
                        seconds[n_workers] = min(seconds[n_workers], time.perf_counter() - began)
                        cpu[n_workers] = min(cpu[n_workers], _cpu_s(pids) - began_cpu)
            loops[n_workers] = min(loops[n_workers], _loops(n_workers))
    detail = f"{seconds[1]:.1f} s and {seconds[2]:.1f} s; loops without a database gain {2 * loops[1] / loops[2]:.2f}"
    locked = f"{waited.n_locked} of {waited.n} times a worker waited for a lock"
    return [
        BenchLine(f"{name} on two workers / on one", seconds[2] / seconds[1], GOAL, detail),
        BenchLine(
            f"CPU seconds of {name} on two workers / on one",
            cpu[2] / cpu[1],
            2 * GOAL,
            f"{cpu[1]:.1f} s and {cpu[2]:.1f} s with PostgreSQL's; {locked}",
        ),
    ]


def _cpu_s(pids: list[int]) -> float:
    """CPU seconds of these processes and of PostgreSQL with all its backends, ended ones too."""
    server = int((Path(os.environ["FAIRSHARE_VAR"]) / "pg" / "postmaster.pid").read_text().split()[0])
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        pid, parent = int(path.parent.name), int(fields[1])
        if pid == server or parent == server or pid in pids:
            ticks += sum(map(int, fields[11:15] if pid == server else fields[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _loops(n: int) -> float:
    began = time.perf_counter()
    for process in [subprocess.Popen([sys.executable, "-c", _LOOP]) for _ in range(n)]:
        process.wait()
    return time.perf_counter() - began


@contextmanager
def _workers(n: int, queues: str) -> Iterator[list[int]]:
    from apps.cli.stack import definitions
    from apps.core.code_paths import REPOSITORY
    from apps.runs.models import SiteProcess

    commands = [definitions.worker("worker", f"bench{number}@%h", queues=queues).command for number in range(n)]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    SiteProcess.objects.all().delete()
    processes = [subprocess.Popen(command, cwd=REPOSITORY, env=environment) for command in commands]
    try:
        while SiteProcess.objects.count() < n:  # each says so when it is ready
            time.sleep(0.1)
        yield [process.pid for process in processes]
    finally:
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            process.wait(60)


def _wait(run_ids: list[int], waited: _Waited) -> None:
    from django.db import connection

    from apps.runs.models import Run

    end_s = time.monotonic() + _READY_S
    while Run.objects.filter(pk__in=run_ids, state__in=("queued", "running")).exists():
        assert time.monotonic() < end_s, "the workers didn't do it"
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
            waited.n, waited.n_locked = waited.n + 1, waited.n_locked + cursor.fetchone()[0]
        time.sleep(0.05)
    assert set(Run.objects.filter(pk__in=run_ids).values_list("state", "error")) == {("succeeded", "")}


def _files(log: bytes, number: int) -> list[int]:
    from apps.accounts.actor import COMMAND
    from apps.core.clock import now
    from apps.usage.services import NewImport, start_import

    ids = []
    for n in range(N_AT_ONCE):
        slug = f"workers-{number}-{n}"
        new = NewImport(source_slug=slug, format="swf", file=io.BytesIO(log), file_name="log.swf", makes_source=True)
        ids.append(start_import(new, at=now() - timedelta(seconds=1), actor=COMMAND).run_id)
    return ids


def _policies(n_entries: int) -> list[str]:
    """Policies whose trees and accounts are those of `bench.recompute`."""
    from apps.accounts.actor import COMMAND
    from apps.core.clock import now
    from apps.mapping.rules.rule import Rule
    from apps.mapping.services import set_rules
    from apps.policies.models import Policy
    from apps.policies.services import make_policy, publish_document
    from apps.policies.tree.stored import load_tree
    from bench import recompute

    at = now().replace(second=0, microsecond=0)
    recompute.build(n_entries, at)
    divisions = recompute.divisions_of(n_entries)
    slugs = [f"workers-{number}" for number in range(N_AT_ONCE)]
    for slug in slugs:
        document = {"policy": slug, "root": {"name": slug, "children": divisions}}
        before = at - timedelta(hours=1)
        make_policy(slug=slug, name=slug, at=before, actor=COMMAND)
        publish_document(policy_slug=slug, document=document, reason="bench", at=before, actor=COMMAND)
        rule = Rule("glob", load_tree(Policy.objects.get(slug=slug)).uuid(0), suffix="/{project}/{group}/{user}")
        set_rules(policy_slug=slug, rules=[rule], at=before, actor=COMMAND)
    return slugs


def _recomputes(slugs: list[str], number: int) -> list[int]:
    """As of an instant that was not computed before."""
    from apps.accounts.actor import COMMAND
    from apps.core.clock import now
    from apps.priorities.recompute.staleness import request_recompute

    as_of = now() - timedelta(seconds=600 + number)
    return [request_recompute(policy_slug=slug, as_of=as_of, at=now(), actor=COMMAND).pk for slug in slugs]
