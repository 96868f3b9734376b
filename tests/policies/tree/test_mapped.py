"""A tree made from its columns equals the one that was stored, with all that is derived from it."""

from __future__ import annotations

from uuid import UUID

import numpy as np
from hypothesis import given

from apps.policies.tree.columns import TreeColumns, pack_tree, unpack_tree
from apps.policies.tree.mapped import _ENGINE, _SHAPE, columns_of_tree, tree_of_columns
from tests.examples import examples
from tests.policies.share_trees import trees


@examples(60)
@given(trees())
def test_a_tree_of_columns_is_the_stored_one(tree: TreeColumns) -> None:
    stored = unpack_tree(*pack_tree(tree))
    again = tree_of_columns(*columns_of_tree(stored), stored.digest)
    assert again.same_as(stored)
    assert pack_tree(again) == pack_tree(stored)
    for name in ("n_children", "first_child", "is_reserve", "level_starts"):
        assert np.array_equal(getattr(again, name), getattr(stored, name))
    assert [again.index_of_uid(stored.uuid(at)) for at in range(len(stored))] == list(range(len(stored)))
    assert again.index_of_uid(UUID(int=1)) is None
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
