"""Keys of many vectors at once are those of each."""

from __future__ import annotations

import numpy as np
import pytest

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
