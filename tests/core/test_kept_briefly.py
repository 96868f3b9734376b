"""What is kept briefly is made once while it is asked for, and gone after a minute."""

from __future__ import annotations

from unittest.mock import patch

from apps.core import kept_briefly
from apps.core.kept_briefly import KeptBriefly


def made_of(kept: KeptBriefly[str], key: str, *, size: float = 1.0) -> int:
    """How often it was made for this call."""
    made: list[str] = []

    def make() -> str:
        made.append(key)
        return key.upper()

    assert kept.get(key, make, size=size) == key.upper()
    return len(made)


def test_it_is_made_once_and_the_oldest_goes_first() -> None:
    kept: KeptBriefly[str] = KeptBriefly(3)
    assert [made_of(kept, key) for key in "aabbacc"] == [1, 0, 1, 0, 0, 1, 0]
    assert made_of(kept, "large", size=2) == 1
    assert [made_of(kept, key) for key in ("large", "c")] == [0, 0], "a and b made room"
    assert [made_of(kept, "huge", size=4), made_of(kept, "huge", size=4)] == [1, 1]
    kept.clear()
    assert made_of(kept, "c") == 1


def test_nothing_stays_for_long() -> None:
    with patch.object(kept_briefly, "KEPT_S", 0.0):
        kept: KeptBriefly[str] = KeptBriefly(3)
        assert [made_of(kept, "a"), made_of(kept, "a")] == [1, 1]
        kept_briefly.drop_old()
        assert len(kept._kept) == 0
