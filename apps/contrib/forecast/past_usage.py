"""Past usage of the entries on one path and of their competitors, from the daily series or from usage buckets.

By day for the pace, by hour for windows that need it, and the fraction of its group that each entry had at the end of
each day.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from threading import Lock
from typing import NamedTuple
from uuid import UUID

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache, cached
from django.db import connection

from apps.accounts.request_cache import once_per_request
from apps.core.derived_state import in_memory
from apps.engine import decay
from apps.engine.algorithms.inputs import prepare
from apps.engine.explain import History
from apps.mapping.rules.placement import place_accounts
from apps.policies.models import Entry, Policy
from apps.policies.settings import PolicySettings
from apps.policies.tree.stored import TreeColumns
from apps.priorities.metering import HOUR_S, window_of
from apps.priorities.projections import PaceDays
from apps.priorities.recompute.pipeline import Inputs, load_inputs
from apps.priorities.serving.served_snapshot import ServedSnapshot, snapshot_key
from apps.priorities.usage_factors import weighted_amounts
from apps.series.daily_series import DailySeries
from apps.series.days import site_zone
from apps.series.stored_series import load_series
from apps.usage.arrays import OpenRecords

DERIVED_STATE = (
    in_memory(
        "load_snapshot_inputs",
        holds="inputs of forecasts, with 28 days more of usage",
        key="slug, id and last instant of the snapshot",
        inputs="buckets up to the snapshot's instant, tree, mapping, settings",
        range="the window and 28 days before it",
        ends="the newest ones push it out; a snapshot of another instant has another key",
    ),
)

F8 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
PACE_DAYS = 28
DAY_S = 86_400
_LEAST_HOURS = 6  # known hours, for a day to be included in the pace
MOST_FORECAST_BUCKETS = 200_000  # that are read during a request
_MOST_CACHED_PACES = 4
_MOST_PACE_DAYS = 3_650
_LATEST_S = 3 * DAY_S  # a series that ends earlier doesn't cover the last days
_BEGINNING = datetime(1900, 1, 1, tzinfo=UTC)
_COUNT = """
SELECT count(*) FROM (SELECT FROM usage_bucket WHERE hour_at >= %s AND hour_at < %s LIMIT %s) buckets
"""


class PastShare(NamedTuple):
    """The entry's fraction of its group at a past instant."""

    at: datetime
    actual: float


@dataclass(frozen=True, eq=False)
class LevelPast:
    """Past usage of one level in the policy's metric, without decay. own_daily, group_daily: (days,), oldest first, at
    most 28.

    history: by hour, if requested. load_shares: returns instants, and the entry's fraction of its group then; only
    curves show them. until: the end of the last day.
    """

    own_daily: F8
    group_daily: F8
    until: datetime
    load_shares: Callable[[], Sequence[PastShare]]
    history: History | None = None

    @property
    def days(self) -> PaceDays | None:
        return PaceDays(len(self.group_daily), self.until) if len(self.group_daily) else None

    @cached_property
    def past_shares(self) -> Sequence[PastShare]:
        return self.load_shares()


@dataclass(frozen=True)
class PlaceInSeries:
    """An entry and the group in which it competes now. above: the entry above the group; None for the root.

    spans: revisions from (included) to (excluded, None: now) during which it was a child of its present parent.
    """

    uid: UUID
    above: UUID | None = None
    spans: Sequence[tuple[int, int | None]] = ((0, None),)

    def was_there(self, revision: npt.NDArray[np.int32]) -> Mask:
        """Whether it was a child of its present parent in each revision."""
        inside = np.zeros(len(revision), np.bool_)
        for since, until in self.spans:
            inside |= (revision >= since) & (True if until is None else revision < until)
        return inside


