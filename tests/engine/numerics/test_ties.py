"""Shares and usage that are equal within the tolerance are balanced."""

from __future__ import annotations

import numpy as np
import pytest

from apps.engine.numerics.ties import balance
from apps.engine.operators import ON_TARGET_TOLERANCE


@pytest.mark.parametrize("sign", [1, -1])
def test_a_gap_within_the_tolerance_is_no_imbalance(sign: int) -> None:
    gap = sign * ON_TARGET_TOLERANCE * np.array([0.9, 1.1])
    root, inside, outside = balance(np.array([1.0, 0.5, 0.5]), np.array([1.0, *(0.5 - 0.5 * gap)]))
    assert (root, inside) == (0.0, 0.0)
    assert outside == pytest.approx(gap[1] / 2, rel=1e-3)
