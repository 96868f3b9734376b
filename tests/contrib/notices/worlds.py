"""Worlds of this plug-in, as tests/worlds.py makes them."""

from __future__ import annotations

from datetime import datetime
from functools import partial

from apps.contrib.notices.evaluation import evaluate
from apps.policies.models import Policy
from tests.contrib.notices.notices_site import make_notified
from tests.contrib.notices.statements.hall import make_hall
from tests.small_site import Site
from tests.world_fixtures import world


@partial(world, extends="computed_site")
def notices_site() -> Site:
    """Two people have notices."""
    return make_notified()


@world
def hall() -> Policy:
    """Two months of jobs of two groups, and their series."""
    return make_hall()


def finish_sample(at: datetime) -> None:
    """Notices about what the workers did."""
    evaluate(at=at)
