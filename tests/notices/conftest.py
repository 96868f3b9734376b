from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from apps.priorities import served
from tests.api.small_site import Site, build_site

AT = datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _fresh_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
    served.forget()
    yield
    served.forget()


@pytest.fixture
def site(db: None) -> Site:
    return build_site(AT)


@pytest.fixture
def computed(site: Site) -> Site:
    site.recompute()
    return site
