"""Facts of a listed queue: those of the nodes that a job waits for, by hand."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from apps.contrib.schedulers.queue_state import EndedJob, PartitionState, QueueJob, QueueState
from apps.contrib.starts.listed_facts import AskedJob, listed_facts
from apps.contrib.starts.planned_starts import planned_starts
from apps.contrib.starts.prediction.calibration import SHIFT_S
from apps.contrib.starts.prediction.queue_facts import FACTS, UNKNOWN_WAITS_S, as_kept, is_of_layout, packed, unpacked
from tests.contrib.starts.queues import MINUTE, running, waiting
from tests.instants import AT

HOUR = timedelta(hours=1)
BATCH = PartitionState("batch", 80, 20, {}, {}, 20, 0, 10, 86_400.0)  # half of its nodes are drained
LONG = BATCH._replace(name="long", limit_s=None)  # another way into the same nodes
GPU = PartitionState("gpu", 16, 16, {}, {}, 2, 0, 0, None)
JOBS = (
    waiting("1", priority=9.0, cpus=30.0, limit_s=3_600.0, submit_at=AT - HOUR, user="bob"),
    waiting("2", priority=8.0, partition="long,gpu", array="2", n_tasks=3, cpus=2.0, limit_s=1_800.0),
    waiting("3", priority=7.0, cpus=8.0, limit_s=7_200.0),
    waiting("4", priority=9.5, partition="gpu", cpus=16.0),
    waiting("5", priority=99.0, is_held=True, cpus=64.0),
    running("6", cpus=20.0, start_at=AT - HOUR / 2, limit_s=3_600.0),
    running("7", cpus=12.0, partition="long", start_at=AT - 5 * HOUR, limit_s=3_600.0, user="bob"),
)


def state(**more: Any) -> QueueState:
    ended = (EndedJob("8", "", False, AT - 3 * MINUTE, AT),)
    fields = {"partitions": (BATCH, LONG, GPU), "ended": ended, "has_running": True, **more}
    return QueueState(AT, JOBS, **fields)


def facts_of(now: QueueState, *asked: QueueJob, waited_s: float = 0.0) -> list[dict[str, float]]:
    jobs = [AskedJob(job, waited_s, (60.0, 120.0, 240.0)) for job in asked]
    return [dict(zip(FACTS, row, strict=True)) for row in listed_facts(now, planned_starts(now), jobs).tolist()]


def test_facts_are_of_the_nodes_that_the_job_waits_for() -> None:
    third, fourth = facts_of(state(), JOBS[2], JOBS[3])
    work = 30 * 3_600 + 3 * 2 * 1_800
    expected = {
        "cpus": 3.0,
        "limit": math.log(7_200 + SHIFT_S),
        "waiting_jobs": math.log(4),
        "waiting_cpus": (30 + 6 + 8) / 40,
        "waiting_work": math.log((work + 8 * 7_200) / 40 + SHIFT_S),
        "oldest_wait": math.log(3_600 + SHIFT_S),
        "running_jobs": math.log(3),
        "running_cpus": 32 / 40,
        "running_work": math.log((20 * 1_800 + 12 * 60) / 40 + SHIFT_S),
        "share_of_free": 1.0,
        "fits_in": math.log(SHIFT_S),
        "jobs_ahead": math.log(3),
        "cpus_ahead": 36 / 40,
        "work_ahead": math.log(work / 40 + SHIFT_S),
        "own_waiting": math.log(3),
        "own_running_cpus": 20 / 40,
        "recent_80": math.log(120 + SHIFT_S),
        "last_start": math.log(180 + SHIFT_S),
        "starts_of_hour": math.log(3),
    }
    assert {name: third[name] for name in expected} == pytest.approx(expected)
    assert math.isnan(third["share_of_use"])
    assert (fourth["waiting_cpus"], fourth["running_jobs"], fourth["jobs_ahead"]) == (1.0, 0.0, 0.0)


def test_a_job_that_doesn_t_fit_does_when_the_nearest_limits_have_passed() -> None:
    (first,) = facts_of(state(), JOBS[0], waited_s=600.0)
    assert first["share_of_free"] == pytest.approx(30 / 8)
    assert first["fits_in"] == pytest.approx(math.log(1_800 + SHIFT_S))
    assert first["age"] == pytest.approx(math.log(600 + SHIFT_S))  # since it may start, not since submission


def test_what_no_agent_lists_is_unknown() -> None:
    (first,) = facts_of(state(partitions=(), has_running=False), JOBS[0])
    unknown = {name for name, fact in first.items() if math.isnan(fact)}
    assert unknown >= {"running_jobs", "fits_in", "own_running_cpus", "last_start", "plan", "waiting_cpus"}
    assert not math.isnan(first["waiting_jobs"])


def test_facts_are_kept_to_seven_digits_and_of_one_layout() -> None:
    facts = np.array([[math.pi * place for place in range(len(FACTS))], [math.nan] * len(FACTS)])
    kept = [packed(row) for row in facts]
    assert unpacked(kept).tobytes() == as_kept(facts).tobytes()
    assert np.allclose(unpacked(kept)[0], facts[0], rtol=1e-7)
    assert [is_of_layout(row) for row in (kept[0], b"\x00" + kept[0][1:], kept[0] + b"\x00", b"")] == [True] + [
        False
    ] * 3
    assert len(UNKNOWN_WAITS_S) == 3
