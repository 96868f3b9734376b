"""Who sees and divides what."""

from __future__ import annotations

from datetime import timedelta

import pytest

from apps.accounts.actor import SYSTEM, Actor, TokenBounds
from apps.core.errors import NotAllowed, NotFound
from apps.policies import selectors, services
from apps.policies.access.authority import VERBS_OF_ROLE
from apps.policies.access.scope import Visibility, visible_entries
from apps.policies.models import Grant, Policy
from apps.policies.records import NewChangeSet
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree
from tests.instants import AT

pytestmark = pytest.mark.django_db


def seen(policy: Policy, actor: Actor, *own: str, at_hours: int = 0) -> set[str]:
    tree = load_tree(policy)
    sees = look(policy, tree, actor, *own, at_hours=at_hours)
    return {tree.path(i) for i in range(len(tree)) if sees.may_see(i)}


def look(policy: Policy, tree: TreeColumns, actor: Actor, *own: str, at_hours: int = 0) -> Visibility:
    entries = [tree.index_of_path(path) or 0 for path in own]
    at = AT + timedelta(hours=at_hours)
    return visible_entries(policy=policy, tree=tree, actor=actor, at=at, own_entries=entries)


ALL = {"/", "/physics", "/physics/alice", "/physics/bob", "/biology", "/biology/lab", "/reserve"}


def test_users_see_only_their_own_path(policy: Policy, charlie: Actor) -> None:
    assert seen(policy, charlie) == set()
    assert seen(policy, charlie, "/biology/lab") == {"/", "/biology", "/biology/lab"}


def test_an_open_policy_is_visible_to_all_signed_in_users(policy: Policy, charlie: Actor) -> None:
    policy.visibility = Policy.Visibility.TREE
    assert seen(policy, charlie) == ALL
    assert look(policy, load_tree(policy), charlie).all_visible


def test_a_grant_shows_its_subtree_and_path_until_it_expires(policy: Policy, bob: Actor) -> None:
    Grant.objects.update(expires_at=AT + timedelta(hours=2))
    assert seen(policy, bob) == {"/", "/physics", "/physics/alice", "/physics/bob"}
    assert seen(policy, bob, at_hours=2) == set()


def test_a_viewer_of_totals_sees_groups_without_user_names(policy: Policy, bob: Actor) -> None:
    Grant.objects.update(verbs=[Grant.Verb.VIEW_AGGREGATE], entry_uid=load_tree(policy).uuid(0))
    assert seen(policy, bob) == ALL - {"/physics/alice", "/physics/bob"}
    Grant.objects.update(verbs=[Grant.Verb.VIEW_AGGREGATE, Grant.Verb.VIEW_MEMBERS])
    assert seen(policy, bob) == ALL


def test_a_viewer_can_read_but_not_change(policy: Policy, bob: Actor) -> None:
    Grant.objects.update(role=Grant.Role.VIEWER, verbs=list(VERBS_OF_ROLE[Grant.Role.VIEWER]))
    tree = load_tree(policy)
    sees = look(policy, tree, bob)
    physics = tree.index_of_path("/physics") or 0
    assert sees.may_see(physics)
    assert not sees.may_divide(physics)


def test_a_manager_changes_entries_below_the_own_entry_but_not_the_entry(policy: Policy, bob: Actor) -> None:
    tree = load_tree(policy)
    sees = look(policy, tree, bob)
    may = {tree.path(i) for i in range(len(tree)) if sees.may_change(i)}
    assert may == {"/physics/alice", "/physics/bob"}


def test_administrators_and_the_system_change_all_entries_but_the_root(policy: Policy, alice: Actor) -> None:
    tree = load_tree(policy)
    for actor in (alice, SYSTEM):
        sees = look(policy, tree, actor)
        assert {tree.path(i) for i in range(len(tree)) if sees.may_change(i)} == ALL - {"/"}


def test_a_lock_is_shown_to_users_it_blocks(policy: Policy, alice: Actor, bob: Actor) -> None:
    for actor, entry in ((alice, "/physics/alice"), (bob, "/physics/bob")):
        draft = services.make_change_set(
            policy_slug="grid",
            new=NewChangeSet(operations=[{"op": "lock", "entry": entry}], reason="r"),
            at=AT,
            actor=actor,
        )
        services.publish_change_set(id=draft.pk, version=1, at=AT, actor=actor)
    policy.refresh_from_db()
    tree = load_tree(policy)
    sees = look(policy, tree, bob)
    assert {tree.path(i) for i in range(len(tree)) if sees.may_change(i)} == {"/physics/bob"}


def token(actor: Actor, *scopes: str, slug: str = "", **more: object) -> Actor:
    return Actor(actor.user, "api", TokenBounds("fsh_x", frozenset(scopes), slug, **more))  # type: ignore[arg-type]


def test_a_self_scoped_token_shows_only_the_own_path_even_to_an_administrator(policy: Policy, alice: Actor) -> None:
    own = token(alice, "self:read")
    assert seen(policy, own, "/physics/alice") == {"/", "/physics", "/physics/alice"}


def test_a_token_of_a_subtree_shows_the_subtree(policy: Policy, tree: TreeColumns, alice: Actor) -> None:
    physics = tree.uuid(tree.index_of_path("/physics") or 0)
    bound = token(alice, "policies:read", subtree_uid=physics)
    assert seen(policy, bound) == {"/physics", "/physics/alice", "/physics/bob"}
    assert not look(policy, tree, bound).may_divide(tree.index_of_path("/physics") or 0)


def test_a_policy_outside_the_token_does_not_exist(policy: Policy, alice: Actor) -> None:
    for read in (lambda actor: selectors.get_policy(slug="grid", actor=actor), lambda actor: seen(policy, actor)):
        with pytest.raises(NotFound):
            read(token(alice, "policies:read", slug="other"))
    assert selectors.list_policies(actor=token(alice, "policies:read", slug="other")) == []
    with pytest.raises(NotAllowed):
        selectors.get_policy(slug="grid", actor=token(alice, "usage:write"))
    with pytest.raises(NotFound):
        selectors.get_policy(slug="no\0where", actor=alice)


def test_a_deactivated_user_sees_nothing(policy: Policy, alice: Actor) -> None:
    assert alice.user is not None
    alice.user.is_active = False
    assert selectors.list_policies(actor=alice) == []
    with pytest.raises(NotFound):
        seen(policy, alice)


def test_invisible_entries_are_not_found(policy: Policy, tree: TreeColumns, bob: Actor) -> None:
    sees = look(policy, tree, bob)
    assert sees.require(tree.index_of_path("/physics")) == tree.index_of_path("/physics")
    for i in (tree.index_of_path("/biology"), None):
        with pytest.raises(NotFound):
            sees.require(i)
