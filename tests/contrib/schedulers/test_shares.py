"""Shares of a scheduler that keeps its own fair share: sent, put back and taken over after a review."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from apps.accounts.actor import SYSTEM, Actor
from apps.accounts.models import AuditEvent
from apps.contrib.schedulers.gauges import scheduler_families
from apps.contrib.schedulers.models import Scheduler, ShareOrder
from apps.contrib.schedulers.selectors import difference_of
from apps.contrib.schedulers.share_listing import Key
from apps.contrib.schedulers.share_orders import cancel_share_order, take_over_shares
from apps.core.errors import Invalid, NotFound
from apps.policies.models import ChangeSet
from apps.policies.services import publish_document
from tests.contrib.schedulers.reports import report
from tests.instants import AT
from tests.pages.page import read
from tests.refusals import refused as refusal
from tests.rest_site import Caller, refused
from tests.sign_in import sign_in
from tests.small_site import TREE, Site

pytestmark = pytest.mark.django_db
ORDERS = "schedulers/c1/shares/orders"


def rows(**changed: str) -> list[dict[str, str]]:
    """The policy's associations as Slurm lists them, and one of a partition, with other shares by name."""
    found = [
        {"group": group, "user": user, "partition": partition, "parent": parent, "shares": shares}
        for group, user, partition, parent, shares in ASSOCIATIONS
    ]
    for row in found:
        if not row["partition"]:
            row["shares"] = changed.get(row["user"] or row["group"], row["shares"])
    return found


def associations(node: dict[str, Any], parent: str = "root") -> list[tuple[str, str, str, str, str]]:
    found = []
    for child in node.get("children", []):
        shares = str(child.get("shares", 1))
        if child.get("children"):
            found.append((child["name"], "", "", parent, shares))
            found += associations(child, child["name"])
        else:
            found.append((parent, child["name"], "", "", shares))
    return found


ASSOCIATIONS = [*associations(TREE), ("physics", "alice", "gpu", "", "9")]


@pytest.fixture
def carrying(connected: Site) -> Site:
    Scheduler.objects.update(carries="shares")
    return connected


def lists(agent: Caller, given: list[dict[str, str]], **more: Any) -> None:
    sent = report(queue=None, shares={"cluster": "demo", "rows": given}, **more)
    answer = agent.post("schedulers/c1/passes", sent)
    assert answer.status_code == 200, answer.content


def publish(shares: float) -> None:
    tree = copy.deepcopy(TREE)
    tree["children"][1]["shares"] = shares
    publish_document(policy_slug="grid", document={"root": tree}, reason="x", at=AT, actor=SYSTEM)


def test_restored_shares_are_listed_and_are_no_changes_by_hand(carrying: Site, agent: Caller, manager: Caller) -> None:
    lists(agent, rows())
    publish(77)
    tag = manager.get("schedulers/c1/shares").json()["tag"]
    order = manager.post(ORDERS, {"tag": tag}).json()
    done = {"id": order["id"], "outcomes": [{"line": 0, "code": "done", "detail": ""}]}
    lists(agent, rows(biology="77"), share_order=done)
    line = {"group": "biology", "user": "", "before": "77", "after": "40", "code": "done", "detail": ""}
    left = {**line, "user": "carol", "before": "9", "code": "changed_meanwhile", "detail": "It has 9, and had 1."}
    lists(agent, rows(), restored_shares=[line, left])
    found = manager.get("schedulers/c1/shares").json()
    assert (brief(found, "to_send"), found["by_hand"]) == ([("biology", "", "40", "77")], [])
    newest = manager.get(ORDERS).json()["results"][0]
    assert (newest["state"], [each["outcome"] for each in newest["lines"]]) == ("failed", ["done", "changed_meanwhile"])
    event = AuditEvent.objects.filter(verb="scheduler.shares_restored").get()
    assert (event.details["set"], event.details["lines"]) == (1, 2)


def brief(found: dict[str, Any], kind: str) -> list[tuple[str, str, str, str]]:
    return [(one["group"], one["user"], one["scheduler"], one["policy"]) for one in found[kind]]


