"""What the entries of one path and those they compete with used so far, and where these numbers come from.

What the entries of one path and those they compete with used so far: by day for the pace, by hour where a window
asks for it, and the part that each had of its group at the end of each day.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache, cached
from django.db import connection

from apps.accounts.request_cache import once_per_request
from apps.analytics.series.daily_series import DailySeries, site_zone
from apps.analytics.series.stored_series import load_series
from apps.engine import decay
from apps.engine.algorithms.inputs import prepare
from apps.engine.explain import History
from apps.mapping.rules.resolver import place_accounts
from apps.policies.models import Policy
from apps.policies.settings import PolicySettings
from apps.policies.tree.stored import TreeColumns
from apps.priorities.metering import HOUR_S, amounts, window_of
from apps.priorities.recompute.pipeline import Inputs, load_inputs
from apps.priorities.serving.served_snapshot import ServedSnapshot
from apps.usage.arrays import OpenRecords

F8 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
PACE_DAYS = 28
DAY_S = 86_400
_LEAST_OF_A_DAY = 6  # known hours that a pace needs


@dataclass(frozen=True, eq=False)
class LevelPast:
    """One level, in the policy's metric without aging. own_daily, group_daily: (days,), oldest first, at most 28.

    history: by hour, where it was asked for. so_far: instants and the part the entry had of its group then.
    """

    own_daily: F8
    group_daily: F8
    so_far: Sequence[tuple[datetime, float]]
    history: History | None = None


def from_series(series: DailySeries, uids: Sequence[Any], *, as_of: datetime, hourly: bool) -> list[LevelPast]:
    """One level for each of `uids`, from days that are built; none that has ended after `as_of` counts."""
    rows = {uid: row for row, uid in enumerate(series.uids)}
    is_past = series.days.ends_s <= as_of.timestamp()
    had_usage = np.cumsum(series.days.root_used > 0) > 0  # before that nothing of the policy was recorded
    chosen = np.flatnonzero(is_past & had_usage)
    found = []
    for uid in uids:
        row = rows.get(uid)
        if row is None:
            found.append(LevelPast(np.zeros(0), np.zeros(0), ()))
            continue
        last = chosen[-PACE_DAYS:]
        own, group = series.used[row], series.peers_used[row]
        parts = np.divide(
            series.decayed[row],
            series.peers_decayed[row],
            out=np.zeros(len(own)),
            where=series.peers_decayed[row] > 0,
        )
        so_far = [
            (datetime.fromtimestamp(float(series.days.ends_s[day]), UTC), float(parts[day]))
            for day in last.tolist()
            if series.competes[row][day] and series.peers_decayed[row][day] > 0
        ]
        history = _spread(series.days.ends_s[is_past], own[is_past], group[is_past]) if hourly else None
        found.append(LevelPast(own[last], group[last], so_far, history))
    return found


def _spread(ends_s: F8, own: F8, group: F8) -> History:
    """Days as hours, evenly."""
    starts_s = (ends_s[:, None] - HOUR_S * np.arange(24, 0, -1)).ravel()
    return History(starts_s, np.repeat(own / 24, 24), np.repeat(group / 24, 24))


def from_buckets(
    inputs: Inputs, tree: TreeColumns, settings: PolicySettings, chain: Sequence[int], *, hourly: bool
) -> list[LevelPast]:
    """One level for each entry of `chain`, from hours: those of finished jobs, and of running ones where they count."""
    entry, _joins = place_accounts(tree, inputs.rules, inputs.known, inputs.account_keys)
    rows = _rows_of(inputs, settings)
    if not len(rows.hour_s):
        return [LevelPast(np.zeros(0), np.zeros(0), ()) for _ in chain]
    prepared = prepare(tree.engine_tree())
    code, scopes = tree.effective_scopes(local=inputs.local_only)
    as_of_s = inputs.as_of.timestamp()
    first_s = float(rows.hour_s.min())
    found = []
    for i in chain:
        scope, narrowed = scopes[int(code[max(int(prepared.fairshare_parent[i]), 0)])]
        counts = rows.counted(inputs, scope, narrowed, settings)
        sums = []
        for inside in (_below(tree, [i]), _below(tree, competitors(tree, i))):
            is_in = np.where(entry >= 0, inside[np.maximum(entry, 0)], False)
            mine = counts & is_in[rows.account]
            place = ((rows.hour_s[mine] - first_s) // HOUR_S).astype(np.int64)
            n_hours = int((as_of_s - first_s) // HOUR_S) + 1
            sums.append(np.bincount(place, weights=rows.amount[mine], minlength=n_hours).astype(np.float64))
        hours = History(first_s + HOUR_S * np.arange(len(sums[0]), dtype=np.float64), sums[0], sums[1])
        found.append(_level_of(hours, window_of(settings.window), as_of_s, hourly=hourly))
    return found


def competitors(tree: TreeColumns, i: int) -> list[int]:
    """Entries that compete for the same shares, itself included; empty for one that doesn't compete."""
    contest, entry_of, seat, _ = tree.engine_tree().competition
    at = int(seat[i])
    if int(entry_of[at]) != i or not at:
        return []
    above = int(contest.parent[at])
    first = int(contest.first_child[above])
    group: list[int] = entry_of[first : first + int(contest.child_count[above])].tolist()
    return group


