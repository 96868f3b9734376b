"""Promises of starts for hours of a real Slurm, beside the starts that it plans itself (%S of squeue).

`make test-starts MINUTES=120` runs it; nothing else does. The controller, its database and nodes are real, and so are
site and agent. What users do is drawn from a seed (`job_mix`); half-way a quarter of the cores is drained, and comes
back. The figures are printed: how often promises held is asserted only as widely as a broken calibration would miss,
from 60 minutes on, and of shorter runs where enough of them were settled.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import pytest

from apps.contrib.starts.models import Cause, Outcome
from apps.contrib.starts.prediction.promises import LEVELS
from apps.contrib.starts.prediction.record import held
from tests.faults.stack import Stack
from tests.real_schedulers.conftest import Measure
from tests.real_schedulers.enclosure import HOST
from tests.real_schedulers.job_mix import DRAINED, Step, mix
from tests.real_schedulers.slurm_site import running_slurm
from tests.real_schedulers.start_rows import (
    APART,
    AT_80,
    LEAST_SETTLED,
    SETTLED,
    Promised,
    Row,
    by_kind,
    outside_bands,
    read_promised,
    read_rows,
    record_lines,
)
from tests.real_schedulers.whole_site import GROUPS, TREE, Place

MINUTES = float(os.environ.get("FAIRSHARE_STARTS_MINUTES") or 0)
SEED = int(os.environ.get("FAIRSHARE_STARTS_SEED") or 1)
PASS_EVERY_S, USAGE_EVERY_S = 20.0, 600.0
CORES = 64
SHORTEST_JUDGED_MIN = 60.0  # a shorter run may have too few settled promises to judge how often they held
NODES = f"""
NodeName=node1 NodeHostname={HOST} NodeAddr=127.0.0.1 Port=17001 CPUs=48 RealMemory=64000 State=UNKNOWN
NodeName=node2 NodeHostname={HOST} NodeAddr=127.0.0.1 Port=17002 CPUs=16 RealMemory=64000 State=UNKNOWN
PartitionName=batch Nodes=ALL Default=YES MaxTime=60 State=UP
"""
_USAGE = "JobIDRaw,Cluster,User,Account,Partition,QOS,Submit,Start,End,ElapsedRaw,State,AllocCPUS,AllocTRES"
_TRUTH = "JobID,JobIDRaw,Submit,Start,End,State,Restarts"

pytestmark = [
    pytest.mark.schedulers,
    pytest.mark.deep,
    pytest.mark.timeout(int(MINUTES * 60) + 2_400),
    pytest.mark.skipif(not MINUTES, reason="it takes hours: make test-starts MINUTES=120"),
]


class TrueStart(NamedTuple):
    """What accounting says of a job. start_s: None if it never started."""

    submit_s: float
    start_s: float | None
    n_restarts: int


class Watch:
    """Carries out the steps of the mix, runs the agent's passes, and writes down each promise as soon as it is made."""

    def __init__(self, place: Place, session: psycopg.Connection[Any], whole_s: float) -> None:
        self.place, self.slurm, self.session, self.whole_s = place, place.slurm, session, whole_s
        self.promised: dict[int, Promised] = {}
        self.drained_s = self.back_s = 0.0
        self.done: Counter[str] = Counter()
        self._held: list[str] = []
        self._requeued: set[str] = set()

    def run(self) -> None:
        steps = iter(mix(SEED, self.whole_s, CORES, GROUPS))
        step, began_s = next(steps, None), time.monotonic()
        pass_s = usage_s = 0.0
        while (now_s := time.monotonic() - began_s) < self.whole_s:
            if step is not None and step.at_s <= now_s:
                self._take(step)
                step = next(steps, None)
            elif pass_s <= now_s:
                self.pass_once()
                pass_s = now_s + PASS_EVERY_S
            elif usage_s <= now_s:
                self._import_usage()
                usage_s = now_s + USAGE_EVERY_S
            else:
                next_s = min(pass_s, usage_s, self.whole_s, self.whole_s if step is None else step.at_s)
                time.sleep(max(next_s - (time.monotonic() - began_s), 0.0))

    def finish(self) -> None:
        """Cancel what is left, and pass until the last promise is settled."""
        for job in self._listed("PENDING") + self._listed("RUNNING"):
            self.slurm.attempt("scancel", job)
        ends_s = time.monotonic() + 900
        while any(not _is_settled(row) for row in read_rows(self.session)):
            assert time.monotonic() < ends_s, [row for row in read_rows(self.session) if not _is_settled(row)][:3]
            self.pass_once()
            time.sleep(PASS_EVERY_S)

    def pass_once(self) -> None:
        self.place.run_pass()
        new = read_promised(self.session, max(self.promised, default=0))
        self.promised |= {each.pk: each for each in new}

    def _take(self, step: Step) -> None:
        actions = {"submit": self._submit, "drain": self._drain, "resume": self._resume, "release": self._release}
        self.done[step.action] += actions.get(step.action, self._disturb)(step)

    def _submit(self, step: Step) -> bool:
        self.slurm.submit(
            step.user, GROUPS[step.user], "--nodes=1", *step.options, seconds=step.seconds, cpus=step.cpus
        )
        return True

    def _drain(self, _step: Step) -> bool:
        self.slurm.run("scontrol", "update", "nodename=node2", "state=drain", "reason=a fan")
        self.drained_s = time.time()
        return True

    def _resume(self, _step: Step) -> bool:
        self.slurm.run("scontrol", "update", "nodename=node2", "state=resume")
        self.back_s = time.time()
        return True

    def _release(self, _step: Step) -> bool:
        return bool(self._held) and self._control("release", self._held.pop(0))

    def _disturb(self, step: Step) -> bool:
        jobs = self._listed("RUNNING" if step.action == "requeue" else "PENDING")
        if not jobs:
            return False
        job = jobs[int(step.place * len(jobs))]
        if step.action == "cancel":
            return self.slurm.attempt("scancel", job).returncode == 0
        if step.action == "alter":
            return self._control("update", f"jobid={job}", "timelimit=30")
        if step.action == "requeue":
            return self._control("requeue", job)
        self._held.append(job)
        return self._control("hold", job)

    def _control(self, *words: str) -> bool:
        return self.slurm.attempt("scontrol", *words).returncode == 0

    def _listed(self, state: str) -> list[str]:
        """Jobs that aren't tasks of arrays, by number."""
        return sorted(job for job, in_state in self.slurm.queue("%i", "%T") if in_state == state and "_" not in job)

    def _import_usage(self) -> None:
        """The usage of jobs that ended moves the ranks, as at any site."""
        asked = ("--allusers", "-X", "--parsable2", "--starttime=now-1days", "--state=CD,TO,F", f"--format={_USAGE}")
        text = self.slurm.run("env", "SLURM_TIME_FORMAT=%s", "sacct", *asked)
        path = self.slurm.folder / "usage.txt"
        path.write_text(text)
        self.place.manage("import_usage", "--source", "c1", "--format", "sacct", str(path))
        self.place.recompute()

    def true_starts(self) -> dict[str, list[TrueStart]]:
        """By job, of an array by its number; every run of a requeued one."""
        asked = ("--allusers", "-X", "--parsable2", "--noheader", "--duplicates", "--starttime=now-2days")
        text = self.slurm.run("env", "SLURM_TIME_FORMAT=%s", "sacct", *asked, f"--format={_TRUTH}")
        starts: dict[str, list[TrueStart]] = {}
        for line in text.splitlines():
            job, _raw, submit, start, end, state, restarts = line.split("|")
            has_started = start.isdigit() and not (state.startswith("CANCELLED") and start == end)
            each = TrueStart(float(submit), float(start) if has_started else None, int(restarts or 0))
            starts.setdefault(job.partition("_")[0], []).append(each)
        return starts


