"""Balances for portals, read as Open OnDemand's dashboard reads them (its model `Balance`)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from apps.accounts.actor import SYSTEM
from apps.accounts.models import User
from apps.accounts.services import NewToken, make_token
from apps.contrib.allocations import portal_balances
from apps.contrib.allocations.board import AllocationBoard, get_allocation_board
from apps.policies.models import Policy
from apps.policies.services import change_settings
from apps.policies.tree.stored import load_tree
from apps.priorities.serving import store
from tests import priority_site
from tests.contrib.allocations.test_board import allocate
from tests.grants import make_grant
from tests.priority_site import AS_OF, PROJECTS, Site
from tests.rest_site import Caller

_clock, make_site = priority_site._clock, priority_site.make_site
pytestmark = pytest.mark.django_db
TODAY, DAY = AS_OF.date(), timedelta(days=1)
FROM, TO = TODAY - 50 * DAY, TODAY + 49 * DAY
GPU = {"name": "GPU-hour", "symbol": "GPU-h", "weights": {"gpu_s": 1}}


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    site = make_site()
    site.publish(PROJECTS)
    site.map()
    site.job("alice", "physics", 400, ago_h=24)
    site.job("bob", "physics", 100.5, ago_h=24)
    site.recompute()
    store.poll()
    return site


def caller(site: Site, name: str, scope: str, *, reads: str = "", policy: str = "") -> Caller:
    """By a token of a person with the right to read an entry, bound to a policy."""
    user = User.objects.create_user(username=name, password=None)
    if reads:
        tree = load_tree(site.policy)
        at = tree.index_of_path(reads)
        assert at is not None
        make_grant(user, tree.uuid(at), "manager", policy=site.policy)
    new = NewToken(name="portal", scopes=[scope], user=user, policy_slug=policy)
    return Caller(token=make_token(new, at=AS_OF, actor=SYSTEM)[1])


def in_ondemand(raw: bytes, user: str) -> list[tuple[str, int, str, str]]:
    """What the dashboard shows to a user: (whose, value, its words, kind), by its own rules of reading."""
    document = json.loads(raw)
    assert isinstance(document, dict)
    config = document.get("config") or {}
    shown = []
    for each in document["balances"]:
        if each["user"] == user:
            project, unit = str(each.get("project") or ""), str(config.get("unit") or "")
            words = f"{unit} balance is {int(each['value'])}" if unit else f"Balance is {int(each['value'])}"
            shown.append((project or user, int(each["value"]), words, str(config.get("project_type") or "")))
    assert int(document["timestamp"]) > 0
    return shown


def test_a_portal_gets_what_is_left_of_the_nearest_allocation_of_each_user(site: Site) -> None:
    allocate(site, "/physics", 1_000, FROM, TO)
    allocate(site, "/physics/bob", 100, FROM, TO)
    portal = caller(site, "ondemand", "policies:read", reads="/", policy=site.slug)
    answer = portal.get("me/balances.json")
    assert answer.status_code == 200, answer.content
    assert answer.headers["Content-Type"].startswith("application/json")
    assert in_ondemand(answer.content, "alice") == [("physics", 499, "Core-hour balance is 499", "project")]
    assert in_ondemand(answer.content, "bob") == [("bob", -1, "Core-hour balance is -1", "project")]
    assert in_ondemand(answer.content, "nobody") == []
    body = answer.json()
    assert sorted(body) == ["balances", "config", "timestamp", "version"]
    assert (body["version"], body["config"]) == (1, {"unit": "Core-hour", "project_type": "project"})
    assert {type(each["value"]) for each in body["balances"]} == {int}


def test_users_without_an_allocation_of_today_have_no_balance(site: Site) -> None:
    portal = caller(site, "ondemand", "policies:read", reads="/", policy=site.slug)
    assert portal.get("me/balances.json").json()["balances"] == []
    allocate(site, "/physics/alice", 1_000, FROM, TODAY - DAY)
    allocate(site, "/physics/bob", 1_000, TODAY + DAY, TO)
    assert portal.get("me/balances.json").json()["balances"] == []


def test_units_are_asked_one_by_one(site: Site) -> None:
    change_settings(policy_slug=site.slug, settings={"units": [GPU]}, reason="GPUs", at=AS_OF, actor=SYSTEM)
    allocate(site, "/physics", 70, FROM, TO, unit="GPU-h")
    portal = caller(site, "ondemand", "policies:read", reads="/", policy=site.slug)
    assert portal.get("me/balances.json").json()["balances"] == []
    found = portal.get("me/balances.json?unit=GPU-h")
    assert in_ondemand(found.content, "alice") == [("physics", 70, "GPU-hour balance is 70", "project")]
    assert portal.get("me/balances.json?unit=lumen").status_code in (400, 404, 422)


def test_a_person_reads_their_own_alone(site: Site) -> None:
    allocate(site, "/physics", 1_000, FROM, TO)
    allocate(site, "/physics/bob", 100, FROM, TO)
    own = caller(site, "alice", "self:read").get(f"me/balances.json?policy={site.slug}").json()
    assert [(each["user"], each["project"], each["value"]) for each in own["balances"]] == [("alice", "physics", 499)]


def test_a_bound_token_reaches_its_policy_alone(site: Site) -> None:
    allocate(site, "/physics", 1_000, FROM, TO)
    free = caller(site, "ondemand", "policies:read", reads="/")
    named = free.get(f"me/balances.json?policy={site.slug}").json()["balances"]
    assert len(named) == 2
    assert free.get("me/balances.json").json()["balances"] == named
    assert free.get("me/balances.json?unit=GPU-h").status_code in (400, 404, 422)  # no policy has it
    bound = caller(site, "other", "policies:read", reads="/", policy=site.slug)
    assert bound.get("me/balances.json?policy=elsewhere").status_code == 404
    assert caller(site, "pusher", "usage:write").get(f"me/balances.json?policy={site.slug}").status_code == 403
    assert Caller().get("me/balances.json").status_code == 401


def test_who_sees_nothing_of_the_tree_gets_an_empty_list(site: Site) -> None:
    allocate(site, "/physics", 1_000, FROM, TO)
    Policy.objects.update(visibility=Policy.Visibility.PATH)
    outsider = caller(site, "outsider", "policies:read")
    assert outsider.get(f"me/balances.json?policy={site.slug}").json()["balances"] == []


def test_hidden_use_of_the_nearest_allocation_is_not_replaced_by_that_of_the_group_above(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    allocate(site, "/physics", 1_000, FROM, TO)
    allocate(site, "/physics/bob", 100, FROM, TO)

    def with_hidden_use(**asked: Any) -> AllocationBoard:
        board = get_allocation_board(**asked)
        hidden = [replace(row, used=None, remaining=None, state="unknown", suppressed=True) for row in board.rows]
        return replace(
            board, rows=[new if new.name == "bob" else row for new, row in zip(hidden, board.rows, strict=True)]
        )

    monkeypatch.setattr(portal_balances, "get_allocation_board", with_hidden_use)
    portal = caller(site, "ondemand", "policies:read", reads="/", policy=site.slug)
    assert portal.get("me/balances.json").json()["balances"] == [{"user": "alice", "project": "physics", "value": 499}]


def test_two_policies_with_a_project_of_the_same_name_have_balances_of_their_own(
    site: Site, make_site: Callable[..., Site]
) -> None:
    allocate(site, "/physics", 1_000, FROM, TO)
    allocate(site, "/biology", 10, FROM, TO)
    other = make_site(slug="other")
    other.publish(PROJECTS)
    other.map()
    other.recompute()
    allocate(other, "/physics", 2_000, FROM, TO)
    store.poll()
    portal = caller(site, "ondemand", "policies:read")
    lines = [each for each in portal.get("me/balances.json").json()["balances"] if each["user"] != "bob"]
    assert [(each["user"], each["project"], each["value"]) for each in lines] == [
        ("alice", "grid: physics", 499),
        ("alice", "other: physics", 1_499),
        ("carol", "biology", 10),
        ("dan", "biology", 10),
    ]
