"""Texts about what a change of shares moves."""

from __future__ import annotations

import pytest

from apps.web.texts.rank_moves import other_targets_text


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ([], ""),
        ([0.0, 0.0], ""),
        ([-0.038, -0.038, 0.0], "2 other targets drop by 3.8\u00a0%"),
        ([0.5], "1 other target rises by 50.0\u00a0%"),
        ([-1.0], "1 other target drops by 100.0\u00a0%"),
        ([0.1, -0.2, -0.2], "2 other targets drop by 20.0\u00a0%"),
        ([-0.00002], "1 other target drops by 0.002\u00a0%"),
    ],
)
def test_other_targets_are_counted_in_the_direction_of_the_largest_change(changes: list[float], text: str) -> None:
    assert other_targets_text(changes) == text
