"""Worlds of this plug-in, as tests/worlds.py makes them."""

from __future__ import annotations

from functools import partial

from tests.instants import AT
from tests.small_site import Site, build_site
from tests.world_fixtures import world


@partial(world, extends="small_site")
def reported_queue() -> Site:
    """With a scheduler whose queue is reported for sixty hours."""
    from tests.contrib.starts.one_processor import report_queue  # loads numba, which most processes don't need

    made = build_site(AT)
    report_queue(made)
    return made
