"""Worlds that many tests begin with: each is made at the instant AT by the function of its name.

It is made once a process, a shared one once a run.

`world` makes each a fixture of its name, which gives a test what the function returned, in the world's database.
tests/conftest.py imports them; those of a plug-in are in its own `worlds.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache, partial
from operator import attrgetter
from typing import Any

import pytest
from django.test import override_settings

from apps.accounts import account_index
from apps.cli.sample.grid import work_at
from apps.cli.sample.loading import load_sample
from apps.core.derived_state import Kept
from apps.policies.models import Policy
from apps.priorities.serving import store
from apps.runs.models import Run
from apps.usage.account_counts import account_counts
from tests.federation import worlds as federation_worlds
from tests.federation.grid.grid_site import make_grid_site
from tests.federation.other_side import OtherSide
from tests.federation.usage_feeds.feed_site import Teller, make_teller_with_jobs
from tests.federation.usage_feeds.restored_site import make_restored
from tests.instants import AT
from tests.pages.federation.mounted import make_mounted, make_placed
from tests.pages.grid import Grid, make_grid
from tests.plugin_parts import parts
from tests.policies.published import publish_grid
from tests.priority_site import Site as PrioritySite
from tests.priority_site import make_month_of_days, make_revised_days, make_two_projects
from tests.privacy.known_site import build_known_world
from tests.rights_world import ISSUER, World
from tests.small_site import Site, build_site
from tests.world_fixtures import world

_PARTS = tuple(parts("worlds"))


def forget_process() -> None:
    """What a process keeps in memory belongs to one test: those of one world share its policies and numbers."""
    _forget_state()
    for kept in _registered(len(sys.modules)):
        _forget(kept)


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """For folders and files that import it: each test at AT, in a process without memory of the one before."""
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
    forget_process()
    yield
    forget_process()


def _forget_state() -> None:
    store.forget()
    account_counts._forget()
    account_index.forget()


@contextmanager
def restore_caches() -> Iterator[None]:
    """Restore the caches of the process afterwards: for changes that are rolled back within one test."""
    kept = [(cache, dict(cache)) for cache in _caches(len(sys.modules))]
    yield
    _forget_state()
    for cache, contents in kept:
        cache.clear()
        cache.update(contents)


@lru_cache(maxsize=1)
def _registered(n_modules: int) -> list[Any]:
    """What the loaded modules of ours declare that they keep in memory: the register of derived state."""
    states = [
        (module, state)
        for name, module in list(sys.modules.items())
        if name.startswith("apps.")
        for state in getattr(module, "DERIVED_STATE", ())
        if state.kept is Kept.MEMORY
    ]
    return [attrgetter(name)(module) for module, state in states for name in state.names]


def _caches(n_modules: int) -> list[MutableMapping[Any, Any]]:
    """The mappings among them: themselves, of a function that keeps its results, or of an object that holds some."""
    return [each for kept in _registered(n_modules) for each in _mappings_of(kept)]


def _mappings_of(kept: Any) -> list[MutableMapping[Any, Any]]:
    held = [kept, getattr(kept, "cache", None), *getattr(kept, "__dict__", {}).values()]
    return [each for each in held if isinstance(each, MutableMapping)]


def _forget(kept: Any) -> None:
    own = getattr(kept, "forget", None) or getattr(kept, "clear", None)
    if own is not None:
        own()
    for each in _mappings_of(kept):
        each.clear()


@world
def small_site() -> Site:
    return build_site(AT)


@partial(world, extends="small_site")
def computed_site() -> Site:
    made = build_site(AT)
    made.recompute()
    return made


@world
def published_policy() -> Policy:
    """Two VOs and a reserve, without usage; nobody has a grant."""
    return publish_grid()


@world
def open_grid() -> Grid:
    """All users see the whole tree."""
    return make_grid(AT)


@world
def closed_grid() -> Grid:
    """People see their own path and what they have a role at."""
    return make_grid(AT, visibility="path")


@world
def long_grid() -> Grid:
    """Thirty more people in each of two groups."""
    return make_grid(AT, extra_users=30)


@world
def large_grid() -> Grid:
    """250 more people in each of two groups: more rows than a page sends at once."""
    return make_grid(AT, extra_users=250)


@world
def unused_grid() -> Grid:
    """Without usage, and so without priorities."""
    return make_grid(AT, with_usage=False)


@world
def rights_world() -> World:
    """What the rows of the rights matrix ask for."""
    with override_settings(FAIRSHARE_ISSUER=ISSUER):
        made = build_site(AT)
        made.recompute()
        return World(made)


@world
def known_world() -> World:
    """Each person's usage is unique, so that tests find it in any response."""
    return build_known_world()


@world
def vo_policy() -> None:
    """A grid with two VOs."""
    federation_worlds.make_policy_of_vos()


@partial(world, extends="vo_policy")
def vo_mounted() -> OtherSide:
    return federation_worlds.make_mounted()


@partial(world, extends="vo_mounted")
def vo_second_version() -> OtherSide:
    """Version 2 of the mounted policy is active, and the site publishes too."""
    return federation_worlds.make_second_version()


@partial(world, extends="vo_mounted")
def vo_subscribed() -> OtherSide:
    return federation_worlds.make_subscribed()


@partial(world, extends="vo_subscribed")
def vo_usage_accepted() -> OtherSide:
    """Two usage documents are accepted."""
    return federation_worlds.make_usage_accepted()


@partial(world, extends="vo_subscribed")
def vo_usage_held() -> OtherSide:
    """An hour that another site reports is held."""
    return federation_worlds.make_usage_held()


@partial(world, extends="computed_site")
def placed_site() -> Site:
    """With an entry that another authority's policy may be mounted at."""
    return make_placed(AT)


@partial(world, extends="placed_site")
def mounted_site() -> Site:
    return make_mounted(AT)


@world
def feed_teller() -> Teller:
    """A site with a usage feed that has no readers yet."""
    with override_settings(FAIRSHARE_ISSUER="site-a.example"):
        return make_teller_with_jobs()


@world
def grid_site() -> PrioritySite:
    """A VO with usage of three sites."""
    return make_grid_site()


@world
def two_projects() -> PrioritySite:
    """Two projects with usage of three people."""
    return make_two_projects()


@world
def month_of_days() -> PrioritySite:
    """Thirty days of usage and their series."""
    return make_month_of_days()


@world
def revised_days() -> PrioritySite:
    """Six days of usage under three revisions, and their series."""
    return make_revised_days()


@world
def restored_feed() -> Teller:
    """A feed with two subscriptions to it in one database."""
    return make_restored()


@partial(world, is_shared=True)
def sample_grid() -> None:
    """What a first start makes, once its workers have done what was asked of them."""
    start_sample(AT)


def start_sample(at: datetime) -> None:
    """Load the sample grid as a first start at this instant does, and do what it asks of workers."""
    load_sample(at=at)
    for run in Run.objects.filter(state=Run.State.QUEUED).order_by("pk"):
        work_at(run.pk, at)
    for part in _PARTS:
        if hasattr(part, "finish_sample"):
            part.finish_sample(at)
