"""How a function that makes a world becomes the fixture of its name."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from typing import Any

import pytest

from tests.databases import World, copied
from tests.instants import AT

MAKERS: dict[str, Callable[[], Any]] = {}
SHARED: set[str] = set()
_EXTENDED: dict[str, str] = {}


def world(make: Callable[[], Any], *, extends: str = "", is_shared: bool = False) -> Any:
    """The fixture of a test that begins in this world: a copy of what the function returned.

    extends: the world that this one has more than. is_shared: takes long, returns nothing and leaves nothing outside
    its database: made once a run.
    """
    MAKERS[make.__name__] = make
    _EXTENDED[make.__name__] = extends
    if is_shared:
        SHARED.add(make.__name__)

    @pytest.fixture(name=make.__name__)
    def made(db: None, world_of_test: World, monkeypatch: pytest.MonkeyPatch) -> Any:
        if "FAIRSHARE_CLOCK" not in os.environ:  # else the test is at another instant
            monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
        return copied(world_of_test.made)

    return made


def named_by(fixtures: Collection[str]) -> str | None:
    """The world of a test with these fixtures: of one and another that extends it, the latter."""
    named = {name for name in MAKERS if name in fixtures}
    left = sorted(named - {_EXTENDED[name] for name in named})
    assert len(left) <= 1, f"A test has one world, not {left}."
    return left[0] if left else None
