"""Promises made and settled with reports of an agent: by start times, once each, and rebuilt from their rows."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from typing import Any

import numpy as np
import pytest
from django.core.management import call_command
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.queue_state import EndedJob, PartitionState, QueueState, Reservation
from apps.contrib.starts import reports
from apps.contrib.starts.learned import is_as_rows_teach, predictor_of, rebuild, rebuilt
from apps.contrib.starts.models import Cause, Outcome, StartPromise, StartState
from apps.contrib.starts.prediction import saved
from apps.contrib.starts.prediction.promises import LEVELS, UNKNOWN_LENGTH, Kind
from apps.contrib.starts.promise_rows import deadline, promise_of
from apps.contrib.starts.reports import take_queue
from apps.core.blobs import pack
from tests.contrib.schedulers.reports import instant, report
from tests.contrib.starts.queues import MINUTE, Reports, TrueJob, listing, running, waiting
from tests.examples import examples
from tests.instants import AT
from tests.rest_site import Caller
from tests.small_site import Site

pytestmark = pytest.mark.django_db
NewScheduler = Callable[[], Scheduler]
ALL_KEPT, ALL_BROKEN, ALL_OPEN = ([outcome] * 3 for outcome in (Outcome.KEPT, Outcome.BROKEN, Outcome.OPEN))


def rows_of(scheduler: Scheduler, job: str = "1") -> list[StartPromise]:
    return list(StartPromise.objects.filter(scheduler=scheduler, job=job).order_by("made_in"))


def printed(*arguments: str) -> str:
    out = StringIO()
    call_command("start_promises", *arguments, stdout=out)
    return out.getvalue()


def is_rebuilt(scheduler: Scheduler) -> bool:
    state = StartState.objects.get(scheduler=scheduler)
    return saved.save(rebuilt(state)) == (bytes(state.data), state.digest)


@pytest.fixture
def agent(new_scheduler: NewScheduler) -> Reports:
    return Reports(new_scheduler())


def test_a_job_is_promised_when_seen_and_settled_by_its_start(agent: Reports) -> None:
    agent.at(0, waiting())
    (row,) = rows_of(agent.scheduler)
    assert (row.made_at, row.is_first, row.outcomes, row.soon) == (AT, True, ALL_OPEN, 0.5)
    assert deadline(row, 1) == AT + timedelta(hours=1)
    agent.at(30, waiting())
    assert rows_of(agent.scheduler)[0].outcomes == ALL_OPEN
    agent.at(90, running(start_at=AT + 20 * MINUTE))  # seen after the deadline, started before it
    (row,) = rows_of(agent.scheduler)
    assert (row.outcomes, row.left_at, row.has_started) == (ALL_KEPT, AT + 20 * MINUTE, True)
    assert (row.was_soon, row.next_at, row.due_at) == (False, None, None)
    assert is_rebuilt(agent.scheduler)


def test_a_deadline_passes_while_the_job_waits_and_a_doubled_wait_gets_another_promise(agent: Reports) -> None:
    agent.at(0, waiting())
    agent.at(61, waiting())  # within the slack of clocks
    first, second = rows_of(agent.scheduler)
    assert (first.outcomes, second.is_first, second.age_s) == (ALL_OPEN, False, 3_600)
    agent.at(62.5, waiting())
    agent.at(119, waiting())
    agent.at(121, waiting())
    outcomes = [(row.age_s, row.outcomes) for row in rows_of(agent.scheduler)]
    assert outcomes == [(0, ALL_BROKEN), (3_600, ALL_OPEN), (7_200, ALL_OPEN)]
    assert [row.next_at is None for row in rows_of(agent.scheduler)] == [True, True, False]
    agent.at(130, running(start_at=AT + 122 * MINUTE))
    assert [row.outcomes for row in rows_of(agent.scheduler)] == [ALL_BROKEN, ALL_BROKEN, ALL_KEPT]
    assert is_rebuilt(agent.scheduler)


@pytest.mark.parametrize("skew_s", [-60, 60])
def test_neither_a_clock_a_minute_off_nor_a_day_away_makes_a_false_outcome(agent: Reports, skew_s: int) -> None:
    job, skew = TrueJob("1", 0, 59.9, 5_000), timedelta(seconds=skew_s)
    for minute in (2, 59.5, 1_500):
        agent.take(listing([job], minute, skew))
    for row in rows_of(agent.scheduler):
        kept = [Outcome.KEPT if deadline(row, level) >= AT + 59.9 * MINUTE else Outcome.BROKEN for level in range(3)]
        assert row.outcomes == kept


def test_a_job_in_no_list_is_neither_kept_nor_broken_before_a_day_and_what_was_due_before_stays_broken(
    agent: Reports,
) -> None:
    agent.at(0, waiting())
    agent.at(63, waiting())
    agent.at(70)
    assert [row.outcomes for row in rows_of(agent.scheduler)] == [ALL_BROKEN, ALL_OPEN]
    agent.at(80, waiting())  # it was left out of one listing
    assert [row.seen_at for row in rows_of(agent.scheduler)] == [None, None]
    agent.at(90)
    agent.at(91 + 24 * 60)
    first, second = rows_of(agent.scheduler)
    assert (first.outcomes, second.outcomes, second.cause) == (ALL_BROKEN, [Outcome.LEFT] * 3, Cause.UNSEEN)
    assert is_rebuilt(agent.scheduler)


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"is_held": True, "reason": "JobHeldUser"}, Cause.HELD),
        ({"dependency": True, "reason": "Dependency"}, Cause.HELD),
        ({"limit_s": 600.0}, Cause.ALTERED),
        ({"cpus": 64.0}, Cause.ALTERED),
        ({"partition": "gpu"}, Cause.ALTERED),
    ],
)
def test_a_known_cause_withdraws_a_promise_which_is_settled_apart_and_teaches_nothing(
    agent: Reports, change: dict[str, Any], cause: Cause
) -> None:
    agent.at(0, waiting())
    agent.at(10, waiting(**change))
    assert rows_of(agent.scheduler)[0].cause == cause
    assert len(rows_of(agent.scheduler)) == (1 if cause is Cause.HELD else 2)
    agent.at(11, waiting())
    agent.at(20, running(start_at=AT + 15 * MINUTE))
    first, *_others, last = rows_of(agent.scheduler)
    assert (first.outcomes, last.outcomes) == ([Outcome.KEPT_APART] * 3, ALL_KEPT)
    assert [row.is_first for row in rows_of(agent.scheduler)].count(True) == 1
    assert is_rebuilt(agent.scheduler)
    n_open = rebuilt(StartState.objects.get(scheduler=agent.scheduler)).n_open
    assert set(n_open.values()) == {0}


def test_drained_nodes_and_a_new_reservation_withdraw_promises_of_their_partition(agent: Reports) -> None:
    def partition(n_out: int, name: str = "batch") -> PartitionState:
        return PartitionState(name, 80, 8, {}, {}, 20, 0, n_out, None)

    jobs = (waiting(), waiting("2", partition="gpu"))
    agent.at(0, *jobs, partitions=(partition(0), partition(0, "gpu")))
    agent.at(1, *jobs, partitions=(partition(1), partition(0, "gpu")))
    assert [row.cause for job in "12" for row in rows_of(agent.scheduler, job)] == ["", ""]
    agent.at(2, *jobs, partitions=(partition(2), partition(0, "gpu")))
    assert [row.cause for row in rows_of(agent.scheduler)] == [Cause.DRAINED]
    agent.at(3, *jobs, partitions=(partition(2), partition(0, "gpu")))
    assert [row.cause for row in rows_of(agent.scheduler)] == [Cause.DRAINED, ""]
    late, soon = (
        Reservation(name, AT + timedelta(minutes=begin), AT + timedelta(days=9), "gpu", 20, 80, True)
        for name, begin in (("late", 10_000), ("soon", 30))
    )
    agent.at(4, *jobs, partitions=(partition(2), partition(0, "gpu")), reservations=(late,))
    assert [row.cause for row in rows_of(agent.scheduler, "2")] == [""]
    agent.at(5, *jobs, partitions=(partition(2), partition(0, "gpu")), reservations=(late, soon))
    assert [row.cause for row in rows_of(agent.scheduler, "2")] == [Cause.RESERVED]
    assert is_rebuilt(agent.scheduler)


@pytest.mark.parametrize(
    ("partition", "is_withdrawn"),
    [("batch,gpu", True), ("gpu,batch", True), ("a,gpu,batch", True), ("bigpu,batch", False), ("batch,gpu2", False)],
)
def test_a_promise_is_withdrawn_by_each_partition_that_its_job_names(
    agent: Reports, partition: str, is_withdrawn: bool
) -> None:
    gpu = PartitionState("gpu", 80, 8, {}, {}, 20, 0, 0, None)
    others = [gpu._replace(name=name) for name in ("a", "batch", "bigpu", "gpu2")]
    for minute, n_out in enumerate((0, 20)):
        agent.at(minute, waiting(partition=partition), partitions=(gpu._replace(nodes_drained=n_out), *others))
    assert [row.cause for row in rows_of(agent.scheduler)] == [Cause.DRAINED if is_withdrawn else ""]


@pytest.mark.parametrize("partitions", [(), (PartitionState("batch", 80, 8, {}, {}, 20, 0, 0, None),)])
def test_a_reservation_withdraws_once_also_around_a_listing_without_reservations(
    agent: Reports, partitions: tuple[PartitionState, ...]
) -> None:
    reserved = (Reservation("repair", AT, AT + timedelta(days=9), "", 1, 4, True),)
    agent.at(0, waiting(), partitions=partitions)
    for minute, listed in ((1, {"reservations": reserved}), (2, {}), (3, {"reservations": reserved})):
        agent.at(minute, waiting(), partitions=partitions, **listed)
    assert [row.cause for row in rows_of(agent.scheduler)] == [Cause.RESERVED, ""]
    agent.at(4, waiting(), partitions=partitions, reservations=())
    agent.at(5, waiting(), partitions=partitions, reservations=reserved)
    assert [row.cause for row in rows_of(agent.scheduler)] == [Cause.RESERVED, Cause.RESERVED]


def test_a_job_queued_again_waits_anew_and_keeps_its_earlier_record(agent: Reports) -> None:
    agent.at(0, waiting())
    agent.at(5, running(start_at=AT + 3 * MINUTE))
    agent.at(30, waiting())
    first, second = rows_of(agent.scheduler)
    assert (first.outcomes, second.since_at, second.is_first) == (ALL_KEPT, AT + 30 * MINUTE, True)


@pytest.mark.parametrize("away_days", [400, 0.01])
def test_a_number_used_again_is_no_start_of_the_job_that_had_it(agent: Reports, away_days: float) -> None:
    """After a year of silence, or a scheduler whose numbers begin anew: the start of the first job is unknown."""
    agent.at(0, waiting())
    back = away_days * 1_440
    submit_at = AT + (back - 9) * MINUTE
    for minute in (back, back + 1_441):
        agent.at(minute, running(start_at=submit_at + MINUTE, submit_at=submit_at))
    (row,) = rows_of(agent.scheduler)
    assert (row.outcomes, row.cause) == ([Outcome.LEFT] * 3, Cause.UNSEEN)
    assert rebuilt(StartState.objects.get(scheduler=agent.scheduler)).waits.known() == {}


def test_a_job_that_ended_between_two_reports_is_settled_by_what_the_scheduler_still_lists(agent: Reports) -> None:
    agent.at(0, waiting(), waiting("2"), waiting("3"))
    end_at = AT + 20 * MINUTE
    ended = (
        EndedJob("1", "", is_cancelled=False, start_at=AT + 7 * MINUTE, end_at=end_at),
        EndedJob("2", "", is_cancelled=True, start_at=None, end_at=end_at),
    )
    agent.at(30, ended=ended)
    kept, cancelled, missing = (rows_of(agent.scheduler, job)[0] for job in "123")
    assert (kept.outcomes, kept.left_at) == (ALL_KEPT, AT + 7 * MINUTE)
    left = (cancelled.outcomes, cancelled.cause, cancelled.left_at)
    assert left == ([Outcome.LEFT] * 3, Cause.CANCELLED, end_at)
    assert (missing.outcomes, missing.seen_at) == (ALL_OPEN, AT)
    assert is_rebuilt(agent.scheduler)


def test_a_job_without_a_limit_has_that_of_its_partition(agent: Reports) -> None:
    batch = PartitionState("batch", 80, 8, {}, {}, 20, 0, 0, 86_400.0)
    agent.at(0, waiting(limit_s=None), partitions=(batch,))
    agent.at(1, waiting(limit_s=None))
    assert [(row.limit_s, row.cause) for row in rows_of(agent.scheduler)] == [(86_400.0, "")]
    agent.at(2, waiting("2", limit_s=None))
    assert [(row.limit_s, row.length) for row in rows_of(agent.scheduler, "2")] == [(None, UNKNOWN_LENGTH)]


def test_tasks_of_an_array_are_one_job_that_starts_with_the_next_of_them(agent: Reports) -> None:
    agent.at(0, waiting("10", array="10", n_tasks=100_000))
    assert len(rows_of(agent.scheduler, "10")) == 1
    agent.at(9, waiting("10", array="10", n_tasks=99_999), running("11", array="10", start_at=AT + 8 * MINUTE))
    first, second = rows_of(agent.scheduler, "10")
    assert (first.outcomes, second.since_at, second.outcomes) == (ALL_KEPT, AT + 9 * MINUTE, ALL_OPEN)


def test_an_array_of_which_tasks_run_adds_no_recent_wait(agent: Reports) -> None:
    """Forty waits of a minute would be what a new job is said to wait."""
    agent.at(0, waiting("10", array="10", n_tasks=500), waiting("2"))
    for minute in range(60, 100):
        task = running(f"t{minute}", array="10", start_at=AT + (minute - 0.5) * MINUTE)
        others = (running("2", start_at=AT + 59 * MINUTE),) if minute < 90 else (waiting("3"),)
        agent.at(minute, waiting("10", array="10", n_tasks=499), task, *others)
    assert len(rows_of(agent.scheduler, "10")) == 41
    known = predictor_of(StartState.objects.get()).waits.known()
    assert known[0,] == [59.0 * 60, 59.5 * 60]
    assert is_rebuilt(agent.scheduler)


def test_an_array_whose_tasks_all_ended_between_two_reports_is_settled_by_the_first_of_them(agent: Reports) -> None:
    agent.at(0, waiting("10", array="10", n_tasks=2))
    starts = (AT + 20 * MINUTE, AT + 90 * MINUTE)
    agent.at(200, ended=tuple(EndedJob("10", "10", False, start_at, start_at + MINUTE) for start_at in starts))
    (row,) = rows_of(agent.scheduler, "10")
    assert (row.outcomes, row.left_at) == (ALL_KEPT, AT + 20 * MINUTE)


def test_an_array_is_cancelled_when_no_task_of_it_waits_or_started(agent: Reports) -> None:
    agent.at(0, waiting("10", array="10", n_tasks=3), waiting("20", array="20", n_tasks=2))
    cancelled = EndedJob("10", "10", True, None, AT + 3 * MINUTE)
    agent.at(5, waiting("10", array="10", n_tasks=2), waiting("20", array="20", n_tasks=2), ended=(cancelled,))
    assert rows_of(agent.scheduler, "10")[0].outcomes == ALL_OPEN
    later = EndedJob("12", "10", True, None, AT + 7 * MINUTE)
    started = EndedJob("20", "20", False, AT + 6 * MINUTE, AT + 8 * MINUTE)
    agent.at(9, ended=(later, cancelled, started, EndedJob("21", "20", True, None, AT + 8 * MINUTE)))
    (of_cancelled,), (of_started,) = rows_of(agent.scheduler, "10"), rows_of(agent.scheduler, "20")
    assert (of_cancelled.outcomes, of_cancelled.cause) == ([Outcome.LEFT] * 3, Cause.CANCELLED)
    assert (of_cancelled.left_at, of_started.outcomes, of_started.cause) == (AT + 7 * MINUTE, ALL_KEPT, "")
    assert is_rebuilt(agent.scheduler)


def test_an_array_of_which_one_task_is_held_is_promised_by_the_others(agent: Reports) -> None:
    """Slurm lists tasks that differ in rows of their own, in any order."""
    held = waiting("10", array="10", is_held=True, reason="JobHeldUser")
    others = waiting("10", array="10", n_tasks=8)
    agent.at(0, held, others)
    agent.at(3, others, held)
    agent.at(6, held, others)
    again = waiting("10", array="10", submit_at=AT + 7 * MINUTE)
    agent.at(8, again, others)
    (row,) = rows_of(agent.scheduler, "10")
    assert (row.since_at, row.cause, row.outcomes) == (AT, "", ALL_OPEN)
    agent.at(9, held)
    assert rows_of(agent.scheduler, "10")[0].cause == Cause.HELD


def test_a_job_that_cannot_compete_gets_no_promise_until_it_can(agent: Reports) -> None:
    agent.at(0, waiting(is_held=True, reason="JobHeldAdmin"), waiting("2", reason="PartitionNodeLimit"))
    agent.at(300, waiting(), waiting("2", reason="PartitionNodeLimit"))
    (row,) = rows_of(agent.scheduler)
    assert (row.since_at, row.age_s, rows_of(agent.scheduler, "2")) == (AT + 300 * MINUTE, 0, [])


def test_a_job_that_the_machine_cannot_take_gets_no_promise_that_cannot_be_kept(agent: Reports) -> None:
    batch = PartitionState("batch", 80, 8, {}, {}, 20, 0, 0, 86_400.0)
    agent.at(0, waiting(cpus=81.0), waiting("2", cpus=80.0), waiting("3", limit_s=86_401.0), partitions=(batch,))
    assert [len(rows_of(agent.scheduler, job)) for job in "123"] == [0, 1, 0]
    agent.at(1, waiting(cpus=81.0), waiting("2", cpus=80.0), partitions=(batch._replace(cpus=96.0),))
    assert [len(rows_of(agent.scheduler, job)) for job in "12"] == [1, 1]


def test_a_promise_keeps_the_start_of_our_own_plan_and_null_without_one(agent: Reports) -> None:
    batch = PartitionState("batch", 8, 0, {}, {}, 2, 0, 0, 86_400.0)
    busy = running("1", start_at=AT - 10 * MINUTE, cpus=8.0, limit_s=3_600.0)
    agent.at(0, busy, waiting("2", cpus=8.0), waiting("3", cpus=8.0), partitions=(batch,))
    agent.at(1, busy, waiting("2", cpus=8.0), waiting("3", cpus=8.0), waiting("4", cpus=8.0))
    rows = [row for job in "234" for row in rows_of(agent.scheduler, job)]
    assert [row.plan_s for row in rows] == [3_000.0, 3_000.0 + 7_200.0, None]


def test_a_report_does_bounded_work_and_the_next_one_the_rest(agent: Reports, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reports, "MOST_MADE_OF_REPORT", 3)
    monkeypatch.setattr(reports, "MOST_SETTLED_OF_REPORT", 2)
    jobs = [waiting(str(n)) for n in range(1, 6)]
    agent.at(0, *jobs)
    assert StartPromise.objects.filter(scheduler=agent.scheduler).count() == 3
    agent.at(1, *jobs)
    assert StartPromise.objects.filter(scheduler=agent.scheduler).count() == 5
    started = [running(str(n), start_at=AT + (59 + n) * MINUTE) for n in range(1, 6)]
    for minute in (180, 181, 182):
        agent.at(minute, *started)
    kept = {row.job: row.outcomes == ALL_KEPT for n in "12345" for row in rows_of(agent.scheduler, n)}
    assert kept == {"1": True, "2": False, "3": False, "4": False, "5": False}
    assert is_rebuilt(agent.scheduler)


def test_jobs_that_can_never_start_take_no_place_of_those_that_can(
    agent: Reports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "MOST_MADE_OF_REPORT", 1)
    batch = PartitionState("batch", 80, 8, {}, {}, 20, 0, 0, None)
    late = waiting("3", submit_at=AT + MINUTE)
    agent.at(2, waiting("1", cpus=81.0), waiting("2", cpus=81.0), late, partitions=(batch,))
    assert [len(rows_of(agent.scheduler, job)) for job in "123"] == [0, 0, 1]


def test_an_older_or_repeated_listing_changes_nothing(agent: Reports) -> None:
    agent.at(0, waiting())
    agent.at(0, running(start_at=AT))
    agent.at(-5)
    assert rows_of(agent.scheduler)[0].outcomes == ALL_OPEN


def test_the_planned_start_of_the_scheduler_is_settled_beside_ours(agent: Reports) -> None:
    planned = [waiting(n, planned_at=AT + minutes * MINUTE) for n, minutes in (("1", 10), ("2", 30), ("3", 1))]
    agent.at(0, *planned)
    assert [rows_of(agent.scheduler, n)[0].planned_s for n in "123"] == [600, 1_800, 300]
    agent.at(15, *planned)
    agent.at(25, *(running(n, start_at=AT + 20 * MINUTE) for n in "123"))
    outcomes = [rows_of(agent.scheduler, n)[0].planned_outcome for n in "123"]
    assert outcomes == [Outcome.BROKEN, Outcome.KEPT, Outcome.BROKEN]


JOBS = st.lists(
    st.tuples(
        st.integers(0, 400), st.one_of(st.none(), st.integers(0, 600)), st.integers(1, 300), st.sampled_from("abc")
    ),
    max_size=12,
)


@pytest.mark.deep
@given(
    jobs=JOBS,
    gaps=st.lists(st.sampled_from([1, 7, 45, 130, 1_600]), min_size=3, max_size=14),
    skew_s=st.integers(-60, 60),
)
@examples(40, suppress=[HealthCheck.function_scoped_fixture])
def test_whatever_happens_rows_rebuild_what_was_learned_and_have_true_outcomes(
    new_scheduler: NewScheduler, jobs: list[tuple[int, int | None, int, str]], gaps: list[int], skew_s: int
) -> None:
    true = {
        str(n): TrueJob(str(n), submit, None if wait is None else submit + wait, submit + (wait or 0) + run, user)
        for n, (submit, wait, run, user) in enumerate(jobs, 1)
    }
    agent, minute = Reports(new_scheduler()), 0
    for gap in gaps:
        minute += gap
        agent.take(listing(true.values(), minute, timedelta(seconds=skew_s)))
        assert is_rebuilt(agent.scheduler)
    rows = list(StartPromise.objects.filter(scheduler=agent.scheduler))
    assert len([row for row in rows if row.is_first]) == len({row.job for row in rows})
    for row in rows:
        start_at = true[row.job].start_at
        for level, outcome in enumerate(row.outcomes):
            is_in_time = start_at is not None and start_at <= deadline(row, level)
            assert outcome not in ([Outcome.BROKEN] if is_in_time else [Outcome.KEPT])
    state = StartState.objects.get(scheduler=agent.scheduler)
    n_open = {
        (kind, level): sum(promise_of(row).kind is kind and row.outcomes[level] == Outcome.OPEN for row in rows)
        for kind in Kind
        for level in range(len(LEVELS))
    }
    assert {key: n for key, n in rebuilt(state).n_open.items() if n} == {key: n for key, n in n_open.items() if n}
    assert not rebuild(agent.scheduler)


def test_what_rows_taught_up_to_a_report_is_the_same_after_the_next_one(agent: Reports) -> None:
    """So a check beside a running agent names no difference that there isn't."""
    agent.at(0, waiting(), waiting("2"))
    agent.at(63, waiting(), waiting("2"))
    state = StartState.objects.get(scheduler=agent.scheduler)
    agent.at(130, running(start_at=AT + 70 * MINUTE), waiting("2"), waiting("3", submit_at=AT + 129 * MINUTE))
    assert saved.save(rebuilt(state))[1] == state.digest
    assert is_rebuilt(agent.scheduler)


