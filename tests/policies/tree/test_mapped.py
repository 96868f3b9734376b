"""A tree made from its columns equals the one that was stored, with all that is derived from it."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from unittest.mock import patch
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.engine.algorithms.inputs import prepare
from apps.policies.files.document import read_document
from apps.policies.tree import columns
from apps.policies.tree.columns import TreeColumns, pack_tree, unpack_tree
from apps.policies.tree.mapped import _ENGINE, _SHAPE, columns_of_tree, tree_of_columns
from tests.examples import examples
from tests.policies.share_trees import trees


@examples(60)
@given(trees(), st.booleans())
def test_a_tree_of_columns_is_the_stored_one(tree: TreeColumns, is_large: bool) -> None:
    most = 0 if is_large else len(tree)
    with patch.object(columns, "_MOST_OBJECTS", most), patch.object(columns, "_PATHS_AT_ONCE", 3):
        stored = unpack_tree(*pack_tree(tree))
        again = tree_of_columns(*columns_of_tree(stored), stored.digest)
    assert ("all_paths" in vars(again)) is is_large
    assert again.same_as(stored)
    assert pack_tree(again) == pack_tree(stored)
    for name in ("n_children", "first_child", "is_reserve", "level_starts"):
        assert np.array_equal(getattr(again, name), getattr(stored, name))
    assert [again.index_of_uid(stored.uuid(at)) for at in range(len(stored))] == list(range(len(stored)))
    assert again.index_of_uid(UUID(int=1)) is None
    plain = unpack_tree(*pack_tree(tree))
    paths = [plain.path(at) for at in range(len(plain))]
    assert "all_paths" not in vars(plain)
    assert (
        [again.path(at) for at in range(len(again))] == paths == again.paths(again.places) == plain.paths(plain.places)
    )
    ours, theirs = again.engine_tree(), stored.engine_tree()
    pairs = [(ours, theirs), (ours.competition.tree, theirs.competition.tree)]
    for one, other in pairs:
        for name in (*_SHAPE, *_ENGINE):
            assert getattr(one, name).dtype == getattr(other, name).dtype
            assert np.array_equal(getattr(one, name), getattr(other, name))
    assert ours.competition.is_whole == theirs.competition.is_whole
    assert np.array_equal(ours.competition.entry, theirs.competition.entry)
    assert np.array_equal(ours.competition.seat, theirs.competition.seat)
    assert ours.seniority is not None
    assert theirs.seniority is not None
    assert np.array_equal(ours.seniority(), theirs.seniority())


@pytest.fixture
def collector_off() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("is_mapped", [False, True])
@pytest.mark.usefixtures("collector_off")
def test_a_tree_is_freed_at_once(is_mapped: bool) -> None:
    """With all that was computed of it: drafts of a large tree would wait for the garbage collector."""
    root = {"name": "p", "children": [{"name": "a", "shares": 1}, {"name": "b", "shares": 3}]}
    tree = unpack_tree(*pack_tree(read_document({"policy": "p", "root": root}).tree))
    if is_mapped:
        tree = tree_of_columns(*columns_of_tree(tree), tree.digest)
    engine_tree = tree.engine_tree()
    assert prepare(engine_tree).has_leaf.all()
    tree_there, engine_there = weakref.ref(tree), weakref.ref(engine_tree)
    del tree, engine_tree
    assert tree_there() is None
    assert engine_there() is None


def test_what_was_computed_of_a_freed_tree_can_be_computed_again() -> None:
    root = {"name": "p", "children": [{"name": "a", "shares": 1}, {"name": "b", "shares": 3}]}
    tree = unpack_tree(*pack_tree(read_document({"policy": "p", "root": root}).tree))
    engine_tree = tree.engine_tree()
    before = prepare(engine_tree)
    del tree
    again = prepare(engine_tree)
    assert again is not before
    assert again.target.tolist() == before.target.tolist() == [1.0, 0.25, 0.75]
