"""A user's waiting jobs are those of the queue that the agent lists: on the page, in REST and in the answer."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from apps.contrib.schedulers.models import Scheduler
from apps.core import clock
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
    assert (row["position"], row["of"], row["by_fairshare"], found["n_mine"]) == (4, 4, 3, 1)
    why = alice.get("schedulers/c1/why", {"job": "101"}).json()
    assert (why["ahead"] + 1, why["by_fairshare"]) == (row["position"], row["by_fairshare"])
    (mine,) = alice.get("me").json()["accounts"]
    queue = {one["key"]: one["values"] for one in mine["when"] if one["key"].startswith("queue.")}
    place = {"position": 4, "of": 4, "partition": "batch", "scheduler": "c1"}
    assert queue["queue.first_in_partition"] == {"n": 1, **place}
    assert queue["queue.ahead"] == {"n": 3, "by_fairshare": 3}
    assert row["held_by"] == why["reason"]["label"] == "priority"
    client = sign_in(Client(), connected.alice)
    page = with_cards(client, read(client.get("/me/priority/")))
    assert page.texts("#waiting-jobs tbody th a") == ["101"]
    assert not page.has('[data-testid="no-waiting"]')
    assert "1 job waits. It is number 4 of 4 in batch of c1. 3 jobs ahead (3 because of fair share)." in page.text(
        "#waiting-jobs footer"
    )


def test_without_own_jobs_the_listed_queue_is_named(agent: Caller, connected: Site, alice: Caller) -> None:
    queue = [job("1", "bob"), job("2", "carol", "biology"), job("3", "ghost", "nowhere")]
    assert agent.post("schedulers/c1/passes", report(queue=queue)).status_code == 200
    (line,) = alice.get("me").json()["accounts"]
    assert line["when"][-2]["text"] == "No jobs of yours are waiting in c1."
    client = sign_in(Client(), connected.alice)
    page = with_cards(client, read(client.get("/me/priority/")))
    assert "c1" in page.text('[data-testid="no-waiting"]')
    assert line["when"][-1]["text"] in page.text('[data-testid="no-waiting"]')


def test_a_queue_that_is_not_read_is_an_error_with_its_time_and_never_none(
    agent: Caller, connected: Site, alice: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert agent.post("schedulers/c1/passes", report(queue=[job("1", "bob")])).status_code == 200
    monkeypatch.setenv(clock.VARIABLE, (clock.now() + timedelta(hours=2)).isoformat())
    (line,) = alice.get("me").json()["accounts"]
    assert [one["key"] for one in line["when"] if one["key"].startswith("queue.")] == ["queue.unread"]
    assert alice.get("me/waiting-jobs?policy=grid").json()["new_job"] is None, "others may have come since"
    (unread,) = alice.get("me/waiting-jobs?policy=grid").json()["unread"]
    assert (unread["scheduler"], unread["read_at"] is None) == ("c1", False)
    client = sign_in(Client(), connected.alice)
    page = with_cards(client, read(client.get("/me/priority/")))
    assert page.has('#waiting-jobs [data-testid="unread"] time')
    assert not page.has('[data-testid="no-waiting"]')


def test_a_held_job_has_no_place(agent: Caller, alice: Caller) -> None:
    held = [job("1", "alice", state="held", reason="JobHeldUser"), job("2", "bob")]
    assert agent.post("schedulers/c1/passes", report(queue=held)).status_code == 200
    (row,) = alice.get("me/waiting-jobs?policy=grid").json()["jobs"]
    assert (row["position"], row["is_held"], row["held_by"]) == (None, True, "own hold")
    (mine,) = alice.get("me").json()["accounts"]
    assert [one["key"] for one in mine["when"]][-2:] == ["queue.no_place", "queue.new_in_partition"]


def new_job(agent: Caller, alice: Caller, *queue: dict[str, Any]) -> dict[str, Any] | None:
    """The place of a new job of alice in a listing of these."""
    assert agent.post("schedulers/c1/passes", report(queue=list(queue))).status_code == 200
    place: dict[str, Any] | None = alice.get("me/waiting-jobs?policy=grid").json()["new_job"]
    return place


def test_a_new_job_is_as_the_newest_own_one_without_its_age_behind_jobs_of_equal_priority(
    agent: Caller, alice: Caller
) -> None:
    aged = job("1", "alice", site=20_000, priority=23_587)
    aged["terms"] |= {"age": 3_000}
    between, equal, behind = (job(str(10 + n), "bob", site=site) for n, site in enumerate((21_000, 20_000, 19_999)))
    elsewhere = job("20", "carol", "biology", site=99_000, partition="gpu")
    place = new_job(agent, alice, aged, between, equal, behind, elsewhere)
    assert place == {"scheduler": "c1", "partition": "batch", "position": 4, "of": 5}


def test_without_own_jobs_a_new_job_has_the_value_that_the_agent_gives_to_the_account(
    agent: Caller, connected: Site, alice: Caller
) -> None:
    (line,) = alice.get("me").json()["accounts"]
    value = round(line["factor"] * 100_000)
    place = new_job(agent, alice, job("1", "bob", site=value + 1), job("2", "bob", site=value - 1))
    assert place == {"scheduler": "c1", "partition": "batch", "position": 2, "of": 3}


def test_in_shadow_mode_the_place_of_a_new_job_is_known_only_with_an_own_one(
    agent: Caller, connected: Site, alice: Caller
) -> None:
    Scheduler.objects.update(mode="shadow")
    assert new_job(agent, alice, job("1", "bob")) is None
    client = sign_in(Client(), connected.alice)
    page = with_cards(client, read(client.get("/me/priority/")))
    assert "A new job" not in page.text("#waiting-jobs")
    place = new_job(agent, alice, job("1", "bob"), job("2", "alice"))
    assert (place or {}).get("position") == 3


def test_a_new_job_in_an_empty_queue_without_a_known_priority_has_no_place(agent: Caller, alice: Caller) -> None:
    assert new_job(agent, alice) is None


def test_a_token_of_a_subtree_reads_no_job(reported: dict[str, Any], connected: Site) -> None:
    token = connected.token(
        "self:read", user=connected.alice, policy_slug="grid", subtree_uid=connected.uid("/physics")
    )
    found = Caller(token=token).get("me/waiting-jobs?policy=grid").json()
    assert (found["jobs"], found["n_mine"]) == ([], 0)
