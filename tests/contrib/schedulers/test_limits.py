"""Limits of accounts at the service: named, approved by a second person, ordered with their reason, and reported."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from apps.accounts.actor import SYSTEM
from apps.accounts.models import AuditEvent, User
from apps.contrib.schedulers.gauges import scheduler_families
from apps.contrib.schedulers.limit_orders import limit_order_of
from apps.contrib.schedulers.models import LimitListing, LimitSettings, Scheduler
from apps.contrib.schedulers.services import connect_scheduler
from apps.policies.services import change_settings
from tests.contrib.schedulers.reports import instant, report
from tests.instants import AT
from tests.rest_site import Caller, refused
from tests.sign_in import sign_in
from tests.small_site import Site

pytestmark = pytest.mark.django_db
LIMITS = "schedulers/c1/limits"
REASON = "All 500 core-h are used."


def rows() -> list[dict[str, str]]:
    """The accounts of the policy, as Slurm lists them."""
    names = [("physics", ""), ("physics", "alice"), ("physics", "bob"), ("biology", ""), ("biology", "carol")]
    return [
        {"group": group, "user": user, "partition": "", "parent": "" if user else "root", "shares": "1"}
        for group, user in names
    ]


def order_limits(site: Site, *paths: str, qos: str | None = None, cpu: int | None = 0) -> None:
    """A revision that orders a limit of these entries, as rules of allocations do."""
    limits: list[dict[str, Any]] = [
        {
            "entry": str(site.uid(path)),
            "qos": qos,
            "grp_tres_mins": None if cpu is None else {"cpu": cpu},
            "rule": "stop",
            "since": "2026-11-19",
            "reason": REASON,
        }
        for path in paths
    ]
    change_settings(policy_slug="grid", settings={"limits": limits}, reason="x", at=AT, actor=SYSTEM)


def reported(account: str, code: str = "set", **more: Any) -> dict[str, Any]:
    rest: dict[str, Any] = {"before": {}, "ours": {}, "set_at": None, "now": {}}
    if code == "set":
        rest = {"before": {"cpu": ""}, "ours": {"cpu": "0"}, "set_at": instant(AT), "now": {"cpu": "0"}}
    return {"account": account, "code": code, "detail": "", **rest, **more}


def sends(agent: Caller, *accounts: dict[str, Any], name: str = "c1", **more: Any) -> None:
    limits: dict[str, Any] = {
        "cluster": "demo",
        "accounts": list(accounts),
        "lapses_at": instant(AT + timedelta(days=1)),
    }
    limits.update({"ended_at": None, "ended_by": "", **more.pop("ended", {})})
    sent = report(queue=None, account_limits=limits, shares={"cluster": "demo", "rows": rows()}, **more)
    answer = agent.post(f"schedulers/{name}/passes", sent)
    assert answer.status_code == 200, answer.content


@pytest.fixture
def limiting(connected: Site) -> Site:
    Scheduler.objects.update(carries="limits", mode="shadow")
    return connected


@pytest.fixture
def second(limiting: Site) -> Caller:
    """Another manager of the policy."""
    other = User.objects.create_superuser("second")
    return Caller(token=limiting.token("policies:read", "policies:write", user=other))


def name_accounts(manager: Caller, *accounts: str, **more: Any) -> dict[str, Any]:
    tag = manager.get(LIMITS).json()["tag"]
    answer = manager.patch(LIMITS, {"tag": tag, "accounts": list(accounts), **more})
    assert answer.status_code == 200, answer.content
    found: dict[str, Any] = answer.json()
    return found


def switch(manager: Caller, mode: str) -> Any:
    found = manager.get("schedulers/c1").json()
    return manager.patch("schedulers/c1", {"mode": mode}, if_match=found["etag"])


def approve(manager: Caller, second: Caller) -> dict[str, Any]:
    asked = manager.post(f"{LIMITS}/request", {"tag": manager.get(LIMITS).json()["tag"]})
    assert asked.status_code == 200, asked.content
    answer = second.post(f"{LIMITS}/approve", {"tag": asked.json()["tag"]})
    assert answer.status_code == 200, answer.content
    found: dict[str, Any] = answer.json()
    return found


def order_of(agent: Caller) -> dict[str, Any]:
    found: dict[str, Any] = agent.get("schedulers/c1/orders").json()["limit_order"]
    return found


def test_only_named_accounts_are_ordered_with_their_reason(limiting: Site, agent: Caller, manager: Caller) -> None:
    order_limits(limiting, "/physics", "/biology")
    assert (order_of(agent)["accounts"], order_of(agent)["lines"]) == ([], []), "none is named"
    name_accounts(manager, "physics", percent_a_day=20, lapse_s=7200)
    found = order_of(agent)
    line = {"account": "physics", "grp_tres_mins": {"cpu": 0}, "qos": None, "reason": REASON, "since": "2026-11-19"}
    assert found["lines"] == [line]
    assert (found["percent_a_day"], found["lapse_s"], found["canary"]) == (20, 7200, None)
    (row,) = manager.get(LIMITS).json()["limits"]
    assert (row["path"], row["wanted"], row["reason"], row["state"]) == ("/physics", "cpu=0", REASON, "")


def test_a_limit_ends_with_the_revision_that_ordered_it(limiting: Site, agent: Caller, manager: Caller) -> None:
    order_limits(limiting, "/physics")
    name_accounts(manager, "physics")
    before = agent.get("schedulers/c1/orders").headers["ETag"]
    order_limits(limiting)
    after = agent.get("schedulers/c1/orders")
    assert (after.json()["limit_order"]["lines"], after.headers["ETag"] == before) == ([], False)


def test_a_second_person_approves_before_anything_is_set(
    limiting: Site, agent: Caller, manager: Caller, second: Caller
) -> None:
    order_limits(limiting, "/physics", "/biology")
    name_accounts(manager, "physics")
    assert refused(switch(manager, "on"))[:2] == (409, "second_person_needed")
    asked = manager.post(f"{LIMITS}/request", {"tag": manager.get(LIMITS).json()["tag"]}).json()
    own = manager.post(f"{LIMITS}/approve", {"tag": asked["tag"]})
    assert refused(own)[:2] == (403, "second_person_needed")
    approved = second.post(f"{LIMITS}/approve", {"tag": asked["tag"]}).json()
    assert (approved["approved_accounts"], approved["approved_by"]) == (["physics"], "second")
    assert switch(manager, "on").status_code == 200
    name_accounts(manager, "physics", "biology")
    assert [each["account"] for each in order_of(agent)["lines"]] == ["physics"], "biology is not approved"
    assert order_of(agent)["accounts"] == ["physics"]
    states = {row["account"]: row["state"] for row in manager.get(LIMITS).json()["limits"]}
    assert states == {"physics": "", "biology": "not_approved"}
    events = AuditEvent.objects.filter(verb__startswith="scheduler.limits").order_by("pk")
    verbs = list(events.values_list("verb", flat=True))
    assert [verb.rpartition("_")[2] for verb in verbs] == ["changed", "requested", "approved", "approved", "changed"], (
        "one is a refusal"
    )


def test_naming_others_ends_a_request(limiting: Site, manager: Caller, second: Caller) -> None:
    name_accounts(manager, "physics")
    asked = manager.post(f"{LIMITS}/request", {"tag": manager.get(LIMITS).json()["tag"]}).json()
    assert asked["requested_by"] == "admin"
    name_accounts(manager, "physics", "biology")
    assert refused(second.post(f"{LIMITS}/approve", {"tag": asked["tag"]}))[:2] == (412, "stale")
    tag = second.get(LIMITS).json()["tag"]
    assert refused(second.post(f"{LIMITS}/approve", {"tag": tag}))[:2] == (409, "nothing_to_approve")


def test_an_account_that_is_named_again_needs_another_approval(
    limiting: Site, agent: Caller, manager: Caller, second: Caller
) -> None:
    order_limits(limiting, "/physics", "/biology")
    name_accounts(manager, "physics", "biology")
    approve(manager, second)
    assert switch(manager, "on").status_code == 200
    assert name_accounts(manager, "physics")["approved_accounts"] == ["physics"]
    name_accounts(manager, "physics", "biology")
    assert [each["account"] for each in order_of(agent)["lines"]] == ["physics"]
    assert {row["account"]: row["state"] for row in manager.get(LIMITS).json()["limits"]}["biology"] == "not_approved"


def test_one_line_that_no_agent_reads_leaves_the_others(limiting: Site, agent: Caller, manager: Caller) -> None:
    order_limits(limiting, "/physics", qos="größer", cpu=None)
    name_accounts(manager, "physics")
    sends(agent)
    assert order_of(agent)["lines"] == []
    assert [row["state"] for row in manager.get(LIMITS).json()["limits"]] == ["invalid"]


def test_a_new_scheduler_begins_in_shadow_mode(limiting: Site, manager: Caller) -> None:
    new = {"name": "c9", "policy": "grid", "kind": "slurm", "carries": "limits", "mode": "on"}
    assert refused(manager.post("schedulers", new))[:2] == (409, "second_person_needed")
    assert refused(manager.post("schedulers", {**new, "kind": "gridengine", "mode": "shadow"}))[:2] == (
        422, "bad_scheduler",
    )  # fmt: skip
    assert manager.post("schedulers", {**new, "mode": "shadow"}).status_code == 201


def test_wider_bounds_count_only_after_a_second_person_approved_them(
    limiting: Site, agent: Caller, manager: Caller, second: Caller
) -> None:
    """Narrower ones count at once, and wider ones again wait: as accounts do that are named again."""
    order_limits(limiting, "/physics")
    name_accounts(manager, "physics", percent_a_day=10, lapse_s=7200)
    assert approve(manager, second)["approved_percent_a_day"] == 10
    assert switch(manager, "on").status_code == 200

    def bounds() -> tuple[int, int]:
        found = order_of(agent)
        return found["percent_a_day"], found["lapse_s"]

    name_accounts(manager, "physics", percent_a_day=100, lapse_s=7_776_000)
    assert bounds() == (10, 7200)
    assert approve(manager, second)["approved_lapse_s"] == 7_776_000
    assert bounds() == (100, 7_776_000)
    name_accounts(manager, "physics", percent_a_day=5, lapse_s=600)
    assert bounds() == (5, 600)
    name_accounts(manager, "physics", percent_a_day=100, lapse_s=7_776_000)
    assert bounds() == (5, 600)
    manager.post(f"{LIMITS}/request", {"tag": manager.get(LIMITS).json()["tag"]})
    assert name_accounts(manager, "physics", percent_a_day=50)["requested_at"] is not None, "it is narrower"
    assert name_accounts(manager, "physics", percent_a_day=60)["requested_at"] is not None, "so is this"


def test_a_wider_bound_ends_a_request_for_approval(limiting: Site, manager: Caller, second: Caller) -> None:
    name_accounts(manager, "physics", percent_a_day=10, lapse_s=7200)
    asked = manager.post(f"{LIMITS}/request", {"tag": manager.get(LIMITS).json()["tag"]}).json()
    assert asked["requested_at"] is not None
    assert name_accounts(manager, "physics", lapse_s=7201)["requested_at"] is None
    tag = manager.get(LIMITS).json()["tag"]
    assert refused(second.post(f"{LIMITS}/approve", {"tag": tag}))[:2] == (409, "nothing_to_approve")


def test_canary_mode_needs_an_approved_account(limiting: Site, agent: Caller, manager: Caller, second: Caller) -> None:
    order_limits(limiting, "/physics")
    name_accounts(manager, "physics", "biology")
    approve(manager, second)
    assert refused(switch(manager, "canary"))[:2] == (409, "second_person_needed")
    name_accounts(manager, "physics", "biology", canary_account="physics")
    assert switch(manager, "canary").status_code == 200
    assert order_of(agent)["canary"] == "physics"


@pytest.mark.parametrize(
    "change",
    [
        {"accounts": ["root"]},
        {"accounts": ["a b"]},
        {"accounts": ["x", "-y"]},
        {"canary_account": "other"},
        {"percent_a_day": 101},
        {"lapse_s": 60},
    ],
)
def test_bounds_that_are_invalid_are_refused_at_their_field(
    limiting: Site, manager: Caller, change: dict[str, Any]
) -> None:
    answer = manager.patch(LIMITS, {"tag": manager.get(LIMITS).json()["tag"], **change})
    assert answer.status_code == 422, answer.content
    assert answer.json()["code"] == "bad_limits"
    assert [field["where"] for field in answer.json()["fields"]] == list(change)
    assert not LimitSettings.objects.exists()


def test_what_is_set_is_shown_with_its_reason_and_its_end(limiting: Site, agent: Caller, manager: Caller) -> None:
    order_limits(limiting, "/physics")
    name_accounts(manager, "physics", "gone")
    sends(agent, reported("physics"), reported("gone", "missing"))
    found = manager.get(LIMITS).json()
    physics = next(row for row in found["limits"] if row["account"] == "physics")
    assert (physics["state"], physics["set_at"], physics["now"]) == ("set", instant(AT), "cpu=0")
    where = "name=physics cluster=demo set grptresmins=cpu=-1"
    assert physics["restore_command"] == f"sacctmgr --immediate modify account where {where}"
    assert found["lapses_at"] == instant(AT + timedelta(days=1))
    event = AuditEvent.objects.get(verb="scheduler.limits_set")
    assert event.details["accounts"] == [{"account": "physics", "before": {"cpu": ""}, "ours": {"cpu": "0"}}]
    sends(agent, reported("physics"), reported("gone", "missing"))
    assert AuditEvent.objects.filter(verb="scheduler.limits_set").count() == 1, "logged once"
    metric = next(family for family in scheduler_families() if family.name == "fairshare_agent_limits")
    assert {sample.labels["state"]: sample.value for sample in metric.samples} == {"missing": 1, "set": 1}
    lifted = {"account": "physics", "cause": "lapsed", "code": "done", "detail": "", "at": instant(AT)}
    sends(agent, reported("physics", "lapsed"), restored_limits=[lifted])
    event = AuditEvent.objects.get(verb="scheduler.limits_restored")
    assert event.details["accounts"][0]["cause"] == "lapsed"


def test_limits_that_were_ended_on_the_host_are_shown(
    limiting: Site, agent: Caller, manager: Caller, client: Client
) -> None:
    name_accounts(manager, "physics")
    ended = {"ended_at": instant(AT), "ended_by": "root"}
    sends(agent, reported("physics", "ended_on_host"), ended=ended)
    assert (manager.get(LIMITS).json()["ended_at"], manager.get(LIMITS).json()["ended_by"]) == (instant(AT), "root")
    assert AuditEvent.objects.filter(verb="scheduler.limits_ended").count() == 1
    sends(agent, reported("physics", "ended_on_host"), ended=ended)
    assert AuditEvent.objects.filter(verb="scheduler.limits_ended").count() == 1
    sign_in(client, limiting.admin)
    assert "end-limits --allow-again" in client.get("/schedulers/c1/limits/").content.decode()


def test_an_account_that_two_schedulers_of_one_cluster_name_is_sent_by_the_first(
    limiting: Site, agent: Caller, manager: Caller
) -> None:
    order_limits(limiting, "/physics")
    name_accounts(manager, "physics")
    given = {"mode": "shadow", "carries": "limits", "namespace": "a"}
    connect_scheduler(policy_slug="grid", name="c2", settings=given, at=AT, actor=SYSTEM)
    second_scheduler = Scheduler.objects.get(name="c2")
    LimitSettings.objects.create(scheduler=second_scheduler, accounts=["physics"])
    for name in ("c1", "c2"):
        sends(agent, reported("physics", "would_set"), name=name)
    first, other = (limit_order_of(Scheduler.objects.get(name=name), AT) for name in ("c1", "c2"))
    assert first is not None
    assert other is not None
    assert (len(first["lines"]), other["lines"]) == (1, [])
    (row,) = manager.get("schedulers/c2/limits").json()["limits"]
    assert row["state"] == "other_scheduler"
    LimitListing.objects.filter(scheduler=second_scheduler).update(cluster="west")
    assert limit_order_of(second_scheduler, AT) != other


def test_orders_change_each_minute_so_that_silence_is_noticed(limiting: Site) -> None:
    scheduler = Scheduler.objects.get()
    first, same, later = (limit_order_of(scheduler, AT + timedelta(seconds=s)) for s in (0, 20, 61))
    assert first == same
    assert first is not None
    assert later is not None
    assert first["as_of"] < later["as_of"]


def test_a_scheduler_without_limits_has_no_order(connected: Site, agent: Caller, manager: Caller) -> None:
    assert agent.get("schedulers/c1/orders").json()["limit_order"] is None
    tag = manager.get(LIMITS).json()["tag"]
    answer = manager.patch(LIMITS, {"tag": tag, "accounts": ["physics"]})
    assert refused(answer)[:2] == (409, "carries_no_limits")


def test_the_page_names_accounts_asks_and_approves(limiting: Site, agent: Caller, client: Client) -> None:
    order_limits(limiting, "/physics")
    sign_in(client, limiting.admin)
    url = "/schedulers/c1/limits/"
    assert "No account is named." in client.get(url).content.decode()
    bounds = {"canary_account": "", "percent_a_day": "20", "lapse_s": "7200"}
    wrong = client.post(url, {"to": "save", "tag": tag_on(client, url), "accounts": "root", **bounds})
    assert wrong.status_code == 422
    saved = client.post(url, {"to": "save", "tag": tag_on(client, url), "accounts": "physics, biology", **bounds})
    assert saved.status_code == 303
    assert client.post(url, {"to": "request", "tag": tag_on(client, url)}).status_code == 303
    assert client.post(url, {"to": "approve", "tag": tag_on(client, url)}).status_code == 403
    other = Client()
    sign_in(other, User.objects.create_superuser("second"))
    assert other.post(url, {"to": "approve", "tag": tag_on(other, url)}).status_code == 303
    sends(agent, reported("physics"))
    text = client.get(url).content.decode()
    assert "c1 limits 1 account" in text
    assert REASON in text
    assert "second approved" in text
    assert "20 % a day, lapse after 7200 s." in text
    assert "1 account is limited" in client.get("/schedulers/c1/").content.decode()


def tag_on(client: Client, url: str) -> str:
    return str(client.get(url).context["table"].tag)
