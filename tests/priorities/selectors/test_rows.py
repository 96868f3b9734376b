"""Rows of many entries, made by columns, are those of each entry alone."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.actor import COMMAND
from apps.engine.algorithms import all_algorithms
from apps.policies.access.scope import Visibility
from apps.policies.models import Policy
from apps.priorities.selectors import row_columns
from apps.priorities.selectors.rows import PolicyView
from tests.examples import examples
from tests.priorities.serving.test_identities import _TREE
from tests.priorities.serving.test_leaf_lines import AS_OF, _snapshot


@examples(120)
@given(st.sampled_from([None, *sorted(all_algorithms())]), st.integers(0, 999), st.sampled_from([3, 2_000]))
def test_rows_by_columns_are_those_of_each_entry(algorithm: str | None, seed: int, block: int) -> None:
    generator, n = np.random.default_rng(seed), len(_TREE)
    masks = generator.random((7, n)) < generator.choice([0.5, 0.9, 1], (7, 1))
    served = _snapshot(algorithm or "aequus", [], [], seed)
    corrected = {"entry": str(_TREE.uuid(3)), "counted": -1.5}
    snapshot = None if algorithm is None else replace(served, meta={**served.meta, "corrections": [corrected] * 2})
    tree = _TREE.with_values(inherit=~masks[6] & (_TREE.parent > 0), scope_sources={2: ("a", "b")})
    view = PolicyView(Policy(slug="grid"), 1, served.settings, tree, snapshot, COMMAND, AS_OF)
    place = np.where(masks[5], np.arange(n), -1)
    vars(view).update(
        visibility=Visibility(tree, masks[0], masks[1], True, masks[2], masks[3], masks[4]),
        shows_numbers=masks[4] & (place >= 0) & (snapshot is not None),
        _index_in_snapshot=place,
    )
    entries, size = generator.permutation(n), generator.integers(1, 9, n)
    with patch.object(row_columns, "_BLOCK", block):
        rows = list(row_columns.each_row(view, entries, place=size - 1, size=size, is_open=masks[6]))
    alone = [
        view.row(entry, position=(int(of) - 1, int(of)), is_open=bool(is_open))
        for entry, of, is_open in zip(entries.tolist(), size, masks[6], strict=True)
    ]
    assert rows == alone
    assert list(map(repr, rows)) == list(map(repr, alone)), "numbers of Python, which files write"
