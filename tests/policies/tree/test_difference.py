"""From any tree to any other by operations that are allowed one after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID, uuid5

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from apps.policies.operations.apply import apply_operations
from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.difference import operations_between, sibling_targets
from apps.policies.tree.working_tree import columns_of
from tests.policies.share_trees import trees

SPACE = UUID("6f9619ff-8b86-4011-b42d-00c04fc964ff")
POOL = [uuid5(SPACE, str(i)) for i in range(10)]
ROOT, A, B, C, D = POOL[:5]


def led_to(before: TreeColumns, after: TreeColumns, lost: Sequence[Node] = ()) -> list[str]:
    def archived(uid: UUID) -> list[Node]:
        return [node for node in lost if node.uid == uid]

    operations = operations_between(before, after, archived=archived)
    if operations:
        outcome = apply_operations(before, operations, archived=archived)
        assert outcome.tree.same_as(after)
    else:
        assert before.same_as(after)
    return [operation["op"] for operation in operations]


@given(trees(pool=POOL, most=10), trees(pool=POOL, most=10))
def test_operations_transform_any_tree_into_any_other(before: TreeColumns, after: TreeColumns) -> None:
    led_to(before, after)


@given(trees())
def test_equal_trees_have_no_difference(tree: TreeColumns) -> None:
    assert operations_between(tree, columns_of(tree.nodes())) == []


@given(trees(pool=POOL, most=10), trees(pool=POOL, most=10), st.data())
def test_former_entries_are_restored_with_their_uid(
    before: TreeColumns, after: TreeColumns, data: st.DataObject
) -> None:
    gone = [node for node in after.nodes() if before.index_of_uid(node.uid) is None]
    lost = [replace(node, name=f"old {i}", shares=3.0) for i, node in enumerate(gone) if data.draw(st.booleans())]
    kinds = led_to(before, after, lost)
    assert kinds.count("restore") == len(lost)


def tree_of(*nodes: Node) -> TreeColumns:
    return columns_of([Node(ROOT, None, "root"), *nodes])


def test_two_entries_can_swap_their_names() -> None:
    before = tree_of(Node(A, ROOT, "a"), Node(B, ROOT, "b"))
    assert led_to(before, tree_of(Node(A, ROOT, "b"), Node(B, ROOT, "a"))) == ["rename", "rename", "rename"]


def test_a_parent_and_its_child_swap_without_a_cycle() -> None:
    before = tree_of(Node(A, ROOT, "a"), Node(B, A, "b"))
    assert led_to(before, tree_of(Node(B, ROOT, "b"), Node(A, B, "a"))) == ["move", "move"]


def test_entries_are_moved_out_before_their_parent_is_archived() -> None:
    before = tree_of(Node(A, ROOT, "a"), Node(B, A, "b"), Node(C, A, "c"))
    assert led_to(before, tree_of(Node(B, ROOT, "a"))) == ["archive", "rename", "move", "archive"]


def test_archiving_a_whole_subtree_is_one_operation() -> None:
    before = tree_of(Node(A, ROOT, "a"), Node(B, A, "b"), Node(C, B, "c"), Node(D, ROOT, "d"))
    assert led_to(before, tree_of(Node(D, ROOT, "d"))) == ["archive"]


def test_a_group_becomes_a_reserve_after_its_children_have_left() -> None:
    before = tree_of(Node(A, ROOT, "a"), Node(B, A, "b"))
    after = tree_of(Node(A, ROOT, "a", "reserve", 2.0, is_group=False), Node(B, ROOT, "b"))
    assert led_to(before, after) == ["set_shares", "move", "set_kind"]


def test_children_of_an_entry_that_inherits_have_targets_one_level_up() -> None:
    tree = tree_of(Node(A, ROOT, "a", shares=70), Node(B, ROOT, "b", shares=None), Node(C, B, "c", shares=40))
    found = {tree.path(i): target for i, target in enumerate(sibling_targets(tree).tolist())}
    assert found["/a"] == 70 / 110
    assert found["/b/c"] == 40 / 110
    assert math.isnan(found["/b"])
    assert math.isnan(found["/"])


@given(trees(pool=POOL, most=10))
def test_targets_are_shares_among_competitors(tree: TreeColumns) -> None:
    def competing(parent: UUID) -> list[Node]:
        children = [node for node in tree.nodes() if node.parent_uid == parent]
        return [each for node in children for each in (competing(node.uid) if node.shares is None else [node])]

    wanted = np.full(len(tree), np.nan)
    for node in tree.nodes():
        if node.parent_uid is None or node.shares is not None:
            rivals = competing(node.uid)
            total = sum(each.shares or 0.0 for each in rivals)
            for each in rivals:
                at = tree.index_of_uid(each.uid)
                assert at is not None
                wanted[at] = (each.shares or 0.0) / total if total else 0.0
    np.testing.assert_allclose(sibling_targets(tree), wanted, rtol=1e-12)
