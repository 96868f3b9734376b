"""A gateway that is killed between any two steps neither forgets nor doubles a job; the scheduler sends it again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from apps.accounts.actor import COMMAND
from apps.contrib.jobs.gateway import services
from apps.contrib.jobs.gateway.services import JobReport, Rules, set_rules
from apps.contrib.jobs.models import Job, Received
from apps.priorities.serving import store
from tests.instants import AT
from tests.killed_process import work_until_killed
from tests.small_site import Site

PLACES = ("after_lock", "after_job", "after_booking", "before_commit", "after_commit")
WHO: dict[str, Any] = {"policy_slug": "grid", "at": AT, "actor": COMMAND}
Step = Callable[[], dict[str, Any]]
pytestmark = [pytest.mark.faults, pytest.mark.django_db(transaction=True)]


def steps_of(job: str) -> list[Step]:
    return [
        lambda: services.decide(report=JobReport(job, 4.0), group="physics", **WHO),
        lambda: services.start(report=JobReport(job), **WHO),
        lambda: services.finish(report=JobReport(job, 7.0), **WHO),
    ]


def books() -> list[float]:
    return list(Received.objects.values_list("amount", flat=True))


@pytest.mark.parametrize(
    "place",
    [
        pytest.param(place, marks=() if place in ("after_booking", "after_commit") else pytest.mark.deep)
        for place in PLACES
    ],
)
def test_a_killed_gateway_books_once_after_a_retry(computed_site: Site, place: str) -> None:
    store.poll()
    set_rules(rules=Rules(booked_at="submit"), received=None, **WHO)
    expected = [[4.0], [4.0], [7.0]]
    undisturbed = [step() for step in steps_of("undisturbed")]
    for step, answer, booked in zip(steps_of("killed"), undisturbed, expected, strict=True):
        before = books()
        if place != "after_booking" or before != [7.0 + booked[0]]:  # a start books nothing here
            work_until_killed(step, fault=f"gateway.sam.{place}:kill")
            assert books() in (before, [7.0 + booked[0]]), "a step is in the books as a whole, or not at all"
        again = step()
        assert books() == [7.0 + booked[0]]
        assert step() == again
        same = ("queue", "booked", "benefit", "state")
        if "fraction_after" not in answer:
            assert {name: again[name] for name in same[1:]} == {name: answer[name] for name in same[1:]}
    assert Job.objects.count() == 2
    assert [job.booked for job in Job.objects.order_by("pk")] == [7.0, 7.0]
