"""The fast order of numbers is the stable one."""

from __future__ import annotations

import numpy as np
import pytest

from apps.core.sorting import stable_order


@pytest.mark.parametrize("n_values", [1, 2, 10, 1_000, 1_000_000])
@pytest.mark.parametrize("n", [0, 1, 2, 50, 3_000])
def test_equal_numbers_keep_their_order(n: int, n_values: int) -> None:
    numbers = np.random.default_rng(n).integers(0, n_values, n).astype(np.uint64)
    assert stable_order(numbers).tolist() == numbers.argsort(kind="stable").tolist()