@dataclass(frozen=True, eq=False)
class _Rows:
    """Hours of usage: where, whose, from which source, how much; and whether a running job's."""

    hour_s: F8
    account: I8
    source_id: I8
    amount: F8
    is_running: Mask

    def counted(self, inputs: Inputs, scope: str, narrowed: Sequence[str], settings: PolicySettings) -> Mask:
        ids = [
            source.id
            for source in inputs.sources
            if (scope == "global" or not source.origin) and (not narrowed or source.slug in narrowed)
        ]
        counts: Mask = np.isin(self.source_id, ids)
        return counts if settings.approach[scope] != "historical" else counts & ~self.is_running


def _rows_of(inputs: Inputs, settings: PolicySettings) -> _Rows:
    usage, opened = inputs.usage, inputs.opened
    amount = amounts(usage, metric=settings.metric, classes=inputs.classes)
    rate = amounts(opened, metric=settings.metric, classes=inputs.classes)
    job, hour_s, seconds = _running_hours(opened, inputs.as_of.timestamp())
    accounts = np.concatenate([usage.account_id, opened.account_id[job]])
    return _Rows(
        np.concatenate([usage.hour_epoch.astype(np.float64), hour_s]),
        np.searchsorted(inputs.account_ids, accounts),
        np.concatenate([usage.source_id, opened.source_id[job]]),
        np.concatenate([amount, rate[job] * seconds]),
        np.concatenate([np.zeros(len(amount), np.bool_), np.ones(len(job), np.bool_)]),
    )


def _running_hours(opened: OpenRecords, as_of_s: float) -> tuple[I8, F8, F8]:
    """The hours in which jobs that run have run: which job, the hour's start, and the seconds of it."""
    start_s = np.where(opened.is_running & (opened.start_epoch < as_of_s), opened.start_epoch, as_of_s)
    start_s = np.maximum(start_s, as_of_s - 400 * DAY_S)  # no job runs for longer, and rows stay few
    first = np.floor(start_s / HOUR_S)
    n_hours = np.maximum(np.ceil(as_of_s / HOUR_S) - first, 0).astype(np.int64) * (start_s < as_of_s)
    job = np.repeat(np.arange(len(start_s)), n_hours)
    within = np.arange(int(n_hours.sum())) - np.repeat(np.cumsum(n_hours) - n_hours, n_hours)
    hour_s = (first[job] + within) * HOUR_S
    seconds = np.minimum(as_of_s, hour_s + HOUR_S) - np.maximum(start_s[job], hour_s)
    return job, hour_s, np.maximum(seconds, 0.0)


def _below(tree: TreeColumns, entries: Sequence[int]) -> Mask:
    """These entries and all below them."""
    inside = np.zeros(len(tree), dtype=np.bool_)
    inside[list(entries)] = True
    for level in tree.engine_tree().levels:
        inside[level.lo : level.hi] |= inside[tree.parent[level.lo : level.hi]]
    return inside


def _level_of(hours: History, window: decay.Window, as_of_s: float, *, hourly: bool) -> LevelPast:
    own, group = _daily(hours, as_of_s)
    so_far = []
    for days_ago in range(PACE_DAYS, 0, -1):
        then_s = as_of_s - days_ago * DAY_S
        weight = decay.bucket_weights(hours.hour_start_s, then_s, window)
        whole = float(weight @ hours.group_usage)
        if whole > 0:
            so_far.append((datetime.fromtimestamp(then_s, UTC), float(weight @ hours.own_usage) / whole))
    return LevelPast(own, group, so_far, hours if hourly else None)


def _daily(hours: History, as_of_s: float) -> tuple[F8, F8]:
    """Sums of the last 28 spans of 24 hours, oldest first; the first one known counts as far as it goes, or not."""
    start_s = np.asarray(hours.hour_start_s)
    day = (np.maximum(as_of_s - (start_s + HOUR_S), 0.0) // DAY_S).astype(np.int64)
    n_days = int(day.max(initial=0)) + 1
    covered_h = np.bincount(day, minlength=n_days)
    chosen = day < PACE_DAYS
    sums = [
        np.bincount(day[chosen], weights=amount[chosen], minlength=min(n_days, PACE_DAYS))
        for amount in (hours.own_usage, hours.group_usage)
    ]
    if n_days <= PACE_DAYS and n_days > 1:
        of_first = int(covered_h[n_days - 1])
        if of_first < _LEAST_OF_A_DAY:
            sums = [amount[:-1] for amount in sums]
        elif of_first < 24:
            for amount in sums:
                amount[-1] *= 24 / of_first
    own, group = (amount[::-1].astype(np.float64) for amount in sums)
    return own, group


def needed_from(settings: PolicySettings, as_of: datetime) -> datetime | None:
    """Hours before this don't matter for the last 28 days; None: all may."""
    reach_s = window_of(settings.window).reach_s
    try:
        return None if reach_s is None else as_of - timedelta(days=PACE_DAYS, seconds=reach_s + 2 * HOUR_S)
    except OverflowError:
        return None


# --- Source of the numbers --------------------------------------------------------------------------------------------
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
    """One level for each entry of `chain`; None without usage by day. A page asks several times.

    Hours are preferred where requested, as long as they are few: days spread usage evenly.
    """
    key = ("past usage", id(snapshot), *chain, hourly)
    return once_per_request(key, lambda: (snapshot, _read_past(policy, snapshot, chain, hourly)))[1]  # so its id stays


def _read_past(policy: Policy, snapshot: ServedSnapshot, chain: Sequence[int], hourly: bool) -> list[LevelPast] | None:
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
