"""Comparing two trees with the same entries copies no column: a million entries take 8 MB for each."""

from __future__ import annotations

from uuid import UUID

import numpy as np

from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.revision_diff import compare_targets
from apps.policies.tree.working_tree import columns_of
from apps.priorities.recompute.comparison import ComputedTree, compare, matching_indexes
from apps.priorities.recompute.totals import Totals

ROOT, PHYSICS, BIOLOGY, ALICE, BOB = (UUID(int=number) for number in range(1, 6))


def tree_of(*, alice: UUID = PHYSICS, shares: float = 1.0) -> TreeColumns:
    nodes = [Node(ROOT, None, "root"), Node(PHYSICS, ROOT, "physics", shares=shares), Node(BIOLOGY, ROOT, "biology")]
    users = [Node(ALICE, alice, "alice", kind="user", is_group=False)]
    users.append(Node(BOB, BIOLOGY, "bob", kind="user", is_group=False))
    return columns_of([*nodes, *users])


def totals_of(tree: TreeColumns) -> Totals:
    usage = {"/": 5.0, "/physics": 3.0, "/biology": 2.0, "/physics/alice": 3.0, "/biology/bob": 2.0}
    column = np.array([usage[tree.path(i)] for i in range(len(tree))])
    return Totals(tree, column, column.copy())


def test_totals_of_a_tree_with_other_shares_are_the_same_columns() -> None:
    totals = totals_of(tree_of())
    carried = totals.carried_to(tree_of(shares=2.0))
    assert carried.usage is totals.usage
    assert carried.group_usage is totals.group_usage


def test_totals_follow_an_entry_that_moves() -> None:
    after = tree_of(alice=BIOLOGY)
    carried = totals_of(tree_of()).carried_to(after)
    of_path = {after.path(i): usage for i, usage in enumerate(carried.usage.tolist())}
    assert of_path == {"/": 5.0, "/physics": 0.0, "/biology": 5.0, "/biology/alice": 3.0, "/biology/bob": 2.0}


def test_trees_with_the_same_entries_are_compared_at_their_own_places() -> None:
    before, after = tree_of(), tree_of(shares=2.0)
    results = [totals_of(tree).compute({"name": "aequus"}) for tree in (before, after)]
    compared = compare(ComputedTree(before, results[0]), ComputedTree(after, results[1]))
    assert compared.uid is after.uid
    assert compared.before.index is compared.after.index is after.places is matching_indexes(after, before)
    ranks = [result.rank.tolist() for result in results]
    assert [compared.before.rank.tolist(), compared.after.rank.tolist()] == ranks
    assert ranks[0] != ranks[1]


def test_targets_of_trees_with_the_same_entries_are_compared_at_their_own_places() -> None:
    before, after = tree_of(), tree_of(shares=3.0)
    changes = compare_targets(before, after)
    assert changes.place is after.places
    old, new = (
        {after.path(i): target for i, target in enumerate(side.tolist())} for side in (changes.old, changes.new)
    )
    assert (old["/physics"], new["/physics"]) == (0.5, 0.75)
    assert (old["/biology"], new["/biology"]) == (0.5, 0.25)
    assert np.isnan(changes.old[0])
