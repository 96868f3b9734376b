"""Jobs with several processors: the head of the line is never delayed by what is filled in before it."""

from __future__ import annotations

import heapq
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.contrib.lab.simulation import run, simulate
from apps.contrib.lab.simulation.scenario import read_scenario
from apps.contrib.lab.simulation.workload import draw
from apps.engine import fast
from tests.examples import examples

CPUS = 8


def scenario_of(lines: list[dict[str, Any]], *, backfill: bool, seed: int = 1, **more: Any) -> dict[str, Any]:
    """One entry, so that the line is in order of arrival and who is at its head never changes."""
    return {
        "hours": 12,
        "seed": seed,
        "sites": [{"name": "s", "cpus": CPUS}],
        "algorithm": {"name": "gridwide"},
        "policy": {"name": "r", "children": [{"name": "a", "shares": 1}]},
        "workload": [{"entry": "/a", "run_h": [0.1, 1.0], "requested_factor": [1.0, 3.0]} | line for line in lines],
        "backfill": backfill,
    } | more


def ran(scenario: dict[str, Any]) -> tuple[list[dict[str, float]], float]:
    """Started jobs in order of arrival, and the end."""
    read = read_scenario(scenario, seed=None, traces={})
    workload = draw(read)
    with fast.switched(False):
        started_s = run.run_jobs(read, workload).started_s
    jobs = workload.jobs
    rows = workload.arrivals.job.tolist()
    found = [
        {
            "at": float(at_s),
            "start": float(started_s[row]),
            "cpus": int(jobs.cpus[row]),
            "end": float(started_s[row] + jobs.run_s[row]),
            "due": float(started_s[row] + jobs.requested_s[row]),
        }
        for at_s, row in zip(workload.arrivals.at_s, rows, strict=True)
    ]
    return found, read.end_s


def promised_s(jobs: list[dict[str, float]], number: int, now_s: float) -> float:
    """By when the job could start at the latest, if nothing came before it from now on."""
    free = CPUS
    dues: list[tuple[float, float]] = []
    for other in jobs:
        if 0 <= other["start"] <= now_s < other["end"]:
            free -= int(other["cpus"])
            heapq.heappush(dues, (max(now_s, other["due"]), other["cpus"]))
    at_s = now_s
    while free < jobs[number]["cpus"]:
        at_s, cpus = heapq.heappop(dues)
        free += int(cpus)
    return at_s


LINES = st.lists(
    st.fixed_dictionaries({"cpus": st.integers(1, CPUS), "every_s": st.sampled_from([600, 1300, 2900])}),
    min_size=1,
    max_size=4,
)


@examples(60)
@given(LINES, st.integers(0, 99), st.sampled_from([{}, {"dispatch": "sam", "front": "fifo"}]))
def test_backfill_never_delays_the_first_job(lines: list[dict[str, Any]], seed: int, more: dict[str, Any]) -> None:
    """Whatever starts before an earlier job leaves it the instant that it could count on just before."""
    jobs, _ = ran(scenario_of(lines, backfill=True, seed=seed, **more))
    for number, job in enumerate(jobs):
        earlier = [n for n in range(number) if jobs[n]["start"] < 0 or jobs[n]["start"] > job["start"]]
        if job["start"] < 0 or not earlier:
            continue
        head = earlier[0]
        without = [other if other is not job else other | {"start": -1.0} for other in jobs]
        promise_s = promised_s(without, head, job["start"])
        assert promised_s(jobs, head, job["start"]) <= promise_s + 1e-6
        if jobs[head]["start"] >= 0:
            assert jobs[head]["start"] <= promise_s + 1e-6


@examples(30)
@given(LINES, st.integers(0, 99))
def test_without_backfill_one_entry_is_served_strictly_in_order(lines: list[dict[str, Any]], seed: int) -> None:
    jobs, end_s = ran(scenario_of(lines, backfill=False, seed=seed))
    free_from = [0.0] * CPUS  # each processor's next free instant: a list schedule of rigid jobs
    last_s = 0.0
    for job in jobs:
        free_from.sort()
        start_s = max(last_s, job["at"], free_from[int(job["cpus"]) - 1])
        if start_s >= end_s:
            assert job["start"] < 0 or job["start"] >= end_s - 1e-6
            break
        assert job["start"] == pytest.approx(start_s, abs=1e-6)
        for cpu in range(int(job["cpus"])):
            free_from[cpu] = job["end"]
        last_s = start_s


@pytest.mark.parametrize("dispatch", [{}, {"dispatch": "sam"}])
def test_backfill_uses_idle_processors(dispatch: dict[str, Any]) -> None:
    lines = [{"cpus": 7, "every_s": 2400}, {"cpus": 1, "every_s": 300}]
    starts = [simulate(scenario_of(lines, backfill=on, **dispatch))["jobs"]["started"] for on in (False, True)]
    assert starts[1] > starts[0]


def test_processors_are_never_allocated_twice() -> None:
    lines = [{"cpus": 5, "every_s": 600}, {"cpus": 3, "every_s": 500}, {"cpus": 1, "every_s": 200}]
    jobs, _ = ran(scenario_of(lines, backfill=True))
    edges = sorted(
        (job[key], sign * job["cpus"]) for job in jobs if job["start"] >= 0 for key, sign in (("end", -1), ("start", 1))
    )
    busy = np.cumsum([cpus for _, cpus in edges])
    assert busy.max() <= CPUS