def from_series(
    series: DailySeries, places: Sequence[PlaceInSeries], *, as_of: datetime, hourly: bool
) -> list[LevelPast]:
    """Return one level for each place from the built days that ended by `as_of`.

    The pace is estimated from the days on which the entry competed in its present group: on others it has no share.
    """
    rows = {uid: row for row, uid in enumerate(series.uids)}
    is_past = series.days.ends_s <= as_of.timestamp()
    had_usage = np.cumsum((series.days.root_used > 0) | (series.days.root_decayed > 0)) > 0  # since the first usage
    recent = np.flatnonzero(is_past & had_usage)[-PACE_DAYS:]
    level_pasts = []
    for place in places:
        row = rows.get(place.uid)
        if row is None:
            level_pasts.append(LevelPast(np.zeros(0), np.zeros(0), as_of, tuple))
            continue
        competed = series.competes[row] & place.was_there(series.days.revision)
        own, group = series.used[row], series.peers_used[row]
        last = recent[competed[recent]]
        past_shares = [
            PastShare(
                datetime.fromtimestamp(float(series.days.ends_s[day]), UTC), float(series.decayed[row][day] / whole)
            )
            for day in last.tolist()
            if (whole := series.peers_decayed[row][day]) > 0
        ]
        history = None
        if hourly:
            above = series.days.root_used if place.above is None else series.used[rows[place.above]]
            whole_group = np.where(competed, group, above)
            history = _to_hours(
                series.days.ends_s[is_past], np.where(competed, own, 0.0)[is_past], whole_group[is_past]
            )
        until = datetime.fromtimestamp(float(series.days.ends_s[last[-1]]), UTC) if len(last) else as_of
        level_pasts.append(LevelPast(own[last], group[last], until, past_shares.copy, history))
    return level_pasts


def _to_hours(ends_s: F8, own: F8, group: F8) -> History:
    """Spread daily usage evenly over hours."""
    starts_s = (ends_s[:, None] - HOUR_S * np.arange(24, 0, -1)).ravel()
    return History(starts_s, np.repeat(own / 24, 24), np.repeat(group / 24, 24))


