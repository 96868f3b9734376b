"""Who manages a whole policy, and who leads an entry."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest

from apps.accounts.actor import SYSTEM, Actor, TokenBounds
from apps.accounts.models import User
from apps.policies.access.leads import MOST_NAMED_LEADS, names_of_leads
from apps.policies.access.managers import manages, manages_any
from apps.policies.models import Grant, Policy
from apps.policies.tree.columns import TreeColumns
from tests.grants import make_grant
from tests.instants import AT
from tests.policies.conftest import person

pytestmark = pytest.mark.django_db


def through(actor: Actor, slug: str = "", top: UUID | None = None, source: str = "") -> Actor:
    return Actor(actor.user, "api", TokenBounds("fsh_x", frozenset({"admin"}), slug, top, source))


def root_manager(policy: Policy, tree: TreeColumns, **more: object) -> Actor:
    actor = person("root")
    make_grant(actor.user, tree.uuid(0), policy=policy, **more)  # type: ignore[arg-type]
    return actor


def test_administrators_and_those_who_shape_the_root_manage_the_policy(
    policy: Policy, tree: TreeColumns, alice: Actor, bob: Actor, charlie: Actor
) -> None:
    assert [manages(policy, actor, AT) for actor in (SYSTEM, alice, bob, charlie)] == [True, True, False, False]
    assert manages(policy, root_manager(policy, tree), AT)
    Grant.objects.update(verbs=["edit_shares", "publish", "view_members"])
    assert not manages(policy, Actor(User.objects.get(username="root"), "page"), AT)


def test_a_right_that_ended_manages_nothing(policy: Policy, tree: TreeColumns) -> None:
    manager = root_manager(policy, tree, expires_at=AT + timedelta(hours=1))
    assert [manages(policy, manager, AT + timedelta(hours=hours)) for hours in (0, 1)] == [True, False]
    assert [manages_any(at=AT + timedelta(hours=hours), actor=manager) for hours in (0, 1)] == [True, False]


def test_through_a_token_the_whole_policy_is_managed_within_its_bounds(
    policy: Policy, tree: TreeColumns, alice: Actor
) -> None:
    physics = tree.uuid(tree.index_of_path("/physics") or 0)
    for who in (alice, root_manager(policy, tree)):
        assert manages(policy, through(who), AT)
        assert manages(policy, through(who, "grid"), AT)
        assert manages(policy, through(who, "grid", tree.uuid(0)), AT)
        assert manages(policy, through(who, "grid", physics), AT) is False
        assert not manages(policy, through(who, "other"), AT)
        assert not manages(policy, through(who, source="cluster-a"), AT)
        assert manages_any(at=AT, actor=through(who, "grid"))
        assert not manages_any(at=AT, actor=through(who, "grid", physics))
        assert not manages_any(at=AT, actor=through(who, source="cluster-a"))


def test_an_inactive_person_manages_nothing(policy: Policy, tree: TreeColumns, alice: Actor) -> None:
    for who in (alice, root_manager(policy, tree)):
        assert manages_any(at=AT, actor=who)
        assert who.user is not None
        who.user.is_active = False
        assert not manages(policy, who, AT)
        assert not manages_any(at=AT, actor=who)


def test_an_administrator_manages_even_before_the_first_policy(alice: Actor, charlie: Actor) -> None:
    assert manages_any(at=AT, actor=alice)
    assert not manages_any(at=AT, actor=charlie)
    assert not manages_any(at=AT, actor=through(alice, "grid"))


def test_leads_are_named_once_in_the_order_of_their_grants_and_at_most_three(
    policy: Policy, tree: TreeColumns, bob: Actor
) -> None:
    physics, biology = (tree.uuid(tree.index_of_path(path) or 0) for path in ("/physics", "/biology"))
    reader = person("reader")
    for number, name in enumerate(("zoe", "adam", "mia", "last")):
        lead = person(name).user
        make_grant(lead, physics, "lead", policy=policy, at=AT + timedelta(minutes=number + 1))
    make_grant(User.objects.get(username="zoe"), physics, "manager", policy=policy, at=AT + timedelta(minutes=9))
    make_grant(reader.user, biology, "lead", policy=policy)
    make_grant(None, biology, "lead", policy=policy, people="oidc:staff")
    make_grant(person("sees").user, biology, "viewer", policy=policy)
    make_grant(person("ended").user, biology, "lead", policy=policy, expires_at=AT)
    gone = person("gone").user
    assert gone is not None
    User.objects.filter(pk=gone.pk).update(is_active=False)
    make_grant(gone, biology, "lead", policy=policy)
    named = names_of_leads(policy_slug="grid", uids=[physics, biology], at=AT, actor=reader)
    assert dict(named) == {physics: ["bob", "zoe", "adam"]}
    assert MOST_NAMED_LEADS == 3
    others = names_of_leads(policy_slug="grid", uids=[biology], at=AT, actor=bob)
    assert dict(others) == {biology: ["reader"]}