def test_a_published_share_is_ordered_set_and_confirmed(carrying: Site, agent: Caller, manager: Caller) -> None:
    assert manager.get("schedulers/c1/shares").json()["taken_at"] is None
    lists(agent, rows())
    same = manager.get("schedulers/c1/shares").json()
    assert (same["to_send"], same["by_hand"], same["cluster"]) == ([], [], "demo")
    publish(77)
    found = manager.get("schedulers/c1/shares").json()
    (line,) = found["to_send"]
    assert line["command"] == ("sacctmgr --immediate modify account where name=biology cluster=demo set fairshare=77")
    assert found["by_hand"] == []
    assert refused(manager.post(ORDERS, {"tag": same["tag"]}))[:2] == (412, "stale")
    made = manager.post(ORDERS, {"tag": found["tag"]})
    assert made.status_code == 201, made.content
    assert refused(manager.post(ORDERS, {"tag": found["tag"]}))[:2] == (409, "order_open")

    orders = agent.get("schedulers/c1/orders")
    before = line["scheduler"]
    order = {"line": 0, "group": "biology", "user": "", "before": before, "after": "77", "agreed": before}
    assert orders.json()["share_order"] == {"id": made.json()["id"], "cluster": "demo", "lines": [order]}
    outcome = {"line": 0, "code": "done", "detail": ""}
    lists(agent, rows(biology="77"), share_order={"id": made.json()["id"], "outcomes": [outcome]})
    again = agent.get("schedulers/c1/orders", if_none_match=orders["ETag"])
    assert (again.status_code, again.json()["share_order"]) == (200, None)
    (ended,) = manager.get(ORDERS).json()["results"]
    assert (ended["state"], ended["lines"][0]["outcome"]) == ("done", "done")
    assert manager.get("schedulers/c1/shares").json()["to_send"] == []
    verbs = (
        AuditEvent.objects.filter(verb__startswith="scheduler.shares_").order_by("id").values_list("verb", flat=True)
    )
    assert list(verbs) == ["scheduler.shares_ordered", "scheduler.shares_set"]


def test_a_metric_counts_manually_changed_shares(carrying: Site, agent: Caller) -> None:
    assert changed_by_hand() == {}
    lists(agent, rows())
    assert changed_by_hand() == {"c1": 0}
    lists(agent, rows(alice="99", bob="98"))
    assert changed_by_hand() == {"c1": 2}
    publish(77)
    assert changed_by_hand() == {"c1": 2}  # what the policy changed is for the agent to set
    lists(agent, rows(biology="77"))
    assert changed_by_hand() == {"c1": 0}
    lists(agent, rows(alice="99"))
    Scheduler.objects.update(mode="off")
    assert changed_by_hand() == {}
    Scheduler.objects.update(mode="on", carries="priorities")
    assert changed_by_hand() == {}


def changed_by_hand() -> dict[str, float]:
    return {
        sample.labels["scheduler"]: sample.value
        for family in scheduler_families()
        for sample in family.samples
        if sample.name == "fairshare_agent_shares_changed_by_hand"
    }


def test_a_manually_changed_share_is_named_and_restored(carrying: Site, agent: Caller, manager: Caller) -> None:
    lists(agent, rows())
    lists(agent, rows(alice="99"))
    found = manager.get("schedulers/c1/shares").json()
    assert found["to_send"] == []
    ((_group, _user, there, here),) = brief(found, "by_hand")
    assert there == "99"
    assert refused(manager.post(ORDERS, {"tag": found["tag"]}))[:2] == (422, "nothing_to_set")
    wrong = {"tag": found["tag"], "put_back": [{"group": "physics", "user": "bob"}]}
    assert refused(manager.post(ORDERS, wrong))[0] == 422
    made = manager.post(ORDERS, {"tag": found["tag"], "put_back": [{"group": "physics", "user": "alice"}]})
    assert made.status_code == 201, made.content
    (line,) = agent.get("schedulers/c1/orders").json()["share_order"]["lines"]
    assert (line["before"], line["after"]) == ("99", here)
    outcome = {"line": 0, "code": "already", "detail": ""}
    lists(agent, rows(), share_order={"id": made.json()["id"], "outcomes": [outcome]})
    assert manager.get("schedulers/c1/shares").json()["by_hand"] == []


def test_a_manually_changed_share_is_adopted_in_a_draft(carrying: Site, agent: Caller, manager: Caller) -> None:
    lists(agent, rows())
    lists(agent, rows(alice="99"))
    tag = manager.get("schedulers/c1/shares").json()["tag"]
    made = manager.post(
        "schedulers/c1/shares/take-over", {"tag": tag, "lines": [{"group": "physics", "user": "alice"}]}
    )
    assert made.status_code == 201, made.content
    (operation,) = ChangeSet.objects.get(pk=made.json()["change_set"]).operations
    assert (operation["op"], operation["shares"]) == ("set_shares", 99)
    assert operation["entry"] == str(carrying.uid("/physics/alice"))


