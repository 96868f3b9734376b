"""Schedulers over REST: connected by managers, orders and passes of agents, the queue as each may see it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from datetime import timedelta
from math import inf, isnan
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from apps.accounts.actor import SYSTEM
from apps.accounts.models import AuditEvent
from apps.contrib.schedulers import services
from apps.contrib.schedulers.models import AgentPass, QueueListing, Scheduler, SchedulerValues
from apps.contrib.schedulers.own_values import PARENT, load_values
from tests.contrib.schedulers.reports import QUEUE, instant, job, report
from tests.instants import AT
from tests.rest_site import Caller, refused
from tests.small_site import Site

pytestmark = pytest.mark.django_db
ORDERS = {
    "name": "c1", "policy": "grid", "kind": "slurm", "reach": "agent", "namespace": "a", "partitions": None,
    "subtree": "/", "knob": "sitefactor", "weight": 100_000, "step": 100, "mode": "on", "canary_partition": None,
    "every_s": 30, "limits": {"snapshot_age_s": 900, "unmapped_percent": 20, "changed_percent": 50, "calls_per_s": 20,
    "updates_per_min": 1000},
    "paused": False, "reset_values": False, "revision": 1, "carries": "priorities", "share_order": None,
    "limit_order": None, "resumes": 0, "follows": False, "lists_priorities": True, "takes_queue_state": True,
}  # fmt: skip


def test_a_scheduler_is_connected_changed_and_removed(site: Site) -> None:
    manager = Caller(token=site.token("policies:read", "policies:write"))
    made = manager.post("schedulers", {"name": "c2", "policy": "grid", "kind": "gridengine", "subtree": "/physics"})
    assert made.status_code == 201, made.content
    assert made.json()["mode"] == "off"
    assert (made.json()["knob"], made.json()["subtree"]) == ("override_tickets", "/physics")
    assert refused(manager.post("schedulers", {"name": "c2", "policy": "grid"}))[:2] == (409, "scheduler_exists")
    assert refused(manager.patch("schedulers/c2", {"step": 7}))[0] == 428
    changed = manager.patch("schedulers/c2", {"step": 7, "limits": {"calls_per_s": 3}}, if_match=made["ETag"])
    assert changed.status_code == 200, changed.content
    assert (changed.json()["revision"], changed.json()["limits"]["calls_per_s"]) == (2, 3)
    assert refused(manager.patch("schedulers/c2", {"step": 8}, if_match=made["ETag"]))[:2] == (412, "stale")
    gone = manager.client.delete(
        "/api/v1/schedulers/c2?reason=x", headers={**manager.headers, "if-match": changed["ETag"]}
    )
    assert gone.status_code == 204
    verbs = list(AuditEvent.objects.filter(subject="c2").order_by("id").values_list("verb", flat=True))
    assert verbs == ["scheduler.connected", "scheduler.changed", "scheduler.removed"]


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"kind": "slurm", "knob": "override_tickets"}, "knob"),
        ({"mode": "canary"}, "canary_partition"),
        ({"partitions": ["a"], "canary_partition": "b", "mode": "canary"}, "canary_partition"),
        ({"partitions": ["root;rm -rf"]}, "partitions"),
        ({"weight": 0}, "weight"),
        ({"weight": 10, "step": 11}, "step"),
        ({"subtree": "/nothing"}, "subtree"),
        ({"limits": {"typo": 3}}, "limits.typo"),
        ({"every_s": 1}, "every_s"),
        ({"namespace": "@feed"}, "namespace"),
    ],
)
def test_invalid_settings_are_refused_at_their_field(site: Site, given: dict[str, Any], where: str) -> None:
    manager = Caller(token=site.token("policies:read", "policies:write"))
    answer = manager.post("schedulers", {"name": "c2", "policy": "grid", **given})
    assert refused(answer) == (422, "bad_scheduler", [where])
    assert not Scheduler.objects.exists()


@pytest.mark.parametrize(
    "wrong",
    [{"knob": "override_tickets"}, {"mode": "canary"}, {"step": 100_001}, {"every_s": 1}, {"changed_percent": 0}],
)
def test_database_constraints_reject_invalid_schedulers(connected: Site, wrong: dict[str, Any]) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        Scheduler.objects.filter(name="c1").update(**wrong)


def test_orders_follow_the_contract_and_are_304_if_known(agent: Caller, manager: Caller) -> None:
    first = agent.get("schedulers/c1/orders")
    assert first.json() == ORDERS
    assert first["ETag"] == '"1"'
    assert agent.get("schedulers/c1/orders", if_none_match=first["ETag"]).status_code == 304
    manager.patch("schedulers/c1", {"paused": True}, if_match='"1"')
    again = agent.get("schedulers/c1/orders", if_none_match=first["ETag"])
    assert again.json() == {**ORDERS, "paused": True, "revision": 2}


def test_each_resume_reaches_the_orders_also_without_a_pass_between(agent: Caller) -> None:
    """The agent that asks afterwards sees by `resumes` that it was paused, or that a freeze is accepted."""

    def orders_after(*switches: Callable[..., Scheduler]) -> tuple[int, int, bool]:
        for switch in switches:
            switch(name="c1", at=AT, actor=SYSTEM)
        orders = agent.get("schedulers/c1/orders").json()
        return orders["resumes"], orders["revision"], orders["paused"]

    pause, resume = services.pause_scheduler, services.resume_scheduler
    assert orders_after(resume) == (0, 1, False), "nothing to resume"
    assert orders_after(pause, resume) == (1, 3, False)
    agent.post("schedulers/c1/passes", report(frozen={"code": "order_lost", "detail": "x"}))
    assert orders_after(resume) == (2, 4, False), "a freeze is resumed without a pause"
    agent.post("schedulers/c1/passes", report())
    assert orders_after(resume) == (2, 4, False)
    assert orders_after(services.request_reset, resume) == (3, 6, False)


def test_a_switch_by_patch_resumes_too(agent: Caller, manager: Caller) -> None:
    for paused, revision in ((True, 1), (False, 2)):
        assert manager.patch("schedulers/c1", {"paused": paused}, if_match=f'"{revision}"').status_code == 200
    assert agent.get("schedulers/c1/orders").json()["resumes"] == 1


def test_orders_need_the_scope_and_a_manager_as_owner(connected: Site) -> None:
    for scopes, user, bounds, status in (
        (["schedulers"], connected.pia, {}, 404),  # manages a part
        (["schedulers"], connected.admin, {"policy_slug": "other"}, 404),
        (["schedulers"], connected.admin, {"policy_slug": "grid", "subtree_uid": connected.uid("/physics")}, 404),
        (["priorities:read"], connected.admin, {}, 403),
        (["policies:write"], connected.admin, {}, 403),
        (["schedulers"], connected.admin, {"policy_slug": "grid"}, 200),
    ):
        answer = Caller(token=connected.token(*scopes, user=user, **bounds)).get("schedulers/c1/orders")
        assert answer.status_code == status, (scopes, user, bounds, answer.content)


def test_agents_cannot_change_settings_and_managers_cannot_report(agent: Caller, manager: Caller) -> None:
    assert agent.patch("schedulers/c1", {"mode": "off"}, if_match='"1"').status_code == 403
    assert agent.post("schedulers", {"name": "x", "policy": "grid"}).status_code == 403
    assert manager.post("schedulers/c1/passes", report()).status_code == 403


def test_a_pass_counts_once_and_names_the_revision(agent: Caller, manager: Caller) -> None:
    sent = report()
    for _twice in range(2):
        answer = agent.post("schedulers/c1/passes", sent, idempotency_key=sent["pass"])
        assert answer.json() == {"orders_revision": 1}, answer.content
    assert AgentPass.objects.count() == 1
    other = {**sent, "host": "head2"}
    assert refused(agent.post("schedulers/c1/passes", other))[:2] == (409, "pass_reported")
    assert agent.post("schedulers/c1/passes", report(), idempotency_key="another").status_code == 400
    (listed,) = manager.get("schedulers/c1/passes").json()["results"]
    assert listed["jobs"] == sent["jobs"]
    assert (listed["pass"], listed["frozen"], listed["host"]) == (sent["pass"], None, "head1")


def test_a_pass_can_be_gzipped_and_a_bomb_is_refused(agent: Caller) -> None:
    def packed(body: bytes) -> Any:
        return agent.post("schedulers/c1/passes", gzip.compress(body), content_encoding="gzip")

    assert packed(json.dumps(report()).encode()).status_code == 200
    assert QueueListing.objects.get().n_jobs == len(QUEUE)
    assert refused(packed(b" " * (33 * 1024**2)))[:2] == (413, "too_large")
    assert refused(packed(b'{"queue":[' + b"{}," * 2_100_000 + b"{}]}"))[:2] == (413, "too_large")
    cut = gzip.compress(json.dumps(report()).encode())[:-9]
    assert refused(agent.post("schedulers/c1/passes", cut, content_encoding="gzip"))[:2] == (400, "bad_gzip")


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"state": "running"}, "queue[0].state"),
        ({"submit_at": "yesterday"}, "queue[0].submit_at"),
        ({"submit_at": "2026-11-22T10:00:00"}, "queue[0].submit_at"),
        ({"terms": {"moon": 3}}, "queue[0].terms"),
        ({"priority": True}, "queue[0].priority"),
        ({"user": ""}, "queue[0].user"),
        ({"typo": 1}, "queue[0]"),
        ({"array_task": 5}, "queue[0].array_task"),
        ({"terms": {"age": "old"}}, "queue[0].terms.age"),
        ({"cpus": 2**60}, "queue[0].cpus"),
    ],
)
def test_an_invalid_queue_is_refused_with_the_location(agent: Caller, change: dict[str, Any], where: str) -> None:
    answer = agent.post("schedulers/c1/passes", report(queue=[{**QUEUE[0], **change}]))
    assert refused(answer) == (400, "invalid", [where])
    assert not AgentPass.objects.exists()
    assert not QueueListing.objects.exists()


@pytest.mark.parametrize("queue", [{}, "101", 5])
def test_a_queue_is_a_list(agent: Caller, queue: Any) -> None:
    assert refused(agent.post("schedulers/c1/passes", report(queue=queue))) == (400, "invalid", ["queue"])


@pytest.mark.parametrize(
    ("values", "where"),
    [
        ({}, "values"),
        ([5], "values[0]"),
        ([{"typo": 1}], "values[0]"),
        ([{"user": 5}], "values[0].user"),
        ([{}, {"group": "g" * 257}], "values[1].group"),
        ([{"raw_shares": "children"}], "values[0].raw_shares"),
        ([{"fairshare": True}], "values[0].fairshare"),
    ],
)
def test_invalid_own_values_are_refused_with_the_location(agent: Caller, values: Any, where: str) -> None:
    assert refused(agent.post("schedulers/c1/passes", report(values=values))) == (400, "invalid", [where])
    assert not SchedulerValues.objects.exists()


def test_own_values_are_kept_as_the_scheduler_writes_them(agent: Caller) -> None:
    sent = [
        {"group": "physics", "raw_shares": "parent", "level_fs": "Infinity", "fairshare": 0.25},
        {"group": "physics", "user": "alice", "raw_shares": 3},
    ]
    assert load_values(Scheduler.objects.get().pk) == []
    assert agent.post("schedulers/c1/passes", report(values=sent)).status_code == 200
    one, other = load_values(Scheduler.objects.get().pk)
    assert (one.raw_shares, one.level_fs, one.fairshare, one.user) == (PARENT, inf, 0.25, "")
    assert (other.raw_shares, other.user, isnan(other.fairshare)) == (3, "alice", True)


def test_a_task_of_an_array_is_found_by_its_number(agent: Caller, manager: Caller) -> None:
    queue = [job("101", array_task="3"), job("102", "bob")]
    assert agent.post("schedulers/c1/passes", report(queue=queue)).status_code == 200
    found = [manager.get("schedulers/c1/why", {"job": number}).json()["job"] for number in ("101", "101_3")]
    assert [(one["job"], one["array_task"]) for one in found] == [("101", "3")] * 2
    assert refused(manager.get("schedulers/c1/why", {"job": "102_3"}))[0] == 404


def test_the_listing_is_replaced_as_a_whole_and_never_by_an_older_one(agent: Caller, manager: Caller) -> None:
    def jobs() -> list[str]:
        return [one["job"] for one in manager.get("schedulers/c1/queue").json()["results"]]

    agent.post("schedulers/c1/passes", report())
    later = instant(AT - timedelta(seconds=2))
    agent.post("schedulers/c1/passes", report(queue=[job("7")], started_at=later, ended_at=later))
    assert jobs() == ["7"]
    agent.post("schedulers/c1/passes", report())
    assert jobs() == ["7"], "an agent that was cut off reports late"
    agent.post("schedulers/c1/passes", report(queue=None, started_at=later, ended_at=later))
    assert jobs() == ["7"], "a pass without a queue leaves the last one"


def test_a_clock_that_is_ahead_is_refused(agent: Caller) -> None:
    late = instant(AT + timedelta(hours=1))
    assert refused(agent.post("schedulers/c1/passes", report(ended_at=late)))[:2] == (422, "clock_ahead")


def test_users_see_their_own_jobs(connected: Site, reported: dict[str, Any]) -> None:
    def jobs(user: Any, *scopes: str) -> list[Any]:
        answer = Caller(token=connected.token(*(scopes or ("policies:read", "self:read")), user=user)).get(
            "schedulers/c1/queue"
        )
        return [one["job"] for one in answer.json()["results"]] if answer.status_code == 200 else [answer.status_code]

    assert jobs(connected.admin) == [one["job"] for one in QUEUE]
    assert jobs(connected.alice) == ["101"]
    assert jobs(connected.alice, "self:read") == ["101"]
    assert jobs(connected.alice, "policies:read") == [404]
    assert jobs(connected.pia) == ["101", "102", "105"], "physics is hers"
    assert jobs(connected.pia, "self:read") == [404]
    assert jobs(connected.nobody) == [404]


def test_the_queue_is_paged_and_filtered_by_user(manager: Caller, reported: dict[str, Any]) -> None:
    first = manager.get("schedulers/c1/queue", {"limit": 4}).json()
    rest = manager.get("schedulers/c1/queue", {"limit": 4, "cursor": first["next"]}).json()
    assert [one["job"] for one in first["results"] + rest["results"]] == [one["job"] for one in QUEUE]
    assert rest["next"] is None
    assert [one["job"] for one in manager.get("schedulers/c1/queue", {"user": "bob"}).json()["results"]] == [
        "102",
        "105",
    ]
    one = first["results"][0]
    assert {name: one[name] for name in QUEUE[0]} == QUEUE[0]
    assert one["entry"] == "/physics/alice"


def test_only_freezing_and_unfreezing_passes_are_audited(agent: Caller) -> None:
    frozen = {"code": "snapshot_too_old", "detail": "2000 s"}
    for k, each in enumerate((None, None, frozen, frozen, None)):
        at = instant(AT - timedelta(seconds=9 - k))
        answer = agent.post("schedulers/c1/passes", report(frozen=each, started_at=at, ended_at=at))
        assert answer.status_code == 200, answer.content
    rows = AuditEvent.objects.filter(verb__startswith="scheduler.agent").order_by("id")
    assert [row.verb.rpartition("_")[2] for row in rows] == ["began", "frozen", "on"]
    assert rows[1].details["code"] == "snapshot_too_old"


def test_a_partial_manager_is_refused_and_audited(connected: Site) -> None:
    pia = Caller(user=connected.pia)
    answer = pia.post("schedulers", {"name": "mine", "policy": "grid"})
    assert answer.status_code == 403
    row = AuditEvent.objects.latest("id")
    assert (row.verb, row.outcome, row.subject) == ("scheduler.connected", "refused", "mine")
