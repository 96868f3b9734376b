"""How jobs ended their wait that left between two reports, from usage records."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apps.contrib.schedulers.models import Scheduler
from apps.contrib.starts.ends import End, ends_of
from apps.contrib.starts.models import Cause, Outcome, StartPromise
from apps.contrib.starts.prediction.past_jobs import past_jobs
from apps.usage.models import Source
from tests.contrib.schedulers.reports import instant
from tests.contrib.starts.queues import MINUTE, Reports, waiting
from tests.instants import AT
from tests.small_site import Site, push

pytestmark = pytest.mark.django_db
SUBMIT_AT = AT - timedelta(hours=5)


def line(job: str, *, start: float | None, end: float | None, state: str = "finished") -> dict[str, Any]:
    """Minutes from the submission."""
    times = {
        name: instant(SUBMIT_AT + minute * MINUTE)
        for name, minute in (("start", start), ("end", end))
        if minute is not None
    }
    return {
        "job": job, "user": "alice", "group": "physics", "cpus": 1, "submit": instant(SUBMIT_AT), "state": state,
        **times,
    }  # fmt: skip


def test_records_settle_jobs_that_no_report_lists(connected: Site) -> None:
    agent = Reports(Scheduler.objects.get(name="c1"))
    agent.at(-299, *(waiting(job, submit_at=SUBMIT_AT) for job in ("501", "502", "503", "504")))
    answer = push(
        connected,
        [
            line("501", start=10, end=12),
            line("502", start=None, end=20, state="withdrawn"),
            line("504", start=None, end=None, state="pending"),
        ],
    )
    assert answer["rejected"] == [], answer
    agent.at(-200)
    rows = {row.job: row for row in StartPromise.objects.filter(scheduler=agent.scheduler)}
    assert (rows["501"].outcomes, rows["501"].left_at) == ([Outcome.KEPT] * 3, SUBMIT_AT + 10 * MINUTE)
    assert (rows["502"].outcomes, rows["502"].cause) == ([Outcome.LEFT] * 3, Cause.CANCELLED)
    assert [rows[job].outcomes for job in ("503", "504")] == [[Outcome.OPEN] * 3] * 2


def test_a_record_of_another_submission_or_namespace_settles_nothing(connected: Site) -> None:
    push(connected, [line("501", start=10, end=12)])
    c1 = Scheduler.objects.get(name="c1")
    assert ends_of(c1, {"501": SUBMIT_AT}, {}) == {"501": End(SUBMIT_AT + 10 * MINUTE, has_started=True)}
    assert ends_of(c1, {"501": SUBMIT_AT + timedelta(days=1), "50_1": SUBMIT_AT, "9" * 12: SUBMIT_AT}, {}) == {}
    c1.namespace = "elsewhere"
    assert ends_of(c1, {"501": SUBMIT_AT}, {}) == {}


def test_past_jobs_that_wait_or_were_cancelled_are_no_starts(connected: Site) -> None:
    push(
        connected,
        [
            line("501", start=10, end=12),
            line("502", start=None, end=20, state="withdrawn"),
            line("504", start=None, end=None, state="pending"),
        ],
    )
    source = Source.objects.get(slug="cluster-a")
    past = past_jobs(source, from_at=SUBMIT_AT, to_at=SUBMIT_AT + timedelta(hours=1))
    waits = [None if job.left_s is None else (job.left_s - job.submit_s, job.started) for job in past]
    assert waits == [(600, True), None]  # of a cancelled one no end is known