def test_a_damaged_state_is_rebuilt_from_rows(agent: Reports) -> None:
    for minute in range(0, 200, 20):
        agent.at(minute, *(waiting(str(n), submit_at=AT + n * 20 * MINUTE) for n in range(minute // 20 + 1)))
    state = StartState.objects.get(scheduler=agent.scheduler)
    StartState.objects.filter(pk=state.pk).update(data=state.opening, digest=state.opening_digest)
    assert not is_as_rows_teach(agent.scheduler)
    assert "differs" in printed(agent.scheduler.name)
    assert "made from them" in printed(agent.scheduler.name, "--rebuild")
    assert "is what the rows" in printed(agent.scheduler.name)
    assert StartState.objects.get(pk=state.pk).digest == state.digest


@pytest.mark.parametrize("is_opening_readable", [True, False])
def test_a_state_of_another_format_is_made_from_rows_by_the_next_report(
    agent: Reports, is_opening_readable: bool
) -> None:
    for minute in range(0, 200, 20):
        agent.at(minute, *(waiting(str(n), submit_at=AT + n * 20 * MINUTE) for n in range(minute // 20 + 1)))
    data, digest = pack({"waits": np.zeros(1)}, {"format": 1})
    fields = {"data": data, "digest": digest}
    if not is_opening_readable:
        fields |= {"opening": data, "opening_digest": digest}
    StartState.objects.update(**fields)
    agent.at(220, waiting("1"))
    state = StartState.objects.get()
    assert state.opening_digest != digest
    assert state.seq == 11
    assert is_rebuilt(agent.scheduler)
    StartState.objects.update(**fields)
    assert "made from them" in printed(agent.scheduler.name, "--rebuild")
    assert is_as_rows_teach(agent.scheduler)


def test_a_report_that_is_cut_off_leaves_nothing_and_is_taken_whole_again(agent: Reports) -> None:
    agent.at(0, waiting())
    now = QueueState(AT + 90 * MINUTE, (running(start_at=AT + MINUTE), waiting("2")), has_running=True)

    @transaction.atomic
    def cut_off() -> None:
        take_queue(agent.scheduler, agent.before, now)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cut_off()
    assert (rows_of(agent.scheduler)[0].outcomes, rows_of(agent.scheduler, "2")) == (ALL_OPEN, [])
    agent.take(now)
    assert (rows_of(agent.scheduler)[0].outcomes, len(rows_of(agent.scheduler, "2"))) == (ALL_KEPT, 1)
    assert is_rebuilt(agent.scheduler)


def test_the_queries_of_a_report_don_t_grow_with_its_jobs(agent: Reports) -> None:
    counts = []
    for minute, n in ((0, 20), (200, 20), (400, 300)):
        with CaptureQueriesContext(connection) as asked:
            agent.at(minute, *(waiting(f"{minute}{i}") for i in range(n)))
        counts.append(len(asked))
        agent.at(minute + 1)
    assert counts[1] == counts[2]  # the first one has no missing jobs to mark


def test_a_report_over_rest_makes_promises_and_no_fault_of_theirs_refuses_it(
    connected: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sender = Caller(token=connected.token("schedulers", "priorities:read", policy_slug="grid"))
    assert sender.post("schedulers/c1/passes", report()).status_code == 200
    c1 = Scheduler.objects.get(name="c1")
    jobs = StartPromise.objects.filter(scheduler=c1).values_list("job", flat=True)
    assert sorted(jobs) == ["101", "102", "103", "104", "106"]  # 105 is held
    monkeypatch.setattr(reports, "settle_promise", None)
    later = AT + timedelta(hours=3)
    monkeypatch.setenv("FAIRSHARE_CLOCK", later.isoformat())
    sent = report(started_at=instant(later), ended_at=instant(later))
    assert sender.post("schedulers/c1/passes", sent).status_code == 200
    assert "Promises of starts of c1 were not made" in caplog.text
    assert StartState.objects.get(scheduler=c1).seq == 1
