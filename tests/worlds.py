"""Worlds that many tests begin with: each is made at the instant AT by the function of its name.

It is made once a process, a shared one once a run.

A fixture of the same name (tests/conftest.py) gives a test what the function returned, in the world's database.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, MutableMapping
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache, partial
from typing import Any

import pytest
from cachetools import Cache
from django.test import override_settings

from apps.accounts import account_index
from apps.accounts.token_cache import tokens
from apps.cli.sample.grid import work_at
from apps.cli.sample.loading import load_sample
from apps.priorities.serving import store
from apps.runs.models import Run
from apps.usage.account_counts import account_counts
from apps.usage.account_sums import AccountSums
from apps.usage.kept_usage import KeptUsage
from tests.federation import worlds as federation_worlds
from tests.federation.grid.grid_site import make_grid_site
from tests.federation.other_side import OtherSide
from tests.federation.usage_feeds.feed_site import Teller, make_teller_with_jobs
from tests.federation.usage_feeds.restored_site import make_restored
from tests.instants import AT
from tests.pages.federation.mounted import make_mounted, make_placed
from tests.pages.grid import Grid, make_grid
from tests.plugin_parts import parts
from tests.priority_site import Site as PrioritySite
from tests.priority_site import make_month_of_days, make_two_projects
from tests.privacy.known_site import build_known_world
from tests.rights_world import ISSUER, World
from tests.small_site import Site, build_site

__all__ = ["MAKERS", "SHARED", "forget_process", "fresh_process", "named_by"]

MAKERS: dict[str, Callable[[], Any]] = {}
SHARED: set[str] = set()
_EXTENDED: dict[str, str] = {}
_PARTS = tuple(parts("worlds"))
_FORGET = [part.forget_process for part in _PARTS if hasattr(part, "forget_process")]


def world(make: Callable[[], Any], *, extends: str = "", is_shared: bool = False) -> Callable[[], Any]:
    """is_shared: takes long, returns nothing and leaves nothing outside its database: made once a run."""
    MAKERS[make.__name__] = make
    _EXTENDED[make.__name__] = extends
    if is_shared:
        SHARED.add(make.__name__)
    return make


def named_by(fixtures: Collection[str]) -> str | None:
    """The world of a test with these fixtures: of one and another that extends it, the latter."""
    named = {name for name in MAKERS if name in fixtures}
    left = sorted(named - {_EXTENDED[name] for name in named})
    assert len(left) <= 1, f"A test has one world, not {left}."
    return left[0] if left else None


def forget_process() -> None:
    """What a process keeps in memory belongs to one test: those of one world share its policies and numbers."""
    _forget_state()
    for kept in _caches(len(sys.modules)):
        kept.clear()


@pytest.fixture(autouse=True)
def fresh_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """For folders and files that import it: each test at AT, in a process without memory of the one before."""
    monkeypatch.setenv("FAIRSHARE_CLOCK", AT.isoformat())
    forget_process()
    yield
    forget_process()


def _forget_state() -> None:
    tokens.clear()
    for forget in _FORGET:
        forget()
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
def _caches(n_modules: int) -> list[MutableMapping[Any, Any]]:
    """The caches of our modules: module attributes, attributes of a `_…Cache` or of kept usage, or of a function."""
    found: list[MutableMapping[Any, Any]] = []
    for name, module in list(sys.modules.items()):
        if name.startswith("apps."):
            for value in vars(module).values():
                kind = type(value).__name__
                is_holder = isinstance(value, AccountSums | KeptUsage) or (
                    kind.startswith("_") and kind.endswith("Cache")
                )
                held = vars(value).values() if is_holder else [value]
                found += [each for each in held if isinstance(each, OrderedDict | Cache)]
                if isinstance(kept := getattr(value, "cache", None), Cache):
                    found.append(kept)
    return found


@world
def small_site() -> Site:
    return build_site(AT)


@partial(world, extends="small_site")
def computed_site() -> Site:
    made = build_site(AT)
    made.recompute()
    return made


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


for _part in _PARTS:
    for _make, _extended in getattr(_part, "WORLDS", ()):
        world(_make, extends=_extended)
