"""Both plans of random queues beside an oracle: its own priorities, its own order, and every instant tried."""

from __future__ import annotations

import math
from collections import defaultdict
from datetime import timedelta
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.queue_state import PartitionState, QueueJob, state_of
from apps.contrib.schedulers.queue_table import read_queue
from apps.contrib.starts.draft_waits.planned import plan_twice, waits_by_row
from apps.contrib.starts.now.wait_statistics import LEAST_WAIT_JOBS
from tests.contrib.schedulers.reports import instant, job
from tests.contrib.starts.test_plan import Job, oracle
from tests.examples import examples
from tests.instants import AT

CPUS = 12
WEIGHT = 100_000
FACTOR = st.one_of(st.none(), st.integers(0, 4).map(lambda n: n / 4))


class Waits(NamedTuple):
    """A waiting job. listed: whether the scheduler prints its terms; factors: published and of the draft."""

    cpus: int
    length_s: int
    submitted_s: int
    group: int
    own: int  # what the scheduler's own fair share adds
    value: int  # what the agent added
    other: int
    is_held: bool
    listed: bool
    factors: tuple[float | None, float | None]


WAITING = st.builds(
    Waits,
    cpus=st.integers(1, CPUS + 2),
    length_s=st.integers(1, 40).map(lambda n: 60 * n),
    submitted_s=st.integers(1, 3),
    group=st.integers(0, 2),
    own=st.integers(0, 2).map(lambda n: 1_000 * n),
    value=st.integers(0, 3).map(lambda n: 20_000 * n),
    other=st.integers(0, 3).map(lambda n: 30_000 * n),
    is_held=st.sampled_from((False, False, False, True)),
    listed=st.booleans(),
    factors=st.tuples(FACTOR, FACTOR),
)
RUNS = st.tuples(st.integers(1, 6), st.integers(1, 60).map(lambda n: 60 * n))
KNOBS = {
    "sitefactor": ("slurm", 1),
    "nice": ("slurm", -1),
    "priority": ("slurm", 1),
    "override_tickets": ("gridengine", 1),
}


def row_of(number: int, each: Waits, knob: str) -> dict[str, Any]:
    value = -each.value if knob == "nice" else each.value
    terms = {"fairshare": each.own, "site": 0, "nice": 0, "age": each.other}
    terms |= {"nice": value} if knob == "nice" else {"site": value}
    return job(
        str(number),
        cpus=each.cpus,
        limit_s=each.length_s,
        submit_at=instant(AT - timedelta(seconds=each.submitted_s)),
        state="held" if each.is_held else "pending",
        terms=terms if each.listed else None,
        priority=1 + each.own + each.value + each.other,
    )


def priority_of(each: Waits, factor: float | None, knob: str) -> float:
    """By the words of the documentation: less what fair share adds now, plus weight times factor."""
    listed = 1 + each.own + each.value + each.other
    if knob == "override_tickets":
        return -math.inf if factor is None else factor
    if factor is None or (not each.listed and knob != "priority"):
        return listed
    points = round(WEIGHT * factor)
    return 1 + points if knob == "priority" else max(1 + each.other + points, 1)


def expected(queue: list[Waits], running: list[tuple[int, int]], knob: str, which: int) -> list[float]:
    """NaN for a job without a planned start."""
    able = [n for n, each in enumerate(queue) if not each.is_held]
    able.sort(key=lambda n: (-priority_of(queue[n], queue[n].factors[which], knob), -queue[n].submitted_s, str(n + 1)))
    fits = [n for n in able if queue[n].cpus <= CPUS]
    taken = [(0, float(cpus), 0.0, float(length_s)) for cpus, length_s in running]
    jobs = [Job(0.0, float(queue[n].length_s), [[(0, float(queue[n].cpus))]]) for n in fits]
    starts = dict(zip(fits, oracle([float(CPUS)], taken, jobs), strict=True))
    return [starts.get(n, math.nan) for n in range(len(queue))]


@pytest.mark.parametrize("knob", list(KNOBS))
@given(queue=st.lists(WAITING, max_size=12), running=st.lists(RUNS, max_size=2))
@examples(60)
def test_both_plans_are_those_of_an_oracle(knob: str, queue: list[Waits], running: list[tuple[int, int]]) -> None:
    scheduler = Scheduler(kind=KNOBS[knob][0], knob=knob, weight=WEIGHT)
    table = read_queue([row_of(n + 1, each, knob) for n, each in enumerate(queue)])
    busy = sum(cpus for cpus, _length_s in running)
    batch = PartitionState("batch", CPUS, CPUS - busy, {}, {}, 1, 0, 0, None)
    state = state_of(table, None, AT)
    runs = [running_job(n, *each) for n, each in enumerate(running)]
    state = state._replace(jobs=(*state.jobs, *runs), partitions=(batch,), has_running=True)
    columns = [np.array([math.nan if (f := each.factors[i]) is None else f for each in queue]) for i in range(2)]
    plans = plan_twice(state, table, scheduler, (columns[0], columns[1]))
    wanted = [expected(queue, running, knob, which) for which in range(2)]
    np.testing.assert_array_equal(plans.published, wanted[0])
    np.testing.assert_array_equal(plans.draft, wanted[1])
    groups = np.array([each.group for each in queue], np.int64)
    by_group: defaultdict[int, list[tuple[float, float]]] = defaultdict(list)
    for each, *starts in zip(queue, *wanted, strict=True):
        if not math.isnan(starts[0]):
            by_group[each.group].append((starts[0], starts[1]))
    for group, waits in enumerate(waits_by_row(plans, groups, 3)):
        of_group = by_group[group]
        if len(of_group) < LEAST_WAIT_JOBS:
            assert waits is None
        else:
            assert waits is not None
            assert waits.jobs == len(of_group)
            assert waits.median_s == pytest.approx(median(start for start, _draft in of_group))
            assert waits.draft_median_s == pytest.approx(median(draft for _start, draft in of_group))


def running_job(number: int, cpus: int, length_s: int) -> QueueJob:
    return QueueJob(
        job=f"r{number}", user="ann", account="", partition="batch", qos="", state="running", cpus=float(cpus), gpus={},
        nodes=1, limit_s=float(length_s), submit_at=AT, start_at=AT, begin_at=None, planned_at=None, dependency=False,
        reason="", priority=None,
    )  # fmt: skip
