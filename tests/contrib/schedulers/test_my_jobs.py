"""A user's waiting jobs are those of the queue that the agent lists: on the page, in REST and in the answer."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from tests.contrib.schedulers.reports import job, report
from tests.pages.page import read, with_cards
from tests.rest_site import Caller
from tests.sign_in import sign_in
from tests.small_site import Site


@pytest.fixture
def alice(connected: Site) -> Caller:
    return Caller(token=connected.token("self:read", user=connected.alice))


def test_jobs_that_the_agent_lists_wait(reported: dict[str, Any], connected: Site, alice: Caller) -> None:
    """No usage record has them. Three jobs of the partition are ahead of 101, by fair share alone."""
    found = alice.get("me/waiting-jobs?policy=grid").json()
    (row,) = found["jobs"]
    assert (row["job"], row["source"], row["ordered_by"], row["record_id"]) == ("101", "c1", "scheduler", None)
    assert (row["position"], row["of"], row["by_fairshare"], found["n_mine"]) == (4, 6, 3, 1)
    why = alice.get("schedulers/c1/why", {"job": "101"}).json()
    assert (why["ahead"] + 1, why["by_fairshare"]) == (row["position"], row["by_fairshare"])
    (mine,) = alice.get("me").json()["accounts"]
    queue = {one["key"]: one["values"] for one in mine["when"] if one["key"].startswith("queue.")}
    assert queue["queue.first"] | {"n": 1} == {"n": 1, "position": 4, "of": 6, "scheduler": "c1"}
    assert queue["queue.by_fairshare"] == {"n": 3}
    client = sign_in(Client(), connected.alice)
    page = with_cards(client, read(client.get("/me/priority/")))
    assert page.texts("#waiting-jobs tbody th") == ["101"]
    assert not page.has('[data-testid="no-waiting"]')
    assert {"queue.first", "queue.by_fairshare"} <= set(page.values("data-key", ".answers"))


def test_without_own_jobs_those_of_better_accounts_are_counted(agent: Caller, connected: Site, alice: Caller) -> None:
    queue = [job("1", "bob"), job("2", "carol", "biology"), job("3", "ghost", "nowhere")]
    assert agent.post("schedulers/c1/passes", report(queue=queue)).status_code == 200
    (mine,) = alice.get("me").json()["accounts"]
    assert mine["rank"] == 3
    assert [(one["key"], one["values"]) for one in mine["when"]][-1] == ("queue.better", {"n": 2})
    client = sign_in(Client(), connected.alice)
    page = with_cards(client, read(client.get("/me/priority/")))
    assert "c1" in page.text('[data-testid="no-waiting"]')


def test_a_held_job_has_no_place(agent: Caller, alice: Caller) -> None:
    held = [job("1", "alice", state="held", reason="JobHeldUser"), job("2", "bob")]
    assert agent.post("schedulers/c1/passes", report(queue=held)).status_code == 200
    (row,) = alice.get("me/waiting-jobs?policy=grid").json()["jobs"]
    assert (row["position"], row["is_held"]) == (None, True)
    (mine,) = alice.get("me").json()["accounts"]
    assert [one["key"] for one in mine["when"]][-1] == "queue.no_place"


def test_a_token_of_a_subtree_reads_no_job(reported: dict[str, Any], connected: Site) -> None:
    token = connected.token(
        "self:read", user=connected.alice, policy_slug="grid", subtree_uid=connected.uid("/physics")
    )
    found = Caller(token=token).get("me/waiting-jobs?policy=grid").json()
    assert (found["jobs"], found["n_mine"]) == ([], 0)
