"""What is said of a waiting job: the promise on record, the first one in view, and why there is none."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from apps.contrib.schedulers.models import QueueListing, Scheduler
from apps.contrib.schedulers.queue_state import QueueJob
from apps.contrib.schedulers.queue_table import pack_queue, read_queue
from apps.contrib.starts.answer import Before, FirstOutcome, StartAnswer, StartNote
from apps.contrib.starts.answers import LEAST_RECENT_PROMISES, start_answer_for_new, start_answers
from apps.contrib.starts.models import StartPromise, StartState
from apps.contrib.starts.prediction.promises import MORE_THAN_S, WaitingJob
from apps.contrib.starts.sentences import made_text
from tests.contrib.schedulers.reports import job as listed
from tests.contrib.starts.queues import MINUTE, Reports, TrueJob, know_waits, listing, running, waiting
from tests.instants import AT

pytestmark = pytest.mark.django_db
NEW = WaitingJob("eve", 4.0, 7_200.0, "batch")


@pytest.fixture
def agent(new_scheduler: Callable[[], Scheduler]) -> Reports:
    """Of a scheduler of which enough waits are known, of an hour each."""
    scheduler = new_scheduler()
    know_waits(scheduler)
    return Reports(scheduler)


def test_the_answer_is_the_promise_on_record_with_the_first_in_view(agent: Reports) -> None:
    assert start_answers(agent.scheduler, ["1"], at=AT) == {}
    agent.at(0, waiting())
    hour = AT + 60 * MINUTE
    answer = start_answers(agent.scheduler, ["1", "2"], at=AT)["1"]
    assert (answer.within_5_min, answer.before, answer.made_at, answer.at_submit) == (
        0.5,
        Before(*[hour] * 3),
        AT,
        True,
    )
    assert answer.first is not None
    assert (answer.first.before_80, answer.first.outcome, answer.first.settled_at) == (hour, FirstOutcome.OPEN, None)
    assert (answer.held.share, answer.held.n, answer.held.recent_share, answer.note) == (None, 0, None, None)
    agent.at(63, waiting())
    answer = start_answers(agent.scheduler, ["1"], at=AT)["1"]
    assert (answer.made_at, answer.at_submit, answer.within_5_min) == (AT + 63 * MINUTE, False, None)
    assert answer.first is not None
    assert (answer.first.before_80, answer.first.outcome, answer.first.settled_at) == (hour, FirstOutcome.BROKEN, hour)


def test_a_new_site_promises_nothing_before_it_knows_how_long_jobs_wait(new_scheduler: Callable[[], Scheduler]) -> None:
    """All jobs wait for 6 hours: an hour, with which all bases begin, would break each promise of 95 %."""
    agent, wait = Reports(new_scheduler()), 360.0
    jobs = [TrueJob(str(n), 10.0 * n, 10.0 * n + wait, 10.0 * n + wait + 60, user=f"u{n % 7}") for n in range(110)]
    promised: dict[str, StartAnswer] = {}
    for minute in range(0, 1_100, 30):
        agent.take(listing(jobs, minute))
        at, n_started = AT + minute * MINUTE, sum(job.start is not None and job.start <= minute for job in jobs)
        new = start_answer_for_new(agent.scheduler, NEW, at=AT + minute * MINUTE)
        assert new is not None
        assert (new.note, new.n_seen) == ((StartNote.LEARNING, n_started) if n_started < 30 else (None, None))
        answers = start_answers(agent.scheduler, [job.job for job in jobs], at=at)
        for job, answer in answers.items():
            if n_started < 30:
                assert (answer.before, answer.within_5_min, answer.first) == (None, None, None)
                assert answer.note is StartNote.LEARNING
                assert answer.n_seen is not None
                assert answer.n_seen < 30
            elif answer.before is not None and answer.at_submit:
                promised[job] = answer
    assert len(promised) > 10
    for job, answer in promised.items():
        start_at = jobs[int(job)].start_at
        assert answer.before is not None
        assert answer.before.p95 is not None
        assert start_at is not None
        assert start_at <= answer.before.p95


@pytest.mark.parametrize(
    "waits_before",
    [
        [waiting("1", is_held=True)],
        [waiting("1"), running("1", start_at=AT + 5 * MINUTE)],
        [waiting("1", array="1"), running("2", array="1", start_at=AT + 5 * MINUTE)],
        [],
    ],
)
def test_only_the_promise_of_a_submission_names_it(agent: Reports, waits_before: list[QueueJob]) -> None:
    """Not that of a job that was held or queued again, of the next tasks of an array, or of one that was seen late."""
    for minute, job in enumerate(waits_before):
        agent.at(10 * minute, job)
    agent.at(30, waiting("1", array=waits_before[-1].array if waits_before else ""))
    answer = start_answers(agent.scheduler, ["1"], at=AT)["1"]
    assert (answer.made_at, answer.at_submit) == (AT + 30 * MINUTE, False)
    assert made_text(answer, AT + 31 * MINUTE).startswith("Said at 1")


def test_more_than_a_week_is_no_date(agent: Reports) -> None:
    agent.at(0, waiting())
    StartPromise.objects.update(bounds_s=[MORE_THAN_S - 1, MORE_THAN_S, MORE_THAN_S + 1])
    answer = start_answers(agent.scheduler, ["1"], at=AT)["1"]
    assert answer.before is not None
    assert answer.first is not None
    assert (answer.before.p50, *answer.before[1:]) == (AT + timedelta(seconds=MORE_THAN_S - 1), None, None)
    assert answer.first.before_80 is None


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ({"state": "held", "reason": "JobHeldUser"}, StartNote.HELD),
        ({"reason": "Dependency"}, StartNote.DEPENDENCY),
        ({"reason": "BeginTime"}, StartNote.BEGIN_TIME),
        ({"reason": "PartitionTimeLimit"}, StartNote.NEVER),
    ],
)
def test_a_job_that_cannot_be_promised_says_why(agent: Reports, change: dict[str, str], note: StartNote) -> None:
    data, digest = pack_queue(read_queue([listed("1", **change)]))
    agent.at(0, waiting("2"))
    QueueListing.objects.create(scheduler=agent.scheduler, taken_at=AT, n_jobs=1, data=data, digest=digest)
    answer = start_answers(agent.scheduler, ["1"], at=AT)["1"]
    assert (answer.before, answer.first, answer.note) == (None, None, note)


def test_an_old_report_and_lost_nodes_have_notes(agent: Reports) -> None:
    agent.at(0, waiting(), waiting("2"))
    StartPromise.objects.filter(job="2").update(cause="drained", withdrawn_at=AT)
    notes = {job: answer.note for job, answer in start_answers(agent.scheduler, ["1", "2"], at=AT + 2 * MINUTE).items()}
    assert notes == {"1": StartNote.STALE, "2": StartNote.CAPACITY}


def test_the_latest_promises_count_from_a_number_on(agent: Reports) -> None:
    agent.at(0, waiting())
    for n, share in ((LEAST_RECENT_PROMISES - 1, None), (LEAST_RECENT_PROMISES, 0.6)):
        StartState.objects.update(held={"submit": [9, 12]}, recent={"submit": [round(0.6 * n), n]})
        held = start_answers(agent.scheduler, ["1"], at=AT)["1"].held
        assert (held.share, held.n, held.recent_share, held.is_low) == (0.75, 12, share, share is not None)


def test_a_job_like_it_is_answered_without_a_promise(agent: Reports) -> None:
    assert start_answer_for_new(agent.scheduler, NEW, at=AT) is None
    agent.at(0, waiting())
    answer = start_answer_for_new(agent.scheduler, NEW, at=AT)
    assert answer is not None
    assert answer.before is not None
    assert (answer.within_5_min, answer.before.p80, answer.first) == (0.5, AT + 60 * MINUTE, None)
    assert StartPromise.objects.count() == 1


def test_a_new_job_gets_no_answer_of_a_report_of_long_ago_or_of_damaged_bytes(agent: Reports) -> None:
    """The agent of a scheduler that is off may have been stopped long ago: its times would all be over."""
    agent.at(0, waiting())
    StartState.objects.update(data=b"cut")
    answer = start_answer_for_new(agent.scheduler, NEW, at=AT)
    assert answer is not None
    assert (answer.before, answer.note, answer.n_seen) == (None, StartNote.LEARNING, None)
    assert start_answer_for_new(agent.scheduler, NEW, at=AT + 20_000 * MINUTE) is None


def test_tasks_of_an_array_that_are_listed_apart_have_notes_of_their_own(agent: Reports) -> None:
    rows = [listed("10", array_task="3", state="held", reason="JobHeldUser"), listed("10", array_task="4-9%2")]
    data, digest = pack_queue(read_queue(rows))
    agent.at(0, waiting("10", array="10", is_held=True), waiting("10", array="10", n_tasks=6))
    QueueListing.objects.create(scheduler=agent.scheduler, taken_at=AT, n_jobs=2, data=data, digest=digest)
    answers = start_answers(agent.scheduler, ["10_3", "10_4-9%2", "10_5"], at=AT)
    assert {job: answer.note for job, answer in answers.items()} == {
        "10_3": StartNote.HELD,
        "10_4-9%2": None,
        "10_5": None,
    }
    assert answers["10_3"].before is None


def test_answers_of_many_jobs_take_few_queries_and_tasks_have_that_of_their_array(
    agent: Reports, django_assert_num_queries: Any
) -> None:
    agent.at(0, *(waiting(str(n), array=str(n)) for n in range(1, 30)))
    with django_assert_num_queries(3):  # the third asks for the queue
        answers = start_answers(agent.scheduler, [f"{n}_7" for n in range(1, 30)], at=AT)
    assert len(answers) == 29
