"""What differs between two trees: each entry once, with its place and its target before and after."""

from __future__ import annotations

from uuid import UUID, uuid5

import numpy as np
import pytest
from hypothesis import given

from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.revision_diff import EntryDifference, TreeDiff, diff_settings, diff_trees
from apps.policies.tree.working_tree import columns_of
from tests.policies.share_trees import trees
from tests.policies.tree.test_difference import POOL, SPACE

ROOT, A, B, C, D = POOL[:5]


def tree_of(*nodes: Node) -> TreeColumns:
    return columns_of([Node(ROOT, None, "root"), *nodes])


def diff(before: TreeColumns, after: TreeColumns, *, hidden: tuple[UUID, ...] = ()) -> TreeDiff:
    masks = []
    for tree in (before, after):
        mask = np.ones(len(tree), dtype=np.bool_)
        mask[[i for i in map(tree.index_of_uid, hidden) if i is not None]] = False
        masks.append(mask)
    return diff_trees(before, after, sees_before=masks[0], sees_after=masks[1])


def rows_by_uid(found: TreeDiff) -> dict[UUID, tuple[str, str, str]]:
    return {row.uid: (row.change, row.path_before, row.path) for row in found.rows()}


def row(found: TreeDiff, uid: UUID) -> EntryDifference:
    return next(each for each in [*found.rows(), *found.kept(99)] if each.uid == uid)


def test_each_kind_of_change_has_both_locations() -> None:
    before = tree_of(Node(A, ROOT, "a"), Node(B, A, "b"), Node(C, ROOT, "c", shares=2.0), Node(D, ROOT, "d"))
    after = tree_of(Node(A, ROOT, "a"), Node(B, ROOT, "b"), Node(C, ROOT, "c", shares=3.0), Node(POOL[5], A, "e"))
    found = diff(before, after)
    assert rows_by_uid(found) == {
        B: ("moved", "/a/b", "/b"),
        C: ("changed", "/c", "/c"),
        POOL[5]: ("added", "", "/a/e"),
        D: ("removed", "/d", ""),
    }
    assert row(found, C).fields == (("shares", 2.0, 3.0),)
    assert found.counts == {"moved": 1, "changed": 1, "added": 1, "removed": 1, "kept": 1}


def test_indirectly_affected_entries_are_listed_by_target_change() -> None:
    before = tree_of(Node(A, ROOT, "a"), Node(B, ROOT, "b"), Node(C, ROOT, "c", shares=8.0))
    after = tree_of(Node(A, ROOT, "a", shares=11.0), Node(B, ROOT, "b"), Node(C, ROOT, "c", shares=8.0))
    found = diff(before, after)
    assert [(each.uid, each.change) for each in found.kept(9)] == [(C, "kept"), (B, "kept")]
    assert row(found, C).target_before == pytest.approx(0.8)
    assert row(found, C).target_after == pytest.approx(0.4)
    assert [each.uid for each in found.kept(1)] == [C]


def test_an_added_or_archived_subtree_is_one_row() -> None:
    small = tree_of(Node(A, ROOT, "a"))
    large = tree_of(Node(A, ROOT, "a"), Node(B, ROOT, "b"), Node(C, B, "c"), Node(D, C, "d"))
    for before, after, change in ((small, large, "added"), (large, small, "removed")):
        (one,) = diff(before, after).rows()
        assert (one.uid, one.change, one.n_below) == (B, change, 2)


def test_invisible_entries_are_counted_but_not_listed() -> None:
    before = tree_of(Node(A, ROOT, "a"), Node(B, ROOT, "b"), Node(C, ROOT, "c"))
    after = tree_of(Node(A, ROOT, "a", shares=5.0), Node(B, ROOT, "b", locked=True))
    found = diff(before, after, hidden=(A, C))
    assert rows_by_uid(found) == {B: ("changed", "/b", "/b")}
    assert found.n_outside == 2


def test_an_entry_visible_at_one_location_only_is_not_listed() -> None:
    before, after = (tree_of(Node(A, ROOT, "a"), Node(B, ROOT, "b"), Node(C, parent, "c")) for parent in (A, B))
    sees_before, sees_after = np.ones(4, dtype=np.bool_), np.ones(4, dtype=np.bool_)
    i = before.index_of_uid(C)
    assert i is not None
    sees_before[i] = False
    found = diff_trees(before, after, sees_before=sees_before, sees_after=sees_after)
    assert rows_by_uid(found) == {}
    assert found.n_outside == 1


@given(trees(pool=POOL, most=10), trees(pool=POOL, most=10))
def test_every_entry_that_differs_is_in_exactly_one_row(before: TreeColumns, after: TreeColumns) -> None:
    found = diff(before, after)
    old, new = ({node.uid: node for node in tree.nodes()} for tree in (before, after))
    differ = {uid for uid in old.keys() | new.keys() if old.get(uid) != new.get(uid)}
    rows = list(found.rows())
    assert sum(1 + each.n_below for each in rows) == len(differ)
    assert {each.uid for each in rows} <= differ
    assert len(rows) == found.n_entries == len({each.uid for each in rows})
    assert not {each.uid for each in found.kept(99)} & differ
    assert found.n_outside == 0
    for start in range(0, len(rows), 3):
        assert list(found.rows(start, start + 3)) == rows[start : start + 3]


@given(trees(pool=POOL, most=10), trees(pool=POOL, most=10))
def test_the_reverse_difference_swaps_before_and_after(before: TreeColumns, after: TreeColumns) -> None:
    there, back = diff(before, after).counts, diff(after, before).counts
    assert (there["added"], there["removed"]) == (back["removed"], back["added"])
    assert (there["moved"], there["changed"], there["kept"]) == (back["moved"], back["changed"], back["kept"])


def test_settings_have_their_full_names() -> None:
    before = {"window": {"half_life_s": 604_800, "length_s": None}, "fallback_factor": 0.5}
    after = {"window": {"half_life_s": 86_400, "length_s": None}, "fallback_factor": 0.5, "review": {"points": 5}}
    assert diff_settings(before, after) == [("window.half_life_s", 604_800, 86_400), ("review.points", None, 5)]
    assert uuid5(SPACE, "0") == ROOT