def test_fractions_are_scaled_for_the_scheduler_and_adopted_unscaled(
    carrying: Site, agent: Caller, manager: Caller
) -> None:
    publish(2.5)  # beside 60: both × 10
    tens = {"physics": "600"}
    lists(agent, rows(**tens, biology="25"))
    assert manager.get("schedulers/c1/shares").json()["to_send"] == []
    lists(agent, rows(**tens, biology="45"))
    found = manager.get("schedulers/c1/shares").json()
    lines = [{"group": "biology"}]
    made = manager.post("schedulers/c1/shares/take-over", {"tag": found["tag"], "lines": lines})
    assert ChangeSet.objects.get(pk=made.json()["change_set"]).operations[0]["shares"] == 4.5


def test_a_failed_line_is_reported_and_the_rest_is_cancelled(
    carrying: Site, agent: Caller, manager: Caller, client: Client
) -> None:
    lists(agent, rows())
    publish(77)
    tag = manager.get("schedulers/c1/shares").json()["tag"]
    first = manager.post(ORDERS, {"tag": tag}).json()
    outcome = {"line": 0, "code": "denied", "detail": "Access denied"}
    agent.post("schedulers/c1/passes", report(queue=None, share_order={"id": first["id"], "outcomes": [outcome]}))
    second = manager.post(ORDERS, {"tag": tag}).json()
    sign_in(client, carrying.admin)
    page = read(client.get("/schedulers/c1/shares/"))
    assert page.each("[data-testid=order] .badge", "data-key") == ["open", "failed"]
    assert "Access denied" in page.texts("[data-testid=order]")[1]
    answer = client.post("/schedulers/c1/shares/", {"to": "cancel", "order": second["id"]})
    assert answer.status_code == 303
    assert ShareOrder.objects.get(pk=second["id"]).state == "cancelled"
    assert agent.get("schedulers/c1/orders").json()["share_order"] is None


def test_a_cancelled_order_stays_cancelled_and_what_was_set_meanwhile_is_known(
    carrying: Site, agent: Caller, manager: Caller
) -> None:
    lists(agent, rows())
    publish(77)
    order = manager.post(ORDERS, {"tag": manager.get("schedulers/c1/shares").json()["tag"]}).json()["id"]
    for _twice in range(2):
        cancelled = cancel_share_order(name="c1", order_id=order, at=AT, actor=SYSTEM)
        assert cancelled.state == ShareOrder.State.CANCELLED
    assert AuditEvent.objects.filter(verb="scheduler.share_order_cancelled").count() == 1
    outcome = {"line": 0, "code": "done", "detail": ""}
    lists(agent, rows(biology="77"), share_order={"id": order, "outcomes": [outcome]})
    stored = ShareOrder.objects.get()
    assert (stored.state, stored.lines[0]["outcome"]) == (ShareOrder.State.CANCELLED, "done")
    found = manager.get("schedulers/c1/shares").json()
    assert (found["to_send"], found["by_hand"]) == ([], [])
    with refusal(NotFound):
        cancel_share_order(name="c1", order_id=order + 1, at=AT, actor=SYSTEM)


@pytest.mark.parametrize(("order", "line"), [(1, 0), (0, 7)], ids=["order", "line"])
def test_an_outcome_of_an_unknown_order_or_line_changes_nothing(
    carrying: Site, agent: Caller, manager: Caller, order: int, line: int
) -> None:
    lists(agent, rows())
    publish(77)
    made = manager.post(ORDERS, {"tag": manager.get("schedulers/c1/shares").json()["tag"]}).json()["id"]
    outcome = {"line": line, "code": "done", "detail": ""}
    lists(agent, rows(), share_order={"id": made + order, "outcomes": [outcome]})
    stored = ShareOrder.objects.get()
    assert (stored.state, stored.lines[0]["outcome"]) == (ShareOrder.State.OPEN, "")


