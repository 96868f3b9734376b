from __future__ import annotations

from typing import Any

import pytest

from apps.priorities.serving import store
from tests.contrib.notices.notices_site import forget_queued_runs
from tests.federation.conftest import feed, mounted, policy, side, subscription, vo  # noqa: F401 - fixtures
from tests.lock_order import _one_order_of_locks  # noqa: F401 - fixture
from tests.lock_order import watch_of_changes as lock_watch  # noqa: F401 - fixture
from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture


@pytest.fixture
def site(small_site: Site) -> Site:
    forget_queued_runs()
    return small_site


@pytest.fixture
def computed(computed_site: Site) -> Site:
    store.poll()
    forget_queued_runs()
    return computed_site


@pytest.fixture
def notified(notices_site: Site, settings: Any) -> Site:
    settings.FAIRSHARE_EMAIL, settings.FAIRSHARE_URL = "smtp", "https://fairshare.example.org"
    settings.FAIRSHARE_SITE, settings.DEFAULT_FROM_EMAIL = "abisko", "Fairshare <fairshare@example.org>"
    store.poll()
    return notices_site
