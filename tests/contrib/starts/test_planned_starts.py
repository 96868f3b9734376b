"""Planned starts of a listed queue: order, held jobs, limits that nobody gave, shared nodes, reservations."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apps.contrib.schedulers.queue_state import PartitionState, QueueJob, QueueState, Reservation
from apps.contrib.starts.planned_starts import OVERDUE_S, PlannedJob, planned_starts
from apps.contrib.starts.prediction.bases import PLAN, SCHEDULER
from apps.contrib.starts.prediction.queue_plan import NeverStarts

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def job(number: str, cpus: float = 4, limit_s: float | None = 100, **changes: Any) -> QueueJob:
    waiting = QueueJob(
        job=number,
        user="ada",
        account="physics",
        partition="long",
        qos="",
        state="waiting",
        cpus=cpus,
        gpus={},
        nodes=None,
        limit_s=limit_s,
        submit_at=after(-60),
        start_at=None,
        begin_at=None,
        planned_at=None,
        dependency=False,
        reason="Priority",
        priority=None,
    )
    return waiting._replace(**changes)


def running(number: str, cpus: float, limit_s: float | None, began_s: float = 0, **changes: Any) -> QueueJob:
    return job(number, cpus, limit_s, state="running", start_at=after(-began_s), **changes)


def partition(name: str = "long", cpus: float = 8, free: float = 8, **changes: Any) -> PartitionState:
    listed = PartitionState(
        name=name,
        cpus=cpus,
        cpus_free=free,
        gpus={},
        gpus_free={},
        nodes=4,
        nodes_down=0,
        nodes_drained=0,
        limit_s=None,
    )
    return listed._replace(**changes)


def starts(*jobs: QueueJob, partitions: tuple[PartitionState, ...] = (partition(),), **changes: Any) -> dict[str, Any]:
    state = QueueState(taken_at=NOW, jobs=jobs, partitions=partitions, has_running=True)._replace(**changes)
    return {number: each.planned_s.get(PLAN, each.never) for number, each in planned_starts(state).items()}


def test_jobs_are_planned_by_priority_then_by_submission() -> None:
    busy = running("1", 8, 100, began_s=40)
    jobs = [job("2", 8, priority=5.0), job("3", 8, priority=9.0), job("4", 8, submit_at=after(-90)), job("5", 8)]
    planned = starts(busy, *jobs, partitions=(partition(free=0),))
    assert planned == {"3": 60.0, "2": 160.0, "4": 260.0, "5": 360.0}


def test_held_jobs_and_those_that_wait_for_others_take_no_part_and_begin_times_hold() -> None:
    jobs = [job("1", 8, is_held=True), job("2", 8, dependency=True), job("3", 8, begin_at=after(500)), job("4", 8)]
    assert starts(*jobs) == {"1": None, "2": None, "3": 500.0, "4": 0.0}


def test_a_job_beyond_its_limit_ends_soon() -> None:
    assert starts(running("1", 8, 100, began_s=900), job("2", 8), partitions=(partition(free=0),)) == {"2": OVERDUE_S}


def test_a_limit_is_of_the_job_its_partition_or_of_others_and_then_marked() -> None:
    busy = [running("1", 8, None)]
    of_partition = starts(*busy, job("2", 8), partitions=(partition(free=0, limit_s=700),))
    assert of_partition == {"2": 700.0}
    state = QueueState(NOW, (*busy, job("2", 8, 400), job("3", 1, None)), (partition(free=0),), has_running=True)
    planned = planned_starts(state)
    assert planned["2"].planned_s == {PLAN: 400.0}
    assert not planned["2"].is_limit_assumed
    assert planned["3"].is_limit_assumed


def test_the_schedulers_own_plan_stands_beside_ours_unless_it_is_past() -> None:
    jobs = job("1", planned_at=after(90)), job("2", planned_at=after(-90)), job("3", planned_at=after(9), is_held=True)
    state = QueueState(NOW, jobs, (partition(),), has_running=True)
    assert planned_starts(state) == {
        "1": PlannedJob({SCHEDULER: 90.0, PLAN: 0.0}),
        "2": PlannedJob({PLAN: 0.0}),
        "3": PlannedJob({}),
    }
    assert planned_starts(state._replace(has_running=False))["1"] == PlannedJob({SCHEDULER: 90.0})
    assert planned_starts(state._replace(partitions=()))["1"] == PlannedJob({SCHEDULER: 90.0})


@pytest.mark.parametrize(
    ("changes", "planned"),
    [
        ({"nodes_down": 1, "nodes_drained": 1}, {"1": 0.0, "2": NeverStarts.CPUS}),
        ({"nodes_down": 4}, {"1": NeverStarts.CPUS, "2": NeverStarts.CPUS}),
        ({"is_up": False}, {"1": NeverStarts.CPUS, "2": NeverStarts.CPUS}),
        ({"limit_s": 60.0}, {"1": NeverStarts.LIMIT, "2": NeverStarts.LIMIT}),
        ({"name": "short"}, {"1": NeverStarts.PARTITION, "2": NeverStarts.PARTITION}),
        ({}, {"1": 0.0, "2": 100.0}),
    ],
)
def test_jobs_that_can_never_start_are_named(changes: dict[str, Any], planned: dict[str, Any]) -> None:
    free = 8 * (1 - (changes.get("nodes_down", 0) + changes.get("nodes_drained", 0)) / 4)
    assert starts(job("1", 4), job("2", 8), partitions=(partition(free=free, **changes),)) == planned


def test_partitions_that_look_alike_are_ways_into_the_same_nodes() -> None:
    busy = running("1", 6, 100)
    alike = partition(free=2), partition("short", free=2)
    jobs = [job("2", 4), job("3", 4, partition="short"), job("4", 2, partition="short,long")]
    assert starts(busy, *jobs, partitions=alike) == {"2": 100.0, "3": 100.0, "4": 0.0}


def test_what_jobs_of_an_overlapping_partition_take_ends_when_half_of_all_do() -> None:
    elsewhere = [running(str(n), 2, limit_s, partition="other") for n, limit_s in ((1, 50), (2, 300), (3, 900))]
    overlapping = partition(free=2), partition("other", cpus=20, free=14, nodes=10)
    assert starts(*elsewhere, job("4", 8), partitions=overlapping) == {"4": 300.0}


@pytest.mark.parametrize(
    ("changes", "planned_s"),
    [({}, 700.0), ({"nodes": 2}, 0.0), ({"nodes": None, "cpus": 4.0}, 0.0), ({"nodes": 3}, 700.0)],
)
def test_a_reservation_keeps_out_what_would_run_into_it(changes: dict[str, Any], planned_s: float) -> None:
    reserved = Reservation("maintenance", after(50), after(700), "long", None, None, True)._replace(**changes)
    assert starts(job("1", 4), reservations=(reserved,)) == {"1": planned_s}
    assert starts(job("1", 4, 50), reservations=(reserved,)) == {"1": 0.0}
    assert starts(job("1", 4), reservations=(reserved._replace(partition="other"),)) == {"1": 0.0}
    everywhere = starts(job("1", 4), reservations=(reserved._replace(partition=""),))
    assert everywhere == {"1": planned_s}


def test_tasks_of_an_array_take_what_they_need_one_by_one() -> None:
    array, other = job("1", 4, n_tasks=5, array="1"), job("2", 4, submit_at=after(-30))
    assert starts(array, other) == {"1": 0.0, "2": 200.0}
    huge = job("1", 4, n_tasks=100_000, array="1")
    assert starts(huge, other) == {"1": 0.0, "2": None}  # beyond what is planned


def test_tasks_that_are_listed_apart_are_planned_as_those_that_go_first() -> None:
    rows = [
        job("10", cpus=8, limit_s=100, array="10", priority=3.0, planned_at=after(50)),
        job("10", cpus=8, limit_s=100, array="10", priority=2.0, planned_at=after(150)),
        job("10", cpus=8, limit_s=100, array="10", priority=9.0, is_held=True),
    ]
    for jobs in (rows, rows[::-1], [rows[1], rows[2], rows[0]]):
        state = QueueState(NOW, tuple(jobs), (partition(),), has_running=True)
        assert planned_starts(state)["10"].planned_s == {PLAN: 0.0, SCHEDULER: 50.0}
