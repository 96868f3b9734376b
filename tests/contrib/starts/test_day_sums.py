"""How often promises held, by day and group, and what is kept when they expire."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db.models import Sum

from apps.contrib.schedulers.models import Scheduler
from apps.contrib.starts.day_sums import sum_days
from apps.contrib.starts.learned import rebuilt, rows_behind_opening
from apps.contrib.starts.models import StartDay, StartPromise, StartState
from apps.contrib.starts.prediction import saved
from apps.contrib.starts.retention import prune_promises
from tests.contrib.starts.queues import MINUTE, Reports, TrueJob, listing, running, waiting
from tests.instants import AT

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


@pytest.fixture
def agent(new_scheduler: Callable[[], Scheduler]) -> Reports:
    return Reports(new_scheduler())


def sums(agent: Reports, *names: str, **chosen: object) -> tuple[float, ...]:
    totals = StartDay.objects.filter(scheduler=agent.scheduler, **chosen).aggregate(**{f"n_{n}": Sum(n) for n in names})
    return tuple(round(totals[f"n_{name}"], 9) for name in names)


def test_sums_count_each_promise_once_and_each_burst_once(agent: Reports) -> None:
    """Four of ada, of which one is broken and one large, are one burst; bob's is another."""
    users = ("ada", "ada", "ada", "ada", "bob")
    jobs = [
        waiting(str(n), user=user, cpus=64.0 if n == 1 else 4.0, planned_at=AT + 10 * MINUTE)
        for n, user in enumerate(users)
    ]
    agent.at(0, *jobs)
    starts = [*((n, 5) for n in (0, 1, 2, 4)), (3, 61)]
    agent.at(70, *(running(str(n), user=users[n], start_at=AT + minute * MINUTE) for n, minute in starts))
    assert sum_days(agent.scheduler, at=AT + DAY) == 1
    of_80 = {"level": 80, "kind": "submit"}
    assert sums(agent, "kept", "broken", "unknown", **of_80) == (4, 1, 0)
    assert sums(agent, "bursts", "bursts_kept", **of_80) == (2, 1.75)
    assert sums(agent, "above", "above_kept", "above_bursts", "above_bursts_kept", **of_80) == (5, 4, 2, 1.75)
    assert sums(agent, "planned", "planned_kept", "ours_beside_kept", **of_80) == (5, 4, 4)
    assert sums(agent, "bursts", size=3, **of_80) == (0.25,)
    assert sums(agent, "planned", level=95) == (0,)
    assert StartState.objects.get(scheduler=agent.scheduler).held == {"submit": [4, 5]}
    assert sum_days(agent.scheduler, at=AT + DAY) == 0


def test_a_planned_start_that_passes_after_ours_is_counted_while_the_job_waits(agent: Reports) -> None:
    agent.at(0, waiting(planned_at=AT + 180 * MINUTE))
    agent.at(70, waiting())
    sum_days(agent.scheduler, at=AT + DAY)
    assert sums(agent, "broken", "planned", kind="submit", level=80) == (1, 0)
    agent.at(190, waiting())
    assert sum_days(agent.scheduler, at=AT + DAY) == 1
    assert sums(agent, "broken", "planned", "planned_kept", kind="submit", level=80) == (1, 1, 0)


def test_withdrawn_promises_are_counted_apart(agent: Reports) -> None:
    agent.at(0, waiting(), waiting("2"))
    agent.at(1, waiting(is_held=True), waiting("2", is_held=True))
    agent.at(70, waiting(is_held=True), running("2", start_at=AT + 30 * MINUTE))
    sum_days(agent.scheduler, at=AT + DAY)
    assert sums(agent, "kept", "broken", "apart_kept", "apart_broken", "bursts", level=50) == (0, 0, 1, 1, 0)


@pytest.mark.deep
def test_expired_rows_go_and_what_they_taught_stays(agent: Reports) -> None:
    jobs = [TrueJob(str(n), n * 1_450, n * 1_450 + 37 * n % 900, n * 1_450 + 1_000) for n in range(1, 100)]
    for job in jobs:
        for minute in (1, 700):
            agent.take(listing(jobs, job.submit + minute))
    state = StartState.objects.get(scheduler=agent.scheduler)
    at, n_rows = AT + 145_000 * MINUTE, StartPromise.objects.count()
    gone = prune_promises(at=at)
    assert 0 < gone < n_rows
    assert not StartPromise.objects.filter(made_at__lt=at - 91 * DAY).exists()
    again = StartState.objects.get(scheduler=agent.scheduler)
    assert again.opening_seq > 0
    assert saved.save(rebuilt(again)) == (bytes(state.data), state.digest)
    behind = rows_behind_opening(again)
    assert 0 < behind.count() < StartPromise.objects.count()
    assert not behind.filter(left_in__lte=again.opening_seq).exists()
    counted = sums(agent, "kept", "broken", "unknown", level=80)
    assert sum(counted) + StartPromise.objects.filter(outcomes__contains=[0]).count() == n_rows
    assert prune_promises(at=at) == 0


def test_days_with_an_open_promise_keep_all_of_their_rows(agent: Reports) -> None:
    """Its agent was away for months: the day is summed again when it settles."""
    agent.at(0, waiting("1"), waiting("2"))
    agent.at(30, running("1", start_at=AT + 20 * MINUTE), waiting("2"))
    agent.at(31, waiting("2"), waiting("3", submit_at=AT + 31 * MINUTE))
    for days in (91, 200):
        assert prune_promises(at=AT + days * DAY) == 0
    agent.at(200 * 1_440, running("2", start_at=AT + 40 * MINUTE), running("3", start_at=AT + 41 * MINUTE))
    sum_days(agent.scheduler, at=AT + 201 * DAY)
    assert sums(agent, "kept", "broken", level=80, kind="submit") == (3, 0)


@pytest.mark.parametrize(("minute", "n_of_later_day"), [(98 * 1_440, 0), (90 * 1_440 + 20, 1)])
def test_a_day_with_an_open_plan_keeps_all_of_its_rows_and_later_days_go(
    agent: Reports, minute: int, n_of_later_day: int
) -> None:
    """The scheduler plans a job 100 days ahead, as it does behind jobs without an end."""
    agent.at(0, waiting("1"))
    agent.at(30, running("1", start_at=AT + 20 * MINUTE), waiting("2", planned_at=AT + 100 * DAY))
    agent.at(70, waiting("2"))
    for later, job in ((2_000, "3"), (8_000, "4")):
        agent.at(later, waiting("2"), waiting(job, submit_at=AT + later * MINUTE))
        agent.at(later + 9, waiting("2"), running(job, start_at=AT + (later + 1) * MINUTE))
    prune_promises(at=AT + minute * MINUTE)
    assert StartPromise.objects.filter(scheduler=agent.scheduler, job="3").count() == n_of_later_day
    agent.at(101 * 1_440, waiting("2"))
    sum_days(agent.scheduler, at=AT + 101 * DAY)
    assert sums(agent, "kept", "broken", "planned", kind="submit", level=80, day=AT.date()) == (1, 1, 1)
