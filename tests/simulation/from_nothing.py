"""What is stored, compared with the same made from nothing; each function returns differences as texts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar
from unittest.mock import patch

import numpy as np
from django.db import transaction
from django.db.models import Max

from apps.accounts.account_index import AccountKeys
from apps.federation.models import FeedHour, FeedMark, FeedRunning, UsageFeed
from apps.federation.usage_feeds.feed_build import build_feed
from apps.federation.usage_feeds.feed_sums import hour_of
from apps.mapping.rules import placement
from apps.mapping.rules.resolver import Resolver
from apps.mapping.rules.rule import Rule
from apps.policies.models import ChangeSet, Entry, Policy
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree
from apps.policies.units import Unit
from apps.priorities import delivered_usage
from apps.priorities.models import Snapshot
from apps.priorities.recompute import pipeline
from apps.priorities.recompute.fingerprint import tick_of
from apps.priorities.serving import store
from apps.priorities.snapshot_values import unpack_snapshot
from apps.runs.models import Run
from apps.runs.services import claim_run, work_lease
from apps.series.back_test import BackTest, back_test
from apps.series.back_test_runs import current_state, draft_state, get_back_test
from apps.series.daily_series import DailySeries
from apps.series.days import days_of, site_zone
from apps.series.models import Series, SeriesDay, SeriesHour, SeriesHourTile, SeriesTile
from apps.series.runs import KIND, enqueue_series_build
from apps.series.stored_series import load_against_today, load_hours, load_series
from apps.series.tiles import AMOUNTS
from apps.usage.models import Source
from tests.priority_site import AS_OF, Site

Made = TypeVar("Made")
_CLOSE: dict[str, Any] = {"rtol": 1e-9, "atol": 1e-6, "equal_nan": True}
_EXACT = ("rank", "has_rank", "has_factor")
_ROUNDED = 1e-13  # of a factor that is kept while all usage decays alike: it was computed of other sums
_OF_RECORDS = ("knows_waiting", "waited_core_s")
_DAY_S = 86_400
_DAYS = 6  # before today that are compared
_AMOUNTS = ("usage", "group_usage", "actual", "target", "priority")
_UNITS = (
    Unit("GPU-hour", "GPU-h", (("gpu_s", 1.0), ("gpu:h100", 8.0))),
    Unit("Weighted hour", "w-h", (("gpu_s", 1.0), ("gpu:h100", 2.0), ("energy", 2.0**-10)), minimum_charge_s=900),
)


def snapshot_differences(site: Site, snapshot: Snapshot, at: datetime) -> list[str]:
    """Of the newest snapshot, and of what is served, with a computation by one process without a past."""
    as_of = tick_of(at)
    with transaction.atomic(), _placed_one_by_one(pipeline):
        inputs = pipeline.load_inputs(site.policy, as_of=as_of)
        computed = pipeline.compute(inputs)
        data, digest = pipeline.pack_result(inputs, computed)
        places = pipeline.places_in(inputs, computed)
    values, meta = unpack_snapshot(data, digest, inputs.tree)
    store.poll()
    served = store.newest(site.slug)
    found = [] if served.as_of == as_of else [f"served as of {served.as_of}, not {as_of}"]
    if snapshot.valid_at == snapshot.as_of and snapshot.digest != digest:
        found.append("the bytes of the snapshot differ")
    if snapshot.places_id != places.digest:
        found.append("places of accounts differ")
    found += [name for name in _EXACT if not np.array_equal(getattr(served.values, name), getattr(values, name))]
    tolerance = 0.0 if snapshot.valid_at == snapshot.as_of else _ROUNDED
    if not np.allclose(served.values.factor, values.factor, rtol=tolerance, atol=0.0, equal_nan=True):
        found.append("factor")
    found += [
        name for name in _AMOUNTS if not np.allclose(getattr(served.values, name), getattr(values, name), **_CLOSE)
    ]
    if served.meta["n_unmapped"] != meta["n_unmapped"]:
        found.append("unmapped accounts differ")
    if not np.isclose(served.meta["unmapped_usage"], meta["unmapped_usage"], rtol=1e-9, atol=1e-6):
        found.append("unmapped usage differs")
    return [f"{site.slug}: {each}" for each in found]


def delivered_differences(site: Site, at: datetime) -> list[str]:
    """Of usage by site and period, which is read through caches."""
    tree = load_tree(site.policy)
    edges = sorted({*(AS_OF - timedelta(days=days) for days in (20, 3, 0)), at})
    entries = list(range(len(tree)))

    def load() -> tuple[Any, Any, list[Any]]:
        delivered = delivered_usage.load_delivered_by_site(
            policy=site.policy, tree=tree, entries=entries, whole=[0], edges=edges
        )
        in_units = [
            delivered_usage.load_delivered(policy=site.policy, tree=tree, entries=entries, edges=edges, unit=unit).below
            for unit in _UNITS
        ]
        by_site = delivered_usage.load_by_site(policy=site.policy, tree=tree, from_at=None, to_at=at)
        return delivered, by_site, in_units

    kept, kept_by_site, kept_in_units = load()
    with transaction.atomic(), _placed_one_by_one(delivered_usage):  # nothing is cached within a transaction
        new, new_by_site, new_in_units = load()
    is_same = (
        all(np.array_equal(getattr(kept, name), getattr(new, name)) for name in ("below", "by_site", "unmapped"))
        and kept_by_site.origins == new_by_site.origins
        and kept_by_site.first_at == new_by_site.first_at
        and np.array_equal(kept_by_site.own, new_by_site.own)
        and all(map(np.array_equal, kept_in_units, new_in_units))
    )
    return [] if is_same else [f"{site.slug}: delivered usage differs"]


def series_differences(site: Site, at: datetime) -> list[str]:
    """Of the stored days and hours with those of a build that finds nothing stored.

    The demand of days whose records were removed is kept; nothing can make it anew.
    """
    sealed_at = Source.all_objects.aggregate(Max("sealed_before_at"))["sealed_before_at__max"]
    sealed_s = sealed_at.timestamp() + _DAY_S if sealed_at else 0.0
    uids = sorted(set(Entry.objects.filter(policy=site.policy).values_list("uid", flat=True)))

    def load() -> tuple[DailySeries, DailySeries]:
        first_on, last_on = (AS_OF - timedelta(days=200)).date(), at.date() + timedelta(days=500)
        days = load_series(site.policy, uids, from_on=first_on, to_on=last_on)
        return days, load_hours(site.policy, uids)

    def build() -> tuple[DailySeries, DailySeries]:
        for table in (Series, SeriesDay, SeriesTile, SeriesHour, SeriesHourTile):
            table._default_manager.filter(policy=site.policy).delete()
        Run.objects.filter(kind=KIND).delete()
        _build_series(site.policy, at)
        return load()

    stored, made = load(), _and_undone(build)
    return [
        f"{site.slug}: {kind} {each}"
        for kind, one, other in zip(("days", "hours"), stored, made, strict=True)
        for each in _series_differences(one, other, sealed_s=sealed_s)
    ]


def _series_differences(stored: DailySeries, made: DailySeries, *, sealed_s: float = 0.0) -> Iterator[str]:
    stored = _without_emptied(stored, made)
    if stored.days.on != made.days.on:
        yield f"stored {stored.days.on[:1]} to {stored.days.on[-1:]}, made {made.days.on[:1]} to {made.days.on[-1:]}"
        return
    for name in ("revision", "is_before_first"):
        if not np.array_equal(getattr(stored.days, name), getattr(made.days, name)):
            yield name
    for name in ("root_used", "root_decayed"):
        if not np.allclose(getattr(stored.days, name), getattr(made.days, name), **_CLOSE):
            yield name
    for name in ("exists", "competes", "knows_waiting", "n_active", *AMOUNTS):
        one, other = getattr(stored, name), getattr(made, name)
        is_made_anew = stored.days.ends_s > sealed_s if name in _OF_RECORDS else True
        unlike = np.argwhere(~np.isclose(one, other, **_CLOSE) & is_made_anew)
        if len(unlike):
            first = tuple(unlike[0])
            on = stored.days.on[first[1]]
            yield f"{name} of {len(unlike)} from {on} on: {one[first]} stored, {other[first]} made"


def _without_emptied(stored: DailySeries, made: DailySeries) -> DailySeries:
    """Without days before all usage that is left: they are kept, and have none."""
    n_before = stored.days.on.index(made.days.on[0]) if made.days.on and made.days.on[0] in stored.days.on else 0
    if not n_before or stored.days.root_used[:n_before].any():
        return stored
    columns = {each.name: getattr(stored, each.name) for each in fields(stored) if each.name not in ("uids", "days")}
    left = stored.days.select(np.arange(n_before, len(stored.days.on)))
    return replace(stored, days=left, **{name: values[:, n_before:] for name, values in columns.items()})


def feed_differences(feed: UsageFeed, at: datetime) -> list[str]:
    """Of the stored hours and running jobs of a feed with those of a feed that was never built.

    Hours that have become too old stay until something changes.
    """

    def load() -> tuple[dict[datetime, str], str, int]:
        feed.refresh_from_db()
        # a feed that never had an hour needs no row without usage
        hours = FeedHour.objects.filter(feed=feed, n_rows__gt=0)
        return dict(hours.values_list("hour_at", "digest")), feed.running_digest, feed.basis["first"]

    def build() -> tuple[dict[datetime, str], str, int]:
        for table in (FeedHour, FeedMark, FeedRunning):
            table._default_manager.filter(feed=feed).delete()
        empty: dict[str, Any] = {"number": 0, "running_digest": "", "running_number": 0, "basis": {}, "built_at": None}
        UsageFeed.objects.filter(pk=feed.pk).update(**empty)
        build_feed(feed.pk, at=at)
        return load()

    (stored, running, _first), (made, made_running, first) = load(), _and_undone(build)
    unlike = sorted(
        hour for hour in stored.keys() | made.keys() if stored.get(hour) != made.get(hour) and hour_of(hour) >= first
    )
    found = [f"{feed.name}: {len(unlike)} hours from {unlike[0]} on differ"] if unlike else []
    return found + ([] if running == made_running else [f"{feed.name}: running jobs differ"])


def back_test_differences(change_set: ChangeSet, at: datetime) -> list[str]:
    """Of a back-test that is called current with one that starts from no stored sums."""
    stored = get_back_test(change_set, at=at)
    if stored.state != "ready" or stored.result is None:
        return []
    policy = Policy.objects.get(pk=change_set.policy_id)
    days = days_of(stored.result.days[0], stored.result.days[-1], site_zone())

    def test() -> BackTest:
        Series.objects.filter(policy=policy).update(carry=None, carry_digest="")
        return back_test(policy, current_state(policy), draft_state(change_set, policy), days)

    made = _and_undone(test)
    names = ("uid", "n_days", "days_on", "days_on_was", "off", "off_was", "rank", "rank_was")
    found = [name for name in names if not _is_alike(getattr(stored.result, name), getattr(made, name))]
    return [f"{policy.slug}: {name} of the back-test differs" for name in found]


def _is_alike(one: Any, other: Any) -> bool:
    return bool(one.shape == other.shape and np.allclose(one, other, **_CLOSE))


def against_today_differences(site: Site, at: datetime) -> list[str]:
    """Of the last days as they would be by today's policy, with those that start from no stored sums."""
    policy = site.policy
    tree = load_tree(policy)
    uids = [tree.uuid(place) for place in range(len(tree))]
    last_on = at.date()

    def load() -> DailySeries:
        return load_against_today(policy, uids, from_on=last_on - timedelta(days=_DAYS), to_on=last_on)

    def without_sums() -> DailySeries:
        Series.objects.filter(policy=policy).update(carry=None, carry_digest="")
        return load()

    return [f"{site.slug}, against today: {each}" for each in _series_differences(load(), _and_undone(without_sums))]


def _build_series(policy: Policy, at: datetime) -> None:
    enqueue_series_build(policy, at=at)
    lease = claim_run(at=at, clock=lambda: at, of_kinds=[KIND])
    assert lease is not None
    work_lease(lease)
    run = Run.objects.get(pk=lease.run_id)
    assert run.state == Run.State.SUCCEEDED, (run.kind, run.error)


class _Undone(Exception):
    """Rolls back what was made to be compared."""


def _and_undone(make: Callable[[], Made]) -> Made:
    made: list[Made] = []
    try:
        with transaction.atomic():
            made.append(make())
            raise _Undone
    except _Undone:
        return made[0]


def _place_one_by_one(
    tree: TreeColumns, rules: tuple[Rule, ...], known: Any, keys: Any, *, is_shared: bool = False
) -> placement.Placement:
    return placement.place_columns(Resolver(rules, tree, known), AccountKeys.of(keys))


@contextmanager
def _placed_one_by_one(module: Any) -> Iterator[None]:
    """Accounts are placed without files and caches."""
    with patch.object(module, "place_accounts", _place_one_by_one):
        yield
