"""How far plans were off: against a plain loop over the rows, and what counts in it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from statistics import median

import pytest

from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.queue_state import PartitionState
from apps.contrib.starts.models import Cause, StartPromise
from apps.contrib.starts.plan_error import PlanError, plan_error
from apps.contrib.starts.sentences import LEAST_PROMISES_OF_RECORD
from tests.contrib.starts.queues import MINUTE, Reports, running, waiting
from tests.instants import AT

pytestmark = pytest.mark.django_db
NewScheduler = Callable[[], Scheduler]
BATCH = PartitionState("batch", 8, 8, {}, {}, 2, 0, 0, 86_400.0)
LATER = AT + timedelta(days=3)


def planned_and_started(agent: Reports, waits_min: list[float], first: int = 1) -> None:
    """Jobs of one hour, one after the other on the whole partition, so that the n-th is planned after n hours."""
    jobs = [waiting(str(first + n), cpus=8.0, limit_s=3_600.0) for n in range(len(waits_min))]
    agent.at(0, *jobs, partitions=(BATCH,))
    started = [running(job.job, start_at=AT + wait * MINUTE) for job, wait in zip(jobs, waits_min, strict=True)]
    agent.at(48 * 60.0, *started, partitions=(BATCH,))


def test_the_error_is_that_of_a_plain_loop_over_planned_and_true_starts(new_scheduler: NewScheduler) -> None:
    agent = Reports(new_scheduler())
    waits_min = [61.0 * n - (3 * n % 70) for n in range(1, 41)]
    planned_and_started(agent, waits_min)
    rows = StartPromise.objects.filter(scheduler=agent.scheduler)
    plans: dict[str, float] = {row.job: row.plan_s for row in rows if row.plan_s is not None}
    assert sorted(plans.values()) == [3_600.0 * n for n in range(40)]
    pairs = [(plan_s, 60 * waits_min[int(job) - 1]) for job, plan_s in plans.items()]
    off = median(abs(wait_s - plan_s) for plan_s, wait_s in pairs)
    held = sum(wait_s <= max(plan_s, 300) for plan_s, wait_s in pairs) / 40
    assert 0 < held < 1
    error = plan_error(agent.scheduler, LATER)
    assert (error.starts, error.days) == (40, 90)
    assert error.median_s == pytest.approx(off)
    assert error.held == pytest.approx(held)
    assert plan_error(agent.scheduler, AT + timedelta(days=91)) == PlanError(0, 90, None, None)


def test_fewer_starts_than_a_record_takes_have_no_error(new_scheduler: NewScheduler) -> None:
    agent = Reports(new_scheduler())
    planned_and_started(agent, [60.0] * (LEAST_PROMISES_OF_RECORD - 1))
    assert plan_error(agent.scheduler, LATER) == PlanError(29, 90, None, None)


def test_jobs_that_their_users_changed_and_jobs_without_a_plan_count_nowhere(new_scheduler: NewScheduler) -> None:
    agent = Reports(new_scheduler())
    planned_and_started(agent, [60.0] * 40)
    rows = StartPromise.objects.filter(scheduler=agent.scheduler)
    for job, change in (("3", {"cause": Cause.ALTERED}), ("4", {"cause": Cause.HELD}), ("5", {"plan_s": None})):
        rows.filter(job=job).update(**change)
    rows.filter(job="6").update(cause=Cause.DRAINED)  # the machine's doing is part of the error
    assert plan_error(agent.scheduler, LATER).starts == 37
    assert plan_error(new_scheduler(), LATER).starts == 0
