"""Random edits, in any order and from stale bases: never a cycle, never an orphan, and rows always equal the blob."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import numpy as np
import pytest
from django.db import transaction
from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from apps.accounts.actor import COMMAND
from apps.core.errors import Conflict, DomainError, Invalid
from apps.policies import services
from apps.policies.models import Entry, Policy, Revision
from apps.policies.operations.apply import apply_operations
from apps.policies.records import NewChangeSet
from apps.policies.tree.columns import Node, TreeColumns, pack_tree, unpack_tree
from apps.policies.tree.stored import load_tree, load_tree_from_rows
from apps.policies.tree.working_tree import columns_of
from tests.examples import examples, new_uid
from tests.instants import AT

names = st.sampled_from(["a", "b", "c", "å", "Z", "x y"])
number = st.integers(0, 10**6)
weights = st.one_of(st.floats(0, 100), st.just("parent"))


def check_shape(tree: TreeColumns) -> None:
    """One root, parents before children, siblings together, sorted and different."""
    assert tree.parent[0] == -1
    assert (tree.parent[1:] < np.arange(1, len(tree))).all()
    assert (np.diff(tree.parent[1:]) >= 0).all()
    for i in range(len(tree)):
        children = [tree.name[j] for j in tree.children(i)]
        assert children == sorted(set(children))
        assert tree.index_of_uid(tree.uuid(i)) == i
        assert tree.index_of_path(tree.path(i)) == i
        assert tree.subtree_mask(i).sum() == 1 + sum(int(tree.subtree_mask(j).sum()) for j in tree.children(i))
    assert (tree.level[1:] == tree.level[tree.parent[1:]] + 1).all()


def operation(tree: TreeColumns, kind: str, a: int, b: int, name: str, shares: Any) -> dict[str, Any]:
    entry, parent = str(tree.uuid(a % len(tree))), str(tree.uuid(b % len(tree)))
    return {
        "add": {"op": "add", "parent": parent, "name": name, "shares": shares, "kind": "user" if a % 3 else "vo"},
        "move": {"op": "move", "entry": entry, "parent": parent, "name": name},
        "rename": {"op": "rename", "entry": entry, "name": name},
        "archive": {"op": "archive", "entry": entry},
        "set_shares": {"op": "set_shares", "entry": entry, "shares": shares},
        "percent": {"op": "set_shares", "entry": entry, "shares": {"percent": a % 101, "from": "siblings"}},
        "lock": {"op": "lock", "entry": entry, "locked": bool(b % 2)},
        "set_scope": {"op": "set_scope", "entry": entry, "scope": "global", "sources": [name]},
    }[kind]


kinds = st.sampled_from(
    ["add", "add", "add", "move", "move", "rename", "archive", "set_shares", "percent", "lock", "set_scope"]
)
edits = st.lists(st.tuples(kinds, number, number, names, weights), min_size=1, max_size=5)


class EditsInMemory(RuleBasedStateMachine):
    """The columns after any edits are those that the entries themselves make."""

    @initialize()
    def start(self) -> None:
        self.tree = columns_of([Node(new_uid(), None, "root")])

    @rule(edits=edits)
    def edit(self, edits: list[tuple[str, int, int, str, Any]]) -> None:
        try:
            outcome = apply_operations(self.tree, [operation(self.tree, *edit) for edit in edits])
        except DomainError:
            return
        for uid, (before, after) in outcome.changes.items():
            i = self.tree.index_of_uid(uid)
            assert before == (None if i is None else self.tree.node(i))
            j = outcome.tree.index_of_uid(uid)
            assert after == (None if j is None else outcome.tree.node(j))
        for n_checked in {0, len(edits) // 2, len(edits)}:
            again = apply_operations(self.tree, outcome.operations, n_checked=n_checked)
            assert repr(again.operations) == repr(outcome.operations)
            assert (again.changes, again.touches) == (outcome.changes, outcome.touches)
        self.tree = outcome.tree

    @invariant()
    def columns_are_sound(self) -> None:
        check_shape(self.tree)
        assert self.tree.same_as(columns_of(list(self.tree.nodes())[::-1]))
        assert self.tree.same_as(unpack_tree(*pack_tree(self.tree)))
        assert self.tree.engine_tree().n_entries == len(self.tree)


def test_columns_after_random_edits_equal_the_entries() -> None:
    run_state_machine_as_test(EditsInMemory, settings=examples(60, steps=12))


class EditsPublished(RuleBasedStateMachine):
    """Editors publish on the head or on what they last saw; archived entries come back."""

    @initialize()
    def start(self) -> None:
        self.slug = f"p{uuid4().hex[:12]}"
        self.policy = services.make_policy(slug=self.slug, name="P", at=AT, actor=COMMAND)
        self.archived: list[UUID] = []

    def _publish(self, base: int, operations: list[dict[str, Any]]) -> None:
        head = self.policy.head_number
        rows = Entry.objects.filter(policy=self.policy).count()
        before = load_tree(self.policy)
        refusal = self._refusal(base, operations)
        if refusal is not None:
            assert base != head or not isinstance(refusal, Conflict)
            self.policy.refresh_from_db()
            assert self.policy.head_number == head
            assert Entry.objects.filter(policy=self.policy).count() == rows
            return
        self.policy.refresh_from_db()
        assert self.policy.head_number == head + 1
        after = load_tree(self.policy)
        old, new = ({node.uid: node for node in tree.nodes()} for tree in (before, after))
        opened = [uid for uid, node in new.items() if old.get(uid) != node]
        closed = [uid for uid, node in old.items() if new.get(uid) != node]
        self.archived += [uid for uid in old if uid not in new]
        assert Revision.objects.get(policy=self.policy, number=head + 1).n_changed == len({*opened, *closed})
        assert Entry.objects.filter(policy=self.policy, since=head + 1).count() == len(opened)
        assert Entry.objects.filter(policy=self.policy, until=head + 1).count() == len(closed)

    def _refusal(self, base: int, operations: list[dict[str, Any]]) -> DomainError | None:
        try:
            with transaction.atomic():
                draft = services.make_change_set(
                    policy_slug=self.slug,
                    new=NewChangeSet(base_revision=base, operations=operations, reason="r"),
                    at=AT,
                    actor=COMMAND,
                )
                services.publish_change_set(id=draft.pk, version=1, at=AT, actor=COMMAND)
        except DomainError as refusal:
            return refusal
        return None

    @rule(edits=edits, staleness=st.integers(0, 3))
    def edit(self, edits: list[tuple[str, int, int, str, Any]], staleness: int) -> None:
        base = max(1, self.policy.head_number - staleness)
        tree = load_tree(self.policy, base)
        self._publish(base, [operation(tree, *edit) for edit in edits])

    @rule(which=number, parent=number)
    def restore(self, which: int, parent: int) -> None:
        if self.archived:
            tree = load_tree(self.policy)
            restore = {"op": "restore", "entry": str(self.archived[which % len(self.archived)])}
            self._publish(self.policy.head_number, [restore | {"parent": str(tree.uuid(parent % len(tree)))}])

    @invariant()
    def rows_equal_blobs(self) -> None:
        for number in {1, self.policy.head_number, max(1, self.policy.head_number // 2)}:
            tree = load_tree(self.policy, number)
            check_shape(tree)
            assert tree.same_as(load_tree_from_rows(self.policy, number))


@pytest.mark.django_db
def test_rows_equal_blobs_after_random_publishes() -> None:
    run_state_machine_as_test(EditsPublished, settings=examples(12, steps=10, suppress=HealthCheck))
    assert Policy.objects.filter(head_number__gt=1).exists()


def test_an_invalid_parent_is_rejected() -> None:
    a, b = uuid4(), uuid4()
    with pytest.raises(ValueError, match="not one tree"):
        columns_of([Node(uuid4(), None, "r"), Node(a, b, "a"), Node(b, a, "b")])
    with pytest.raises(Invalid):
        apply_operations(columns_of([Node(a, None, "r")]), [{"op": "rename", "entry": "/", "name": ""}])
