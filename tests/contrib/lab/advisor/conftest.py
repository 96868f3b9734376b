from __future__ import annotations

import pytest

from tests.contrib.lab.advisor.site import measure_little
from tests.priority_site import Site, _clock, make_site  # noqa: F401 - fixtures


@pytest.fixture(autouse=True)
def _few_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    measure_little(monkeypatch)


@pytest.fixture
def site(history_site: Site) -> Site:
    """With weeks of jobs, and no advice yet."""
    return history_site


@pytest.fixture
def advised(advised_site: Site) -> Site:
    """Its advice is computed."""
    return advised_site
