from __future__ import annotations

from typing import Any

import pytest

from apps.priorities.serving import store
from tests.contrib.schedulers.reports import report
from tests.lock_order import _one_order_of_locks, lock_watch  # noqa: F401 - fixtures
from tests.rest_site import Caller
from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture


@pytest.fixture
def site(computed_site: Site) -> Site:
    store.poll()
    return computed_site


@pytest.fixture
def connected(scheduled_site: Site, site: Site) -> Site:
    """With the scheduler c1 in mode *on*."""
    return site


@pytest.fixture
def agent(connected: Site) -> Caller:
    return Caller(token=connected.token("schedulers", "priorities:read", policy_slug="grid"))


@pytest.fixture
def manager(connected: Site) -> Caller:
    return Caller(token=connected.token("policies:read", "policies:write"))


@pytest.fixture
def reported(agent: Caller) -> dict[str, Any]:
    """One pass with a queue."""
    sent = report()
    answer = agent.post("schedulers/c1/passes", sent)
    assert answer.status_code == 200, answer.content
    return sent
