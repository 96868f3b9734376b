"""Worlds of this plug-in, as tests/worlds.py makes them."""

from __future__ import annotations

from functools import partial

from apps.accounts.actor import SYSTEM
from apps.contrib.schedulers.services import connect_scheduler
from tests.instants import AT
from tests.small_site import Site, build_site
from tests.world_fixtures import world


@partial(world, extends="computed_site")
def scheduled_site() -> Site:
    """With the scheduler c1 in mode *on*."""
    made = build_site(AT)
    made.recompute()
    connect_scheduler(policy_slug="grid", name="c1", settings={"mode": "on", "namespace": "a"}, at=AT, actor=SYSTEM)
    return made