def test_shares_are_taken_over_into_the_draft_that_is_open(carrying: Site, agent: Caller) -> None:
    lists(agent, rows())
    lists(agent, rows(alice="99", bob="98"))
    admin = Actor(user=carrying.admin, via="page")

    def take_over(*users: str) -> ChangeSet:
        keys, tag = [Key("physics", user) for user in users], compare_tag()
        return take_over_shares(name="c1", tag=tag, keys=keys, at=AT, actor=admin)

    first, second = take_over("alice"), take_over("bob", "bob")
    assert first.pk == second.pk
    assert [each["shares"] for each in second.operations] == [99, 98]
    with refusal(Invalid, "nothing_to_set"):
        take_over()
    with refusal(Invalid, field="lines"):
        take_over("alice", "carol")


def compare_tag() -> str:
    found = difference_of(Scheduler.objects.get())
    assert found is not None
    return found.tag


def test_the_page_sends_the_reviewed_order(carrying: Site, agent: Caller, client: Client) -> None:
    sign_in(client, carrying.admin)
    assert read(client.get("/schedulers/c1/shares/")).all("[data-testid]") == []
    lists(agent, rows())
    lists(agent, rows(alice="99"))
    publish(77)
    page = read(client.get("/schedulers/c1/shares/"))
    assert (len(page.all("[data-testid=to-send]")), len(page.all("[data-testid=by-hand]"))) == (1, 1)
    tag = page.each("input[name=tag]", "value")[0]
    assert client.post("/schedulers/c1/shares/", {"to": "send", "tag": "old"}).status_code == 412
    assert client.post("/schedulers/c1/shares/", {"to": "send", "tag": tag}).status_code == 303
    assert ShareOrder.objects.get().lines[0]["group"] == "biology"
    drafted = client.post("/schedulers/c1/shares/", {"to": "take-over", "tag": tag, "line": "0"})
    assert drafted["Location"].startswith("/changes/")


def test_only_a_scheduler_that_carries_shares_accepts_an_order(agent: Caller, manager: Caller) -> None:
    lists(agent, rows(biology="1"))
    found = manager.get("schedulers/c1/shares").json()
    assert refused(manager.post(ORDERS, {"tag": found["tag"]}))[:2] == (409, "sets_no_shares")
    wrong = manager.patch("schedulers/c1", {"carries": "shares", "mode": "canary"}, if_match='"1"')
    assert "mode" in refused(wrong)[2]


def test_a_command_lists_and_sends_shares(carrying: Site, agent: Caller, capsys: pytest.CaptureFixture[str]) -> None:
    lists(agent, rows())
    publish(77)
    call_command("scheduler", "shares", "c1")
    assert "name=biology cluster=demo set fairshare=77" in capsys.readouterr().out
    call_command("scheduler", "shares", "c1", "--send")
    assert ShareOrder.objects.get().lines[0]["after"] == "77"


def test_grid_engine_has_nodes_by_path(carrying: Site, agent: Caller, manager: Caller) -> None:
    Scheduler.objects.update(kind="gridengine", knob="priority")
    nodes = [
        {**row, "group": f"/{row['group']}/{row['user']}".rstrip("/"), "user": ""}
        for row in rows()
        if not row["partition"]
    ]
    sent = report(queue=None, shares={"cluster": "", "rows": nodes})
    agent.post("schedulers/c1/passes", sent)
    publish(77)
    found = manager.get("schedulers/c1/shares").json()
    assert [(one["group"], one["command"]) for one in found["to_send"]] == [("/biology", "qconf -mstnode /biology=77")]


def test_nothing_outside_the_subtree_is_sent(carrying: Site, agent: Caller, manager: Caller) -> None:
    Scheduler.objects.update(subtree_uid=carrying.uid("/physics"), subtree_path="/physics")
    lists(agent, rows(biology="7", alice="9"))
    lists(agent, rows(biology="8", alice="8"))
    found = manager.get("schedulers/c1/shares").json()
    assert [one["user"] for one in found["by_hand"]] == ["alice"]
    assert (found["to_send"], found["only_in_scheduler"]) == ([], [{"group": "physics", "user": "alice:gpu"}])


@pytest.mark.parametrize(
    "wrong",
    [
        {"cluster": "c", "rows": [{"group": "x"}]},
        {"cluster": "c", "rows": [{"group": "x", "user": "", "partition": "", "parent": "", "shares": "-1"}]},
        {"rows": []},
    ],
)
def test_an_invalid_listing_is_refused_and_not_stored(agent: Caller, wrong: Any) -> None:
    assert agent.post("schedulers/c1/passes", report(queue=None, shares=wrong)).status_code == 400
