"""Leaves are written in blocks as they would be one by one."""

from __future__ import annotations

from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.policies.files import document_walk
from apps.policies.files.document_walk import walk_document
from apps.policies.tree.columns import TreeColumns
from tests.policies.formats.round_trip import text_of_tree
from tests.policies.share_trees import trees

ONE_BY_ONE = 1_000_000


def texts(tree: TreeColumns, *, few: int, at_once: int = 2) -> dict[str, str]:
    with patch.object(document_walk, "_FEW", few), patch.object(document_walk, "_LEAVES_AT_ONCE", at_once):
        return {name: text_of_tree(name, tree) for name in ("json", "yaml")}


@given(tree=trees(most=20), at_once=st.integers(1, 5))
def test_blocks_of_leaves_are_written_as_leaves_one_by_one(tree: TreeColumns, at_once: int) -> None:
    assert texts(tree, few=1, at_once=at_once) == texts(tree, few=ONE_BY_ONE)


@pytest.mark.parametrize("few", [1, ONE_BY_ONE])
@given(tree=trees(most=20))
def test_each_entry_comes_once_and_each_group_ends(few: int, tree: TreeColumns) -> None:
    with patch.object(document_walk, "_FEW", few):
        steps = [step for step, _level in walk_document(tree)]
    entries = [i for step in steps for i in ([step] if isinstance(step, int) else step.tolist()) if i >= 0]
    assert sorted(entries) == list(range(len(tree)))
    assert sum(isinstance(step, int) and step < 0 for step in steps) == int(tree.is_group.sum())
