"""Numbers of subtrees, combined from the leaves to the root."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.policies.tree.columns import TreeColumns
from tests.policies.share_trees import trees


@pytest.mark.parametrize(("combine", "of_all"), [(np.add, sum), (np.minimum, min), (np.maximum, max)])
@given(tree=trees(most=20), data=st.data())
def test_each_entry_has_the_number_of_its_subtree(
    combine: np.ufunc, of_all: Callable[[list[int]], int], tree: TreeColumns, data: st.DataObject
) -> None:
    own = data.draw(st.lists(st.integers(-9, 9), min_size=len(tree), max_size=len(tree)))
    numbers = np.array(own)
    tree.combine_up(combine, numbers)
    subtrees = [[own[j] for level in tree.subtree(i) for j in level] for i in range(len(tree))]
    assert numbers.tolist() == [of_all(subtree) for subtree in subtrees]