def _is_settled(row: Row) -> bool:
    return Outcome.OPEN not in row.outcomes and row.left_s is not None


@pytest.fixture
def watch(release: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    (tmp_path / "slurm").mkdir()
    settings = {"PriorityWeightFairshare": "0"}
    with running_slurm(
        tmp_path / "slurm", users=tuple(GROUPS), settings=settings, nodes=NODES, release=release
    ) as slurm:
        slurm.add_tree(TREE)
        stack = Stack()
        try:
            stack.start(within_s=600)
            place = Place(stack, slurm, tmp_path, monkeypatch)
            with stack.connect() as session:
                yield Watch(place, session, MINUTES * 60)
        finally:
            stack.remove()


def test_promises_of_hours_are_settled_once_by_true_starts_and_hold_widely(
    watch: Watch, measure: Measure, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with capsys.disabled():
        print(f"\nSlurm {watch.slurm.version}, {MINUTES:g} minutes, seed {SEED}")
        watch.run()
        watch.finish()
        rows = read_rows(watch.session)
        truth = watch.true_starts()
        (tmp_path / "run.json").write_text(json.dumps({"rows": rows, "truth": truth, "seed": SEED}))
        print(f"{dict(watch.done)}; {sum(map(len, truth.values()))} runs of jobs in accounting")
        print("\n".join(record_lines(rows, lambda at_s: _phase(watch, at_s))), flush=True)

    assert {row.promised.pk: row.promised for row in rows} == watch.promised, "a promise is changed after it was made"
    assert not [row for row in rows if not _is_settled(row)]
    assert not [row for row in rows if None in row.settled_in], "each is settled by one report"
    assert _against_truth(rows, truth) == []
    assert _drained_late(rows) == []
    assert "what was learned is what the rows" in watch.place.manage("start_promises", "c1")
    at_submit = [row.as_past() for row in by_kind(rows)["at submit"]]
    n_settled = [held(at_submit, level).n for level in range(len(LEVELS))]
    assert MINUTES < SHORTEST_JUDGED_MIN or min(n_settled) >= LEAST_SETTLED, n_settled
    assert outside_bands(rows) == []
    at_80 = held([row.as_past() for row in rows], AT_80)
    planned = [row for row in rows if row.planned_outcome in SETTLED]
    n_held = sum(row.planned_outcome == Outcome.KEPT for row in planned)
    measure("starts: promises of 80 % held", f"{at_80.kept:.0f} of {at_80.n:.0f}")
    measure("starts: %S held", f"{n_held} of {len(planned)}")


def _phase(watch: Watch, at_s: float) -> str:
    half_s = watch.drained_s - watch.whole_s * DRAINED / 2
    if at_s < half_s:
        return "in the first quarter"
    if at_s < watch.drained_s:
        return "in the second quarter"
    return "while drained" if at_s < watch.back_s else "after the drain"


def _against_truth(rows: list[Row], truth: dict[str, list[TrueStart]]) -> list[str]:
    """What doesn't follow from accounting, of jobs that ran once and aren't arrays."""
    wrong = []
    for row in rows:
        promised, runs = row.promised, truth.get(row.promised.job, [])
        if len(runs) != 1 or runs[0].n_restarts:
            continue
        start_s = runs[0].start_s
        if bool(row.has_started) is not (start_s is not None):
            wrong.append(f"{promised.job}: accounting says start {start_s}, and {row}")
            continue
        for level in range(len(LEVELS)):
            outcome = Outcome(row.outcomes[level])
            is_kept = start_s is not None and start_s <= promised.made_s + promised.bounds_s[level]
            if (outcome in (Outcome.KEPT, Outcome.KEPT_APART)) is not is_kept:
                wrong.append(f"{promised.job} at {LEVELS[level]}: accounting says start {start_s}, and {row}")
            if outcome in APART and not row.cause:
                wrong.append(f"{promised.job}: apart without a cause: {row}")
    return wrong


def _drained_late(rows: list[Row]) -> list[Row]:
    """Promises from before the listing that first showed the drain, which outlived it without a cause."""
    shown_s = min((row.withdrawn_s or 0.0 for row in rows if row.cause == Cause.DRAINED), default=None)
    assert shown_s is not None, "the drain withdrew nothing"
    return [
        row
        for row in rows
        if row.promised.made_s < shown_s
        and not row.cause
        and (row.left_s or 0.0) > shown_s
        and row.promised.made_s + row.promised.bounds_s[-1] > shown_s
    ]
