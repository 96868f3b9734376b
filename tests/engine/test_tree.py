"""Trees from columns in any order, and what is refused."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.engine.algorithms import compute
from apps.engine.arrays import CHUNK
from apps.engine.errors import BadTree
from apps.engine.tree import MAX_DEPTH, FairshareTree
from tests.examples import examples


@st.composite
def parents(draw: st.DrawFn) -> list[int]:
    """Parents of a random tree with row 0 the root."""
    n = draw(st.integers(1, 30))
    return [-1] + [draw(st.integers(0, row - 1)) for row in range(1, n)]


@examples(150)
@given(parent=parents(), data=st.data())
def test_rows_in_any_order_give_the_same_tree(parent: list[int], data: st.DataObject) -> None:
    n = len(parent)
    rows = data.draw(st.permutations(range(n)))  # row rows[i] of the shuffled columns is row i of ours
    shuffled: list[Any] = [None] * n
    for row, new in enumerate(rows):
        shuffled[new] = {
            "parent": -1 if parent[row] < 0 else rows[parent[row]],
            "shares": float(row) if row % 4 else float("nan"),
            "name": str(row),
        }
    tree, order = FairshareTree.from_columns(
        [row["parent"] for row in shuffled],
        [row["shares"] for row in shuffled],
        names=[row["name"] for row in shuffled],
    )
    assert sorted(order.tolist()) == list(range(n))
    assert tree.names is not None
    ours = [int(name) for name in tree.names]
    assert [shuffled[row]["name"] for row in order] == list(tree.names)
    assert (tree.parent < np.arange(n)).all()
    for entry, row in enumerate(ours):
        assert entry == 0 or ours[tree.parent[entry]] == parent[row]
        children = range(tree.first_child[entry], tree.first_child[entry] + tree.child_count[entry])
        assert sorted(ours[child] for child in children) == [c for c in range(n) if parent[c] == row]
        assert bool(tree.inherits[entry]) == (row % 4 == 0 and entry > 0)
        assert tree.is_group[entry] == (entry == 0 or tree.child_count[entry] > 0)
    depth_of = [0] * n
    for entry in range(1, n):
        depth_of[entry] = depth_of[tree.parent[entry]] + 1
    assert depth_of == sorted(depth_of)
    assert tree.depth == max(depth_of)


@given(parent=parents())
def test_breadth_first_rows_keep_their_order(parent: list[int]) -> None:
    tree, _ = FairshareTree.from_columns(parent, np.ones(len(parent)))
    again, order = FairshareTree.from_columns(tree.parent, tree.shares)
    assert order.tolist() == list(range(len(parent)))
    for name in ("parent", "first_child", "child_count", "level_offsets"):
        assert getattr(again, name).tolist() == getattr(tree, name).tolist(), name


def test_siblings_keep_the_order_of_their_rows() -> None:
    tree, order = FairshareTree.from_columns([2, 2, -1, 1, 1, 0], np.ones(6))
    assert order.tolist() == [2, 0, 1, 5, 3, 4]
    assert tree.level_offsets.tolist() == [0, 1, 3, 6]


def test_a_chain_of_64_levels_is_allowed_and_the_65th_refused() -> None:
    chain = np.arange(-1, MAX_DEPTH)
    tree, _ = FairshareTree.from_columns(chain, np.ones(len(chain)))
    assert tree.depth == MAX_DEPTH
    with pytest.raises(BadTree, match="at most 64 levels") as refused:
        FairshareTree.from_columns(np.arange(-1, MAX_DEPTH + 1), np.ones(MAX_DEPTH + 2))
    assert refused.value.row == MAX_DEPTH


@pytest.mark.parametrize(
    ("parent", "message", "row"),
    [
        ([-1, 2, 1, 0], "cycle", 1),
        ([-1, 0, 2], "cycle", 2),
        ([-1, 0, -1], "one root", 2),
        ([1, 0], "one root", None),
        ([], "one root", None),
        ([-1, 7], "isn't among the rows", 1),
    ],
)
def test_rows_that_form_no_tree_are_rejected_by_row(parent: list[int], message: str, row: int | None) -> None:
    with pytest.raises(BadTree, match=message) as refused:
        FairshareTree.from_columns(parent, np.ones(len(parent)))
    assert refused.value.row == row


@pytest.mark.parametrize("shares", [-1.0, float("inf"), float("-inf")])
def test_invalid_shares_are_rejected_by_row(shares: float) -> None:
    with pytest.raises(BadTree, match="≥ 0") as refused:
        FairshareTree.from_columns([1, -1, 1], [2.0, 1.0, shares])
    assert refused.value.row == 2


def test_nan_shares_are_rejected_with_an_inherit_mask() -> None:
    with pytest.raises(BadTree, match="≥ 0"):
        FairshareTree.from_columns([-1, 0], [1.0, float("nan")], inherits=[False, False])
    tree, _ = FairshareTree.from_columns([-1, 0], [1.0, -5.0], inherits=[False, True])
    assert tree.inherits.tolist() == [False, True]
    assert tree.shares.tolist() == [1.0, 0.0]


def test_a_reserve_has_no_children_and_is_not_the_root() -> None:
    with pytest.raises(BadTree, match="a reserve has no children") as refused:
        FairshareTree.from_columns([-1, 0, 1], np.ones(3), is_reserve=[False, True, False])
    assert refused.value.row == 1
    with pytest.raises(BadTree, match="root"):
        FairshareTree.from_columns([-1], [1.0], is_reserve=[True])


def test_arrays_of_a_tree_are_read_only() -> None:
    tree, _ = FairshareTree.from_columns([-1, 0], [1.0, 2.0])
    with pytest.raises(ValueError, match="read-only"):
        tree.shares[1] = 3.0


def test_paths_consist_of_names() -> None:
    tree, _ = FairshareTree.from_columns([-1, 0, 1], np.ones(3), names=["root", "physics", "alice"])
    assert [tree.path(entry) for entry in range(3)] == ["/", "/physics", "/physics/alice"]


@pytest.mark.deep
def test_an_unreferenced_tree_is_released() -> None:
    """What was worked out of a tree must not keep it: a service sees a new one with every revision."""
    tree, _ = FairshareTree.from_columns([-1, 0, 0], [1.0, 1.0, 2.0], is_user=[False, True, True])
    for name in ("aequus", "slurm-fair-tree"):
        compute(tree, np.array([0.0, 3.0, 0.0]), algorithm=name)
    kept = weakref.ref(tree)
    del tree
    gc.collect()
    assert kept() is None


def test_siblings_are_listed_by_seniority_group_by_group() -> None:
    """Groups 1 and 2 of the root, with the users 3, 4, 5 of group 1 and 6, 7 of group 2."""
    parent, shares = [-1, 0, 0, 1, 1, 1, 2, 2], np.ones(8)

    def listed(*ranks: int) -> list[list[int]] | None:
        tree, _order = FairshareTree.from_columns(parent, shares, seniority=lambda: np.array(ranks))
        return None if tree.listed is None else [entries.tolist() for entries in tree.listed]

    assert listed(0, 2, 1, 30, 10, 20, 2, 1) == [[2, 1], [4, 5, 3, 7, 6]]
    assert listed(0, 1, 2, 1, 2, 3, 2, 1) == [[1, 2], [3, 4, 5, 7, 6]]
    assert listed(0, 5, 7, 1, 2, 2, 0, 9) is None
    assert FairshareTree.from_columns(parent, shares)[0].listed is None
    assert (
        FairshareTree.from_columns(parent, shares, seniority=lambda: np.arange(8))[0].with_shares(shares).listed is None
    )


def test_chunks_of_a_level_are_whole_groups_in_order() -> None:
    for sizes in ([3] * 20_000, [CHUNK + 1, 1, 2 * CHUNK], [3 * CHUNK] * 3, [1] * (3 * CHUNK), [5]):
        parent = np.concatenate([[-1], np.zeros(len(sizes), dtype=int), np.repeat(np.arange(len(sizes)) + 1, sizes)])
        tree, _order = FairshareTree.from_columns(parent, np.ones(len(parent)))
        level = tree.levels[1]
        chunks = list(level.chunks())
        n_groups, n_entries = len(sizes), sum(sizes)
        groups = [groups.indices(n_groups) for groups, _entries in chunks]
        assert [first for first, _last, _step in groups] == [0, *(last for _first, last, _step in groups[:-1])]
        assert groups[-1][1] == n_groups
        for of_groups, of_entries in chunks:
            first, last, _step = of_groups.indices(n_groups)
            assert of_entries.indices(n_entries)[:2] == (sum(sizes[:first]), sum(sizes[:last]))
            assert last - first == 1 or sum(sizes[first:last]) <= 2 * CHUNK + max(sizes)
        assert len(chunks) > 1 or n_entries <= CHUNK or n_groups == 1
