from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from apps.accounts.actor import SYSTEM
from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.services import connect_scheduler
from tests.instants import AT
from tests.lock_order import _one_order_of_locks, lock_watch  # noqa: F401 - fixtures
from tests.small_site import Site


@pytest.fixture
def new_scheduler(site: Site) -> Callable[[], Scheduler]:
    """Each call makes another scheduler of the policy."""
    numbers = count(1)

    def _new() -> Scheduler:
        return Scheduler.objects.create(
            name=f"s{next(numbers)}", policy=site.policy, kind="slurm", knob="sitefactor", mode="on", created_at=AT,
            changed_at=AT,
        )  # fmt: skip

    return _new


@pytest.fixture
def connected(site: Site) -> Site:
    """With the scheduler c1 in mode *on*."""
    connect_scheduler(policy_slug="grid", name="c1", settings={"mode": "on", "namespace": "a"}, at=AT, actor=SYSTEM)
    return site
