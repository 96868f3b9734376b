"""Planned waits of the jobs that wait now, on the result of an experiment: as if its variant was published."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from apps.accounts.actor import SYSTEM, Actor
from apps.contrib.lab.experiments.services import create_experiment
from apps.contrib.lab.models import Experiment
from apps.contrib.schedulers.services import connect_scheduler
from apps.core import clock
from apps.policies.models import ChangeSet
from apps.policies.records import NewChangeSet
from apps.policies.services import make_change_set
from apps.runs.services import work_due_runs
from tests.contrib.schedulers.reports import report
from tests.contrib.starts.draft_waits.conftest import MACHINE, QUEUE
from tests.instants import AT
from tests.pages.page import Page, read, text_of
from tests.rest_site import Caller
from tests.sign_in import sign_in
from tests.small_site import Site

pytestmark = pytest.mark.django_db
WORKLOAD = {
    "kind": "synthetic",
    "hours": 1,
    "sites": [{"name": "R1", "cpus": 2}],
    "streams": [{"entry": "/physics/bob", "every_s": 600}],
}


@pytest.fixture
def queued(computed: Site) -> Site:
    connect_scheduler(policy_slug="grid", name="c1", settings={"mode": "on", "namespace": "a"}, at=AT, actor=SYSTEM)
    agent = Caller(token=computed.token("schedulers", "priorities:read", policy_slug="grid"))
    answer = agent.post("schedulers/c1/passes", report(queue=QUEUE, queue_state=MACHINE))
    assert answer.status_code == 200, answer.content
    return computed


def result_of(site: Site, *variants: dict[str, Any], query: str = "") -> Page:
    spec = {"workload": WORKLOAD, "variants": list(variants)}
    actor = Actor(user=site.admin, via="page")
    made = create_experiment(policy_slug="grid", name="Try", spec=spec, at=clock.now(), actor=actor)
    work_due_runs(clock=clock.now)
    client = Client()
    sign_in(client, site.admin)
    page = read(client.get(f"/policy/grid/lab/{made.pk}/{query}"))
    assert page.item("state").attributes["data-state"] == "done"
    return page


def changes(page: Page) -> list[list[str]]:
    return [[text_of(cell) for cell in row.css("th, td")][:3] for row in page.items("planned-wait")]


SWAPPED = [["biology", "5", "+5 h"], ["physics", "5", "−5 h"]]
MORE_PHYSICS = {"entries": [{"entry": "/physics", "shares_times": 60}]}


def test_a_variant_with_other_shares_shows_whose_jobs_would_wait_longer(queued: Site) -> None:
    page = result_of(queued, MORE_PHYSICS)
    assert changes(page) == SWAPPED
    assert page.text("#planned-waits-title") == "Planned waits under this variant"
    assert not page.has('[data-testid="planned-wait"] a')


def test_a_variant_that_is_a_draft_is_planned_as_on_its_review(queued: Site) -> None:
    operation = {"op": "set_shares", "entry": str(queued.uid("/physics")), "shares": 4_000}
    draft = make_change_set(policy_slug="grid", new=NewChangeSet(operations=[operation]), at=AT, actor=SYSTEM)
    assert changes(result_of(queued, {"change_set": draft.pk})) == SWAPPED
    ChangeSet.objects.update(state="withdrawn")
    client = Client()
    sign_in(client, queued.admin)
    page = read(client.get(f"/policy/grid/lab/{Experiment.objects.get().pk}/"))
    assert not page.has("#planned-waits")


def test_a_variant_that_counts_usage_otherwise_leads_to_a_change_set(queued: Site) -> None:
    page = result_of(queued, {"settings": {"window": {"half_life_s": 3_600}}})
    assert page.item("why-none").attributes["data-state"] == "counts_otherwise"


def test_the_base_and_what_is_no_part_of_a_policy_show_no_plan(queued: Site) -> None:
    page = result_of(queued, {"jobs_times": 2}, MORE_PHYSICS, query="?variant=1")
    assert not page.has("#planned-waits")


def test_without_a_queue_nothing_is_planned(computed: Site) -> None:
    assert not result_of(computed, MORE_PHYSICS).has("#planned-waits")
