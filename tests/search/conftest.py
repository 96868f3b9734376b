"""The clock is at AT; a grid that all users see, and one that shows people their own path."""

from __future__ import annotations

import pytest

from tests.instants import AT


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
