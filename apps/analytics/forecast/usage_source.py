"""Where the past of a path comes from: the daily series where it is built, else hours, as long as they are few."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Lock

from cachetools import LRUCache, cached
from django.db import connection

from apps.analytics.forecast.past_usage import DAY_S, PACE_DAYS, LevelPast, from_buckets, from_series, needed_from
from apps.analytics.series.calendar import site_zone
from apps.analytics.series.stored_series import load_series
from apps.policies.models import Policy
from apps.priorities.metering.usage import window_of
from apps.priorities.recompute.pipeline import Inputs, load_inputs
from apps.priorities.serving.lookup_index import ServedSnapshot

MOST_BUCKETS = 200_000  # read within the request
_MOST_REMEMBERED = 4
_MOST_DAYS = 3_650
_LATEST_S = 3 * DAY_S  # a series that ends earlier doesn't cover the last days
_EVER = datetime(1900, 1, 1, tzinfo=UTC)
_COUNT = """
SELECT count(*) FROM (SELECT FROM usage_bucket WHERE hour_at >= %s AND hour_at < %s LIMIT %s) buckets
"""


def read_past(
    policy: Policy, snapshot: ServedSnapshot, chain: Sequence[int], *, hourly: bool
) -> list[LevelPast] | None:
    """One level for each entry of `chain`; None without usage by day.

    Hours are preferred where requested, as long as they are few: days spread usage evenly.
    """
    found = None if hourly and inputs_of(policy, snapshot) is not None else _by_series(policy, snapshot, chain, hourly)
    if found is not None:
        return found
    inputs = inputs_of(policy, snapshot)
    if inputs is None:
        return None
    return from_buckets(inputs, snapshot.tree, snapshot.settings, chain, hourly=hourly)


def _by_series(policy: Policy, snapshot: ServedSnapshot, chain: Sequence[int], hourly: bool) -> list[LevelPast] | None:
    """None where the series isn't built up to the last days."""
    as_of = snapshot.as_of
    reach_s = window_of(snapshot.settings.window).reach_s if hourly else 0.0
    days = _MOST_DAYS if reach_s is None else min(int(reach_s // DAY_S) + 1, _MOST_DAYS)
    uids = [snapshot.tree.uuid(i) for i in chain]
    to_on = as_of.astimezone(site_zone()).date()
    series = load_series(policy, uids, from_on=to_on - timedelta(days=max(days, PACE_DAYS) + 1), to_on=to_on)
    ended = series.days.ends_s[series.days.ends_s <= as_of.timestamp()]
    if not len(ended) or float(ended[-1]) < as_of.timestamp() - _LATEST_S:
        return None
    return from_series(series, uids, as_of=as_of, hourly=hourly)


def key_of(policy: Policy, snapshot: ServedSnapshot) -> tuple[str, int, str]:
    """Names what never changes: one snapshot as it was computed."""
    return policy.slug, snapshot.snapshot_id, snapshot.computed_at.isoformat()


@cached(LRUCache(_MOST_REMEMBERED), key=key_of, lock=Lock())
def inputs_of(policy: Policy, snapshot: ServedSnapshot) -> Inputs | None:
    """Hours of a snapshot with those of the 28 days before its window; None where they are too many to wait for."""
    since = needed_from(snapshot.settings, snapshot.as_of)
    with connection.cursor() as cursor:
        cursor.execute(_COUNT, [since or _EVER, snapshot.as_of, MOST_BUCKETS + 1])
        if int(cursor.fetchone()[0]) > MOST_BUCKETS:
            return None
    found = load_inputs(policy, as_of=snapshot.as_of, from_at=since or _EVER, metrics=[snapshot.settings.metric])
    return replace(found, tree=snapshot.tree, settings=snapshot.settings)