def from_buckets(
    inputs: Inputs, tree: TreeColumns, settings: PolicySettings, chain: Sequence[int], *, hourly: bool
) -> list[LevelPast]:
    """Return one level for each entry of `chain` from hourly usage; running jobs are included as the policy's approach
    says.
    """
    entry = place_accounts(tree, inputs.rules, inputs.known, inputs.account_keys).of_usage
    rows = _usage_rows(inputs, settings)
    if not len(rows.hour_s):
        return [LevelPast(np.zeros(0), np.zeros(0), inputs.as_of, tuple) for _ in chain]
    prepared = prepare(tree.engine_tree())
    code, scopes = tree.effective_scopes(local=inputs.local_only)
    as_of_s = inputs.as_of.timestamp()
    first_s = float(rows.hour_s.min())
    level_pasts = []
    for i in chain:
        scope, narrowed = scopes[int(code[max(int(prepared.fairshare_parent[i]), 0)])]
        is_counted = rows.in_scope(inputs, scope, narrowed, settings)
        sums = []
        for inside in (_subtrees(tree, [i]), _subtrees(tree, competitors(tree, i))):
            is_in = np.where(entry >= 0, inside[np.maximum(entry, 0)], False)
            is_own = is_counted & is_in[rows.account]
            place = ((rows.hour_s[is_own] - first_s) // HOUR_S).astype(np.int64)
            n_hours = int((as_of_s - first_s) // HOUR_S) + 1
            sums.append(np.bincount(place, weights=rows.amount[is_own], minlength=n_hours).astype(np.float64))
        hours = History(first_s + HOUR_S * np.arange(len(sums[0]), dtype=np.float64), sums[0], sums[1])
        level_pasts.append(_level_of(hours, window_of(settings.window), as_of_s, hourly=hourly))
    return level_pasts


def competitors(tree: TreeColumns, i: int) -> list[int]:
    """List the entries that compete for the same shares, itself included; empty for one that doesn't compete."""
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
    """Rows of hourly usage. is_running: usage of a job that is still running."""

    hour_s: F8
    account: I8
    source_id: I8
    amount: F8
    is_running: Mask

    def in_scope(self, inputs: Inputs, scope: str, narrowed: Sequence[str], settings: PolicySettings) -> Mask:
        ids = [source.id for source in inputs.sources if source.is_in(scope, narrowed)]
        is_counted: Mask = np.isin(self.source_id, ids)
        return is_counted if settings.approach[scope] != "historical" else is_counted & ~self.is_running


def _usage_rows(inputs: Inputs, settings: PolicySettings) -> _Rows:
    usage, opened = inputs.usage, inputs.opened
    amount = weighted_amounts(usage, metric=settings.metric, classes=inputs.classes)
    rate = weighted_amounts(opened, metric=settings.metric, classes=inputs.classes)
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
    """Split running jobs into hours: index of the job, start of the hour, and seconds the job ran in it."""
    until_s = np.full(len(opened.cpus), as_of_s)
    if opened.known_until_epoch is not None:
        until_s = np.minimum(opened.known_until_epoch, as_of_s)
    start_s = np.where(opened.is_running & (opened.start_epoch < until_s), opened.start_epoch, until_s)
    start_s = np.maximum(start_s, as_of_s - 400 * DAY_S)  # longer than any job runs, to bound the number of rows
    first = np.floor(start_s / HOUR_S)
    n_hours = np.maximum(np.ceil(until_s / HOUR_S) - first, 0).astype(np.int64) * (start_s < until_s)
    job = np.repeat(np.arange(len(start_s)), n_hours)
    within = np.arange(int(n_hours.sum())) - np.repeat(np.cumsum(n_hours) - n_hours, n_hours)
    hour_s = (first[job] + within) * HOUR_S
    seconds = np.minimum(until_s[job], hour_s + HOUR_S) - np.maximum(start_s[job], hour_s)
    return job, hour_s, np.maximum(seconds, 0.0)


def _subtrees(tree: TreeColumns, entries: Sequence[int]) -> Mask:
    """Mask of these entries and everything below them."""
    inside = np.zeros(len(tree), dtype=np.bool_)
    inside[list(entries)] = True
    for level in tree.engine_tree().levels:
        inside[level.lo : level.hi] |= inside[tree.parent[level.lo : level.hi]]
    return inside


def _level_of(hours: History, window: decay.Window, as_of_s: float, *, hourly: bool) -> LevelPast:
    own, group = _daily(hours, as_of_s)
    until = datetime.fromtimestamp(as_of_s, UTC)
    return LevelPast(own, group, until, partial(_shares_of, hours, window, as_of_s), hours if hourly else None)


def _shares_of(hours: History, window: decay.Window, as_of_s: float) -> list[PastShare]:
    """The entry's fraction of its group at the end of each of the last 28 periods of 24 hours, oldest first."""
    past_shares = []
    for days_ago in range(PACE_DAYS, 0, -1):
        then_s = as_of_s - days_ago * DAY_S
        weight = decay.bucket_weights(hours.hour_start_s, then_s, window)
        whole = float(weight @ hours.group_usage)
        if whole > 0:
            past_shares.append(PastShare(datetime.fromtimestamp(then_s, UTC), float(weight @ hours.own_usage) / whole))
    return past_shares


def _daily(hours: History, as_of_s: float) -> tuple[F8, F8]:
    """Sum the last 28 periods of 24 hours, oldest first. An incomplete first one is extrapolated, or dropped if too
    short.
    """
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
        first_day_h = int(covered_h[n_days - 1])
        if first_day_h < _LEAST_HOURS:
            sums = [amount[:-1] for amount in sums]
        elif first_day_h < 24:
            for amount in sums:
                amount[-1] *= 24 / first_day_h
    own, group = (amount[::-1].astype(np.float64) for amount in sums)
    return own, group


def oldest_needed_at(settings: PolicySettings, as_of: datetime) -> datetime | None:
    """Return the instant before which usage has no effect on the last 28 days; None if there is no limit."""
    reach_s = window_of(settings.window).reach_s
    try:
        return None if reach_s is None else as_of - timedelta(days=PACE_DAYS, seconds=reach_s + 2 * HOUR_S)
    except OverflowError:
        return None


def load_past(
    policy: Policy, snapshot: ServedSnapshot, chain: Sequence[int], *, hourly: bool
) -> list[LevelPast] | None:
    """Return one level for each entry of `chain`; None without usage by day. Cached for the request.

    Where hours are requested, buckets are preferred as long as they are few, because the series spreads days evenly.
    """
    key = ("past usage", id(snapshot), *chain, hourly)
    # The snapshot is cached with it and so kept alive: its id stays unique.
    return once_per_request(key, lambda: (snapshot, _load_past(policy, snapshot, chain, hourly)))[1]


def _load_past(policy: Policy, snapshot: ServedSnapshot, chain: Sequence[int], hourly: bool) -> list[LevelPast] | None:
    prefers_hours = hourly and load_snapshot_inputs(policy, snapshot) is not None
    level_pasts = None if prefers_hours else _from_stored_series(policy, snapshot, chain, hourly)
    if level_pasts is not None:
        return level_pasts
    inputs = load_snapshot_inputs(policy, snapshot)
    if inputs is None:
        return None
    return from_buckets(inputs, snapshot.tree, snapshot.settings, chain, hourly=hourly)


def _from_stored_series(
    policy: Policy, snapshot: ServedSnapshot, chain: Sequence[int], hourly: bool
) -> list[LevelPast] | None:
    """Return None if the series isn't built up to the last days."""
    as_of = snapshot.as_of
    reach_s = window_of(snapshot.settings.window).reach_s if hourly else 0.0
    days = _MOST_PACE_DAYS if reach_s is None else min(int(reach_s // DAY_S) + 1, _MOST_PACE_DAYS)
    places = _places(policy, snapshot.tree, chain)
    uids = list(dict.fromkeys(uid for place in places for uid in (place.uid, place.above) if uid is not None))
    to_on = as_of.astimezone(site_zone()).date()
    series = load_series(policy, uids, from_on=to_on - timedelta(days=max(days, PACE_DAYS) + 1), to_on=to_on)
    ended = series.days.ends_s[series.days.ends_s <= as_of.timestamp()]
    if not len(ended) or float(ended[-1]) < as_of.timestamp() - _LATEST_S:
        return None
    return from_series(series, places, as_of=as_of, hourly=hourly)


def _places(policy: Policy, tree: TreeColumns, chain: Sequence[int]) -> list[PlaceInSeries]:
    above = prepare(tree.engine_tree()).fairshare_parent
    uids = [tree.uuid(i) for i in chain]
    spans: dict[tuple[UUID, UUID | None], list[tuple[int, int | None]]] = {}
    versions = Entry.objects.filter(policy=policy, uid__in=uids).values_list("uid", "parent_uid", "since", "until")
    for uid, parent_uid, since, until in versions:
        spans.setdefault((uid, parent_uid), []).append((since, until))
    return [
        PlaceInSeries(
            uid,
            tree.uuid(int(above[i])) if above[i] > 0 else None,
            spans.get((uid, tree.uuid(max(int(tree.parent[i]), 0))), ((0, None),)),
        )
        for uid, i in zip(uids, chain, strict=True)
    ]


@cached(LRUCache(_MOST_CACHED_PACES), key=snapshot_key, lock=Lock())
def load_snapshot_inputs(policy: Policy, snapshot: ServedSnapshot) -> Inputs | None:
    """Load the inputs of a snapshot with 28 more days before its window; None if there are too many buckets."""
    since = oldest_needed_at(snapshot.settings, snapshot.as_of)
    with connection.cursor() as cursor:
        cursor.execute(_COUNT, [since or _BEGINNING, snapshot.as_of, MOST_FORECAST_BUCKETS + 1])
        if int(cursor.fetchone()[0]) > MOST_FORECAST_BUCKETS:
            return None
    inputs = load_inputs(policy, as_of=snapshot.as_of, from_at=since or _BEGINNING, metrics=[snapshot.settings.metric])
    return replace(inputs, tree=snapshot.tree, settings=snapshot.settings)
