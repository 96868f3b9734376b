from __future__ import annotations

import pytest

from apps.core.counts import counted


@pytest.mark.parametrize(
    ("n", "nouns", "text"),
    [
        (0, ("record",), "0 records"),
        (1, ("record",), "1 record"),
        (2000, ("record",), "2,000 records"),
        (1, ("entry", "entries"), "1 entry"),
        (3, ("entry", "entries"), "3 entries"),
    ],
)
def test_one_thing_is_singular(n: int, nouns: tuple[str, ...], text: str) -> None:
    assert counted(n, *nouns) == text
