"""The home of a lead says how many jobs of the group wait, from the queues that agents list now."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from apps.accounts.models import User
from apps.core import clock
from apps.pages.overview import cards
from tests.contrib.schedulers.reports import job, report
from tests.grants import make_grant
from tests.pages.page import Page, read
from tests.rest_site import Caller
from tests.sign_in import sign_in
from tests.small_site import Site

FIGURE = '[data-testid="waiting-jobs"]'


@pytest.fixture
def lead(connected: Site) -> Client:
    cards.last_good.clear()
    user = User.objects.create_user("lea")
    make_grant(user, connected.uid("/physics"), "manager", policy=connected.policy)
    return sign_in(Client(), user)


def home(client: Client) -> Page:
    return read(client.get("/"))


def test_jobs_of_the_group_are_counted_and_lead_to_the_queue(reported: dict[str, Any], lead: Client) -> None:
    """101 of alice, 102 and 105 of bob; 103 and 106 are of biology, and 104 of nobody known."""
    page = home(lead)
    assert page.text(f"{FIGURE} dd") == "3 in c1"
    assert page.each(f"{FIGURE} a", "href") == ["/policy/grid/jobs/why/"]
    queue = read(lead.get("/policy/grid/jobs/why/"))
    assert queue.text("main").count("101") >= 1


def test_a_group_without_waiting_jobs_has_none(agent: Caller, lead: Client) -> None:
    assert agent.post("schedulers/c1/passes", report(queue=[job("1", "carol", "biology")])).status_code == 200
    assert home(lead).text(f"{FIGURE} dd") == "none in c1"
    assert not home(lead).has(f"{FIGURE} a")


def test_a_queue_that_is_not_listed_now_is_named_and_not_counted(
    reported: dict[str, Any], lead: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(clock.VARIABLE, (clock.now() + timedelta(hours=2)).isoformat())
    text = home(lead).text(f"{FIGURE} dd")
    assert text.startswith("unknown c1 not read since")
    assert "3" not in text.split("since")[0]


def test_a_scheduler_whose_agent_has_never_reported_is_no_news(connected: Site, lead: Client) -> None:
    """Not begun isn't failed: whoever connects it sees that it waits for its agent."""
    assert not home(lead).has(FIGURE)


def test_without_a_scheduler_there_is_no_figure(computed_site: Site) -> None:
    cards.last_good.clear()
    user = User.objects.create_user("lea")
    make_grant(user, computed_site.uid("/physics"), "manager", policy=computed_site.policy)
    assert not home(sign_in(Client(), user)).has(FIGURE)


def test_the_home_of_a_whole_policy_has_none(reported: dict[str, Any], connected: Site) -> None:
    cards.last_good.clear()
    assert not home(sign_in(Client(), connected.admin)).has(FIGURE)
