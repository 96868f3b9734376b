"""Keys of many vectors at once are those of each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.engine import codecs


@pytest.mark.parametrize("resolution", [2, 10, 11, 10_000])
@pytest.mark.parametrize("more", [0, 2])
def test_keys_of_many_vectors_are_those_of_each(resolution: int, more: int) -> None:
    random = np.random.default_rng(resolution)
    for depth in range(5):
        vectors, lengths = random.integers(0, resolution, (9, depth)), random.integers(0, depth + 1, 9)
        pairs = zip(vectors.tolist(), lengths.tolist(), strict=True)
        expected = [codecs.key_string(vector[:length], depth + more, resolution) for vector, length in pairs]
        assert codecs.key_strings(vectors, lengths, depth + more, resolution) == expected


def test_components_out_of_range_are_written_as_alone() -> None:
    vectors = np.array([[3, -1], [5, 99_999]])
    expected = [codecs.key_string(vector, 2, 1000) for vector in vectors.tolist()]
    assert codecs.key_strings(vectors, np.array([2, 2]), 2, 1000) == expected


@given(st.lists(st.lists(st.integers(-1000, 1000).map(lambda n: n / 10), max_size=4), min_size=2, max_size=6))
def test_grid_keys_sort_as_deviations_do(vectors: list[list[float]]) -> None:
    """Missing levels are on target; deviations are points, −100 to 100."""
    padded = [[*vector, *[0.0] * (4 - len(vector))] for vector in vectors]
    keys = [codecs.grid_key(vector, 4) for vector in vectors]
    assert len({len(key) for key in keys}) == 1
    for one in range(len(vectors)):
        for other in range(len(vectors)):
            assert (keys[one] < keys[other]) == (padded[one] < padded[other])


def test_grid_keys_are_steps_of_a_tenth_of_a_billionth_point_above_minus_100() -> None:
    assert codecs.grid_key([-100.0], 1).strip("0") == ""
    assert int(codecs.grid_key([0.0], 1)) == 10**12
    assert int(codecs.grid_key([1e-10], 1)) == 10**12 + 1
    assert codecs.grid_key([1.0, 2.0], 2) == codecs.grid_key([1.0], 1) + codecs.grid_key([2.0], 1)
    assert codecs.grid_key([1.0], 2) == codecs.grid_key([1.0, 0.0], 2)
    with pytest.raises(ValueError, match="3 deviations don't fit a depth of 2"):
        codecs.grid_key([1.0, 2.0, 3.0], 2)
