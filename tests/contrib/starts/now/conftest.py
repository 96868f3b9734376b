from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from apps.priorities.serving import store
from tests.instants import AT
from tests.lock_order import _one_order_of_locks, lock_watch  # noqa: F401 - fixtures
from tests.small_site import Site, push
from tests.worlds import fresh_process  # noqa: F401 - fixture

Pushed = Callable[..., None]


@pytest.fixture
def site(computed_site: Site) -> Site:
    store.poll()
    return computed_site


def waited_job(job: str, user: str, group: str, wait_s: float, start_at: datetime, **more: Any) -> dict[str, Any]:
    """A job of one core that waited so long, and ran for ten minutes."""
    instants = {
        "submit": start_at - timedelta(seconds=wait_s),
        "start": start_at,
        "end": start_at + timedelta(minutes=10),
    }
    times = {name: at.strftime("%Y-%m-%dT%H:%M:%SZ") for name, at in instants.items()}
    return {"job": job, "user": user, "group": group, "cpus": 1, **times, **more}


@pytest.fixture
def waited(site: Site) -> Site:
    """physics: alice 5 jobs of 60 s … 300 s, bob 2 of 0 s, and 5 of 20 s a week before; biology: carol 3 of an hour."""
    jobs = [waited_job(f"a{n}", "alice", "physics", 60 * n, AT - timedelta(hours=2 * n)) for n in range(1, 6)]
    jobs += [waited_job(f"b{n}", "bob", "physics", 0, AT - timedelta(hours=30 + n)) for n in range(2)]
    jobs += [waited_job(f"c{n}", "bob", "physics", 20, AT - timedelta(days=9, hours=n)) for n in range(5)]
    jobs += [waited_job(f"d{n}", "carol", "biology", 3_600, AT - timedelta(hours=50 + n)) for n in range(3)]
    push(site, jobs)
    return site
