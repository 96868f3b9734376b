from __future__ import annotations

from collections.abc import Iterator

import pytest

from apps.priorities.serving import store
from tests.api.small_site import Site
from tests.worlds import AT, forget_process


@pytest.fixture(autouse=True)
def _fresh_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
    forget_process()
    yield
    forget_process()


@pytest.fixture
def site(small_site: Site) -> Site:
    return small_site


@pytest.fixture
def computed(computed_site: Site) -> Site:
    store.poll()
    return computed_site
