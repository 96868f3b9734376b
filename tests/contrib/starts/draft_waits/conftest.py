from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from apps.accounts.actor import SYSTEM
from apps.contrib.schedulers.services import connect_scheduler
from apps.policies.models import ChangeSet
from apps.policies.records import NewChangeSet
from apps.policies.services import make_change_set
from apps.priorities.serving import store
from tests.contrib.schedulers.reports import job, report
from tests.instants import AT
from tests.lock_order import _one_order_of_locks, lock_watch  # noqa: F401 - fixtures
from tests.rest_site import Caller
from tests.small_site import Site
from tests.worlds import fresh_process  # noqa: F401 - fixture

Listed = Callable[..., Site]
BATCH = {"name": "batch", "up": True, "limit_s": 86_400, "cpus": 8, "cpus_free": 8, "nodes": 2, "nodes_down": 0,
         "nodes_drained": 0, "gpus": {}, "gpus_free": {}}  # fmt: skip
MACHINE: dict[str, Any] = {"running": [], "partitions": [BATCH]}


@pytest.fixture
def site(computed_site: Site) -> Site:
    store.poll()
    return computed_site


def hour_job(number: int, user: str, group: str, **more: Any) -> dict[str, Any]:
    """On all of the machine, so that jobs run one after the other."""
    return job(str(number), user, group, cpus=8, limit_s=3_600, **more)


QUEUE = [
    *(hour_job(100 + n, "carol", "biology", site=90_000) for n in range(5)),
    *(hour_job(200 + n, "alice", "physics", site=40_000) for n in range(5)),
]


@pytest.fixture
def listed(site: Site) -> Listed:
    """Connects the scheduler c1, and lets its agent report a queue."""

    def _listed(queue: Sequence[dict[str, Any]] = QUEUE, state: Any = MACHINE, **settings: Any) -> Site:
        settings = {"mode": "on", "namespace": "a", **settings}
        connect_scheduler(policy_slug="grid", name="c1", settings=settings, at=AT, actor=SYSTEM)
        agent = Caller(token=site.token("schedulers", "priorities:read", policy_slug="grid"))
        answer = agent.post("schedulers/c1/passes", report(queue=list(queue), queue_state=state))
        assert answer.status_code == 200, answer.content
        return site

    return _listed


def draft_of(*operations: dict[str, Any]) -> ChangeSet:
    return make_change_set(policy_slug="grid", new=NewChangeSet(operations=list(operations)), at=AT, actor=SYSTEM)


@pytest.fixture
def more_physics(site: Site) -> ChangeSet:
    """biology has used less than its share; with this draft physics has."""
    return draft_of({"op": "set_shares", "entry": str(site.uid("/physics")), "shares": 4_000})
