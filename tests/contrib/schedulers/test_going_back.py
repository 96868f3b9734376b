"""Going back to the scheduler's own fair share: which lines of its configuration to write again, and from where."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import CommandError
from django.test import Client

from apps.accounts.actor import SYSTEM
from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.services import connect_scheduler
from tests.contrib.schedulers.reports import report
from tests.contrib.schedulers.test_commands import run
from tests.instants import AT
from tests.pages.page import read
from tests.rest_site import Caller
from tests.sign_in import sign_in
from tests.small_site import Site

pytestmark = pytest.mark.django_db
BEFORE, DEMANDED = "PriorityWeightFairshare=100000", "PriorityWeightFairshare=0"


def check(found: str, severity: str = "error", remedy: str = DEMANDED) -> dict[str, Any]:
    return {"code": "double_counting", "severity": severity, "found": found, "remedy": remedy}


@pytest.fixture
def went_on(site: Site) -> Caller:
    """The agent of c1 read the site's weight in shadow mode; then it was set to 0, and c1 was switched on."""
    connect_scheduler(policy_slug="grid", name="c1", settings={"mode": "shadow", "namespace": "a"}, at=AT, actor=SYSTEM)
    agent = Caller(token=site.token("schedulers", "priorities:read", policy_slug="grid"))
    agent.post("schedulers/c1/passes", report(mode="shadow", checks=[check(BEFORE)]))
    with pytest.raises(CommandError, match="double_counting"):
        run("scheduler", "switch-on", "c1", "--all")
    agent.post("schedulers/c1/passes", report(mode="shadow", checks=[check(DEMANDED, "ok")]))
    run("scheduler", "switch-on", "c1", "--all")
    agent.post("schedulers/c1/passes", report(checks=[check(DEMANDED, "ok")]))
    return agent


def test_the_command_lists_the_lines_that_switching_on_demanded(went_on: Caller) -> None:
    lines = run("scheduler", "reset-values", "c1").splitlines()
    assert lines[2] == f"  {BEFORE}"
    assert "before it sent values" in lines[3]
    removed = run("scheduler", "remove", "c1", "--reason", "x").splitlines()
    assert removed[1] == f"  {BEFORE}", "the lines are gone with the scheduler"


def test_a_line_that_is_written_again_is_no_error_and_is_listed_as_done(went_on: Caller, manager_page: Client) -> None:
    run("scheduler", "reset-values", "c1")
    assert shades(manager_page) == {BEFORE: "i warn"}
    went_on.post("schedulers/c1/passes", report(checks=[check(BEFORE)]))
    assert shades(manager_page) == {BEFORE: "i ok"}
    page = read(manager_page.get("/schedulers/c1/"))
    assert not page.each('[data-testid="check"] code', "id"), "nothing is demanded of a scheduler that goes back"
    assert len(run("scheduler", "reset-values", "c1").splitlines()) == 1, "nothing is left to write"


def test_a_scheduler_that_was_never_on_has_nothing_to_go_back_from(agent: Caller, manager_page: Client) -> None:
    Scheduler.objects.update(mode="shadow")
    agent.post("schedulers/c1/passes", report(mode="shadow", checks=[check(BEFORE)]))
    assert shades(manager_page) == {}
    agent.post("schedulers/c1/passes", report(mode="shadow", checks=[check(DEMANDED, "ok")]))
    assert shades(manager_page) == {BEFORE: "i warn"}, "the line is changed already"


def test_a_mistake_while_it_is_on_is_not_what_was_there_before(went_on: Caller) -> None:
    went_on.post("schedulers/c1/passes", report(checks=[check("PriorityWeightFairshare=5")]))
    assert BEFORE in run("scheduler", "reset-values", "c1")


def test_rest_has_the_lines_with_their_source(went_on: Caller, site: Site) -> None:
    manager = Caller(token=site.token("policies:read", "policies:write"))
    (line,) = manager.get("schedulers/c1").json()["lines_to_restore"]
    assert line.pop("seen_at").startswith("20")
    assert line == {
        "name": "PriorityWeightFairshare",
        "line": BEFORE,
        "demanded": DEMANDED,
        "is_known": True,
        "source": "agent",
        "is_back": False,
    }


def test_a_weight_that_nobody_saw_is_named_as_the_default(agent: Caller) -> None:
    agent.post("schedulers/c1/passes", report(checks=[check(DEMANDED, "ok")]))
    printed = run("scheduler", "reset-values", "c1")
    assert DEMANDED in printed
    assert "not known" in printed
    assert "default" in printed


def test_a_scheduler_without_demands_has_nothing_to_write(agent: Caller) -> None:
    agent.post("schedulers/c1/passes", report(checks=[]))
    assert len(run("scheduler", "reset-values", "c1").splitlines()) == 1


@pytest.fixture
def manager_page(site: Site, client: Client) -> Client:
    sign_in(client, site.admin)
    return client


def shades(client: Client) -> dict[str, str]:
    page = read(client.get("/schedulers/c1/"))
    lines = '[data-testid="line-to-restore"]'
    is_done = page.each(f"{lines} svg", "class")
    return dict(zip(page.each(lines, "data-value"), is_done, strict=True))
