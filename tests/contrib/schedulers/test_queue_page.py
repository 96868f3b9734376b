"""The page of the queue: jobs in the order in which they start, what holds each, and an agent that doesn't list it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from tests.contrib.schedulers.reports import job, report
from tests.instants import AT
from tests.pages.page import Page, read
from tests.rest_site import Caller
from tests.sign_in import sign_in
from tests.small_site import Site

pytestmark = pytest.mark.django_db
PATH = "/policy/grid/jobs/why/"


@pytest.fixture
def admin(connected: Site, client: Client) -> Client:
    sign_in(client, connected.admin)
    return client


def _jobs(page: Page) -> list[str]:
    return page.texts("[data-testid=job] th a")


def test_jobs_are_listed_as_they_start_with_what_holds_them(admin: Client, reported: dict[str, Any]) -> None:
    page = read(admin.get(PATH))
    assert _jobs(page) == ["106", "102", "104", "103", "101", "105"], "by priority; the held one last"
    assert page.each("[data-testid=job] td[title]", "title")[-1] == "JobHeldUser"
    assert not page.has("[data-testid=unread]")


def test_of_equal_priority_the_lower_number_starts_first(admin: Client, agent: Caller) -> None:
    agent.post("schedulers/c1/passes", report(queue=[job("1000"), job("200"), job("30")]))
    assert _jobs(read(admin.get(PATH))) == ["30", "200", "1000"]


def test_a_queue_that_is_not_listed_now_is_an_error_with_its_time(
    admin: Client, reported: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", (AT + timedelta(hours=1)).isoformat())
    page = read(admin.get(PATH))
    assert page.has("[data-testid=unread] time")
    assert len(_jobs(page)) == 6, "the last listing stays"


def test_before_the_first_report_there_is_no_queue_and_no_warning(
    admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An hour later, too: not begun isn't failed."""
    assert read(admin.get(PATH)).has(".empty")
    monkeypatch.setenv("FAIRSHARE_CLOCK", (AT + timedelta(hours=1)).isoformat())
    page = read(admin.get(PATH))
    assert page.has(".empty")
    assert not page.has("[data-testid=unread]")
