"""The mistakes of `make planted` still fit the code that they are planted in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.planted import PLANTED, Planted

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.name)
def test_each_bug_can_be_planted_once_and_names_its_tests(planted: Planted) -> None:
    source = (ROOT / planted.path).read_text(encoding="utf-8")
    assert planted.text_in(ROOT) not in ("", source)


def test_there_are_twenty_different_bugs() -> None:
    assert len({planted.name for planted in PLANTED}) == len(PLANTED) >= 20
