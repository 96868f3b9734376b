"""Worlds of this plug-in, as tests/worlds.py makes them."""

from __future__ import annotations

from functools import partial

from tests.priority_site import Site
from tests.world_fixtures import world


@world
def history_site() -> Site:
    """An advisor can learn from its history."""
    from tests.contrib.lab.advisor.site import make_history_site  # loads numba, which most processes don't need

    return make_history_site()


@partial(world, extends="history_site")
def advised_site() -> Site:
    """Its advice is computed."""
    from tests.contrib.lab.advisor.site import make_advised_site

    return make_advised_site()
