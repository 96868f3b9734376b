from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.worlds import AT, forget_process


@pytest.fixture(autouse=True)
def _fresh_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
    forget_process()
    yield
    forget_process()
