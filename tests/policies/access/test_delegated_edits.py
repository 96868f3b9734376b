"""Whatever a delegate does below their entry, no target outside moves: not that of the entry either."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, example, given, target
from hypothesis import strategies as st

from apps.accounts.actor import COMMAND, Actor
from apps.core.errors import DomainError, NotAllowed, NotFound
from apps.policies import services
from apps.policies.access.authority import ActorGuard
from apps.policies.access.role_holders import explain_access
from apps.policies.access.scope import Verb, visible_entries
from apps.policies.models import Grant, Policy
from apps.policies.operations.apply import apply_operations
from apps.policies.records import NewChangeSet
from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.stored import load_archived, load_tree
from tests.examples import examples
from tests.grants import make_grant
from tests.instants import AT
from tests.policies.conftest import person

pytestmark = pytest.mark.django_db

TREE: dict[str, Any] = {
    "root": {
        "name": "grid",
        "children": [
            {
                "name": "a",
                "shares": "parent",
                "children": [
                    {"name": "x", "shares": 2, "children": [{"name": "u"}, {"name": "v", "shares": 3}]},
                    {"name": "y", "shares": "parent", "children": [{"name": "w", "shares": 5}]},
                ],
            },
            {
                "name": "b",
                "shares": 4,
                "children": [
                    {"name": "p", "shares": "parent", "children": [{"name": "q"}, {"name": "r", "shares": 2}]},
                    {"name": "s", "shares": 1, "children": [{"name": "t"}]},
                ],
            },
            {"name": "c", "shares": 3, "children": [{"name": "d", "shares": "parent"}, {"name": "e"}]},
        ],
    }
}


def targets(tree: TreeColumns) -> dict[UUID, Fraction]:
    """Of the whole, entry by entry, by hand: an entry that inherits lets its children compete in its place."""
    found: dict[UUID, Fraction] = {}

    def competing(node: Node) -> Iterator[Node]:
        for child in by_parent.get(node.uid, []):
            if child.shares is None:
                yield from competing(child)
            else:
                yield child

    def share_out(node: Node, part: Fraction) -> None:
        found[node.uid] = part
        group = list(competing(node))
        whole = sum(Fraction(child.shares or 0) for child in group)
        for child in group:
            share_out(child, part * Fraction(child.shares or 0) / whole if whole else Fraction(0))

    by_parent: dict[UUID | None, list[Node]] = {}
    for node in tree.nodes():
        by_parent.setdefault(node.parent_uid, []).append(node)
    share_out(by_parent[None][0], Fraction(1))
    return found


number = st.integers(0, 10**6)
kinds = ["set_shares", "percent", "add", "move", "rename", "archive", "restore", "set_kind", "lock", "set_dates"]
weights = st.one_of(st.integers(0, 9), st.just("parent"))
edits = st.lists(st.tuples(st.sampled_from(kinds), number, number, weights), min_size=1, max_size=8)


def operation(tree: TreeColumns, archived: list[UUID], edit: tuple[str, int, int, Any]) -> dict[str, Any]:
    kind, a, b, shares = edit
    entry, parent = str(tree.uuid(a % len(tree))), str(tree.uuid(b % len(tree)))
    gone = str(archived[a % len(archived)]) if archived else entry
    return {
        "set_shares": {"op": "set_shares", "entry": entry, "shares": shares},
        "percent": {"op": "set_shares", "entry": entry, "shares": {"percent": a % 101, "from": "siblings"}},
        "add": {"op": "add", "parent": parent, "name": f"n{a % 7}", "shares": shares},
        "move": {"op": "move", "entry": entry, "parent": parent, "shares": shares},
        "rename": {"op": "rename", "entry": entry, "name": f"n{b % 7}"},
        "archive": {"op": "archive", "entry": entry},
        "restore": {"op": "restore", "entry": gone, "parent": parent},
        "set_kind": {"op": "set_kind", "entry": entry, "kind": "reserve" if b % 2 else "group"},
        "lock": {"op": "lock", "entry": entry, "locked": bool(b % 2)},
        "set_dates": {"op": "set_dates", "entry": entry, "dates": None},
    }[kind]


@pytest.fixture
def policy(db: None) -> Policy:
    services.make_policy(slug="grid", name="Grid", at=AT, actor=COMMAND)
    services.publish_document(policy_slug="grid", document=TREE, reason="The start.", at=AT, actor=COMMAND)
    operations = [{"op": "archive", "entry": "/b/s/t"}, {"op": "archive", "entry": "/c/e"}]
    draft = services.make_change_set(
        policy_slug="grid", new=NewChangeSet(operations=operations, reason="r"), at=AT, actor=COMMAND
    )
    services.publish_change_set(id=draft.pk, version=1, at=AT, actor=COMMAND)
    return Policy.objects.get(slug="grid")


@pytest.fixture
def delegate(policy: Policy) -> Actor:
    return person("delegate")


def delegate_at(policy: Policy, delegate: Actor, path: str) -> UUID:
    tree = load_tree(policy)
    uid = tree.uuid(tree.index_of_path(path) or 0)
    Grant.objects.filter(policy=policy).delete()
    make_grant(delegate.user, uid, policy=policy)
    return uid


@given(path=st.sampled_from(["/a", "/a/x", "/a/y", "/b", "/b/p", "/b/s", "/c"]), edits=edits)
@example(path="/a", edits=[("set_shares", 4, 0, 9), ("add", 0, 5, 9), ("move", 9, 1, 9)])
@examples(400, suppress=[HealthCheck.function_scoped_fixture])
def test_operations_of_a_delegate_change_no_target_outside_the_delegated_subtree(
    policy: Policy, delegate: Actor, path: str, edits: list[tuple[str, int, int, Any]]
) -> None:
    own = delegate_at(policy, delegate, path)
    tree = load_tree(policy)
    gone = [node.uid for name in ("/b/s/t", "/c/e") for node in archived_of(policy, name)]
    guard = ActorGuard(policy=policy, tree=tree, actor=delegate, at=AT, extra_verbs=(Verb.PUBLISH,))
    allowed: list[dict[str, Any]] = []
    after = tree
    for edit in edits:
        more = [*allowed, operation(after, gone, edit)]
        with suppress(DomainError):
            after = apply_operations(tree, more, guard=guard, archived=lambda uid: load_archived(policy, uid)).tree
            allowed = more
    target(len(allowed))
    i = tree.index_of_uid(own)
    assert i is not None
    inside = {tree.uuid(j) for level in tree.subtree(i) for j in level} - {own}
    before, now = targets(tree), targets(after)
    outside = [uid for uid in before if uid not in inside]
    assert {uid: now.get(uid) for uid in outside} == {uid: before[uid] for uid in outside}
    still = after.index_of_uid(own)
    assert still is not None
    below = {after.uuid(j) for level in after.subtree(still) for j in level} - {own}
    assert inside & set(now) <= below  # nothing was carried out
    assert not [uid for uid in now if uid not in before and uid not in below]  # and nothing put elsewhere


def archived_of(policy: Policy, path: str) -> list[Node]:
    tree = load_tree(policy, policy.head_number - 1)
    return [tree.node(i) for i in [tree.index_of_path(path)] if i is not None]


@pytest.mark.parametrize("path", ["/", "/a", "/a/x", "/a/y", "/b", "/b/p", "/b/s", "/c", "/c/d"])
@pytest.mark.parametrize("verb", [Verb.EDIT_SHARES, Verb.EDIT_STRUCTURE, Verb.PUBLISH])
def test_access_says_of_each_entry_what_its_edits_are_allowed(
    policy: Policy, delegate: Actor, path: str, verb: Verb
) -> None:
    tree = load_tree(policy)
    Grant.objects.filter(policy=policy).delete()
    verbs = [verb, Verb.VIEW_MEMBERS]
    make_grant(delegate.user, tree.uuid(tree.index_of_path(path) or 0), policy=policy, verbs=verbs)
    sees = visible_entries(policy=policy, tree=tree, actor=delegate, at=AT)
    for i in range(len(tree)):
        if not sees.may_see(i):
            continue
        explained = explain_access(policy_slug="grid", entry_uid=tree.uuid(i), username="", at=AT, actor=delegate)
        assert explained.may_divide is sees.may_divide(i), tree.path(i)
        assert explained.may_change_own is (sees.may_change(i) and verb == Verb.EDIT_SHARES), tree.path(i)


@pytest.mark.parametrize(
    ("path", "child", "may"),
    [
        ("/a", "/a/x", False),
        ("/a", "/a/x/u", True),
        ("/a", "/a/y/w", False),
        ("/b", "/b/p/q", True),
        ("/b/p", "/b/p/q", False),
        ("/b/s", "/b/s", False),
    ],
)
def test_below_an_entry_that_inherits_shares_are_divided_one_level_up(
    policy: Policy, delegate: Actor, path: str, child: str, may: bool
) -> None:
    delegate_at(policy, delegate, path)
    tree = load_tree(policy)
    i = tree.index_of_path(child)
    assert i is not None
    assert visible_entries(policy=policy, tree=tree, actor=delegate, at=AT).may_change(i) is may
    change: dict[str, Any] = {
        "policy_slug": "grid",
        "entry_uid": tree.uuid(i),
        "shares": 7,
        "reason": "r",
        "at": AT,
        "actor": delegate,
    }
    if may:
        services.change_shares(**change)
    else:
        with pytest.raises(NotAllowed):
            services.change_shares(**change)


def test_entries_archived_elsewhere_cannot_be_restored_below_the_own_entry(policy: Policy, delegate: Actor) -> None:
    delegate_at(policy, delegate, "/b")
    stranger = archived_of(policy, "/c/e")[0].uid
    operations = [{"op": "restore", "entry": str(stranger), "parent": "/b/s"}]
    with pytest.raises(NotFound):
        services.make_change_set(
            policy_slug="grid", new=NewChangeSet(operations=operations, reason="r"), at=AT, actor=delegate
        )
