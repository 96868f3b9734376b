"""What a guard of edits allows: settings, an entry's own share, and whose accounts a new rule may take."""

from __future__ import annotations

from typing import Any

import pytest

from apps.accounts.actor import Actor, TokenBounds
from apps.core.errors import NotAllowed
from apps.policies.access.authority import ActorGuard, AuthorGuard
from apps.policies.access.scope import Verb
from apps.policies.models import Policy
from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.terms import WHOLE_POLICY
from apps.policies.tree.working_tree import WorkingTree
from tests.grants import make_grant
from tests.instants import AT
from tests.policies.access.test_delegation import uid

pytestmark = pytest.mark.django_db


def node(tree: TreeColumns, path: str) -> Node:
    there = WorkingTree(tree).get(uid(tree, path))
    assert there is not None
    return there


def test_settings_of_a_policy_are_changed_with_rights_at_its_root(
    policy: Policy, tree: TreeColumns, alice: Actor, bob: Actor, charlie: Actor
) -> None:
    def guard(actor: Actor, **more: Any) -> ActorGuard:
        return ActorGuard(policy=policy, tree=tree, actor=actor, at=AT, **more)

    guard(alice).may_set_policy(0)
    guard(bob, only_see=True).may_set_policy(0)
    with pytest.raises(NotAllowed, match=r"operations\[3\]: only an administrator"):
        guard(bob).may_set_policy(3)
    make_grant(charlie.user, tree.uuid(0), "manager", verbs=["edit_structure"])
    guard(charlie).may_set_policy(0)
    with pytest.raises(NotAllowed, match="you lack the right publish for the policy's settings"):
        guard(charlie, extra_verbs=("publish",)).may_set_policy(0)
    bound = TokenBounds("fsh_x", frozenset({"policies:write"}), "grid", uid(tree, "/physics"))
    with pytest.raises(NotAllowed, match="only an administrator"):
        guard(Actor(alice.user, "api", bound)).may_set_policy(0)


def test_a_token_that_is_bound_to_an_entry_changes_what_is_below_and_not_the_entry(
    policy: Policy, tree: TreeColumns, alice: Actor
) -> None:
    bounds = TokenBounds("fsh_x", frozenset({"policies:write"}), "grid", uid(tree, "/physics"))
    guard = ActorGuard(policy=policy, tree=tree, actor=Actor(alice.user, "api", bounds), at=AT)
    edited = WorkingTree(tree)
    guard.may_change(edited, node(tree, "/physics/bob"), 0, Verb.EDIT_SHARES)
    with pytest.raises(NotAllowed, match="you may not change /physics"):
        guard.may_change(edited, node(tree, "/physics"), 0, Verb.EDIT_SHARES)


def test_a_rule_takes_accounts_below_the_highest_entry_where_its_author_maps_them(
    policy: Policy, tree: TreeColumns, alice: Actor, bob: Actor, charlie: Actor
) -> None:
    make_grant(charlie.user, uid(tree, "/physics"), "viewer")
    make_grant(charlie.user, uid(tree, "/biology"), "lead", verbs=["map_accounts"])
    edited = WorkingTree(tree)
    physics, biology, bob_s = (str(uid(tree, path)) for path in ("/physics", "/biology", "/physics/bob"))
    reaches = {
        ("alice", "/physics/bob"): WHOLE_POLICY,
        ("bob", "/physics/bob"): physics,
        ("bob", "/physics"): physics,
        ("charlie", "/biology/lab"): biology,
        ("charlie", "/physics/bob"): bob_s,
    }
    people = {actor.name: actor for actor in (alice, bob, charlie)}
    for (name, path), reach in reaches.items():
        guard = AuthorGuard(policy=policy, tree=tree, user=people[name].user, at=AT)
        author = guard.author(edited, node(tree, path))
        assert author is not None
        assert (author.reach, author.written_at) == (reach, AT.isoformat()), (name, path)
    by_system = AuthorGuard(policy=policy, tree=tree, user=None, at=AT).author(edited, node(tree, "/physics"))
    assert by_system is not None
    assert by_system.reach == WHOLE_POLICY
    assert bob.user is not None
    bob.user.is_active = False
    assert AuthorGuard(policy=policy, tree=tree, user=bob.user, at=AT).author(edited, node(tree, "/physics")) is None
