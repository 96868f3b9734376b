"""Forecasts of the balance of one group of a draft at present demand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from threading import Lock
from uuid import UUID

from cachetools import LRUCache, cached

from apps.contrib.forecast.entry_forecast import (
    Outlook,
    curve_of,
    forecast_level,
    needs_hourly_usage,
    with_target,
)
from apps.contrib.forecast.past_usage import load_past
from apps.contrib.forecast.selectors import level_state, slack_at
from apps.engine.explain import Recovery
from apps.policies.models import Policy
from apps.priorities.metering import has_known_decay, window_of
from apps.priorities.projections import CurvePoint
from apps.priorities.selectors.draft import DraftRow, DraftView
from apps.priorities.selectors.draft_group import DraftGroup
from apps.priorities.serving.served_snapshot import ServedSnapshot, snapshot_key

DAYS_AHEAD = 30
DAYS_BACK = 14
_MOST_CACHED = 16


@dataclass(frozen=True, eq=False)
class MemberForecast:
    """Forecast of one entry at its present target. so_far: ends of past days, and its fraction of the group then."""

    uid: UUID
    outlook: Outlook
    so_far: Sequence[tuple[datetime, float]]

    def curve(self, as_of: datetime) -> Sequence[CurvePoint]:
        """Return its fraction of the group's usage on each of the next 30 days, independent of drafted shares."""
        return curve_of(self.outlook, as_of, days=DAYS_AHEAD, n_points=DAYS_AHEAD + 1)

    def back_on_target(self, snapshot: ServedSnapshot, target: float) -> Recovery | None:
        """Return when it is on this target, if demand continues as in recent days; None if those are unknown."""
        entry = snapshot.tree.index_of_uid(self.uid) or 0
        outlook = with_target(self.outlook, target=target, slack=slack_at(snapshot, entry, target))
        return outlook.to_target.middle if outlook.is_known else None


def forecasts_of(policy: Policy, snapshot: ServedSnapshot, uids: Sequence[UUID]) -> Mapping[UUID, MemberForecast]:
    """Return forecasts for the entries that compete in the snapshot; empty if recent usage is unknown.

    The caller removes hidden entries. Independent of targets, so that it is cached while a user tries shares.
    """
    return _forecasts(policy, snapshot, tuple(sorted(uids)))


@cached(LRUCache(_MOST_CACHED), key=lambda policy, snapshot, uids: (*snapshot_key(policy, snapshot), uids), lock=Lock())
def _forecasts(policy: Policy, snapshot: ServedSnapshot, uids: tuple[UUID, ...]) -> dict[UUID, MemberForecast]:
    indices = [(uid, i) for uid in uids if (i := snapshot.tree.index_of_uid(uid))]
    states = [(uid, i, state) for uid, i in indices if (state := level_state(snapshot, i)) is not None]
    if not states or not has_known_decay(snapshot.settings.window):
        return {}
    window = window_of(snapshot.settings.window)
    pasts = load_past(policy, snapshot, [i for _uid, i, _state in states], hourly=needs_hourly_usage(window))
    if pasts is None:
        return {}
    as_of_s = snapshot.as_of.timestamp()
    return {
        uid: MemberForecast(uid, forecast_level(state, past, window, as_of_s=as_of_s), past.past_shares[-DAYS_BACK:])
        for (uid, _i, state), past in zip(states, pasts, strict=True)
    }


@dataclass(frozen=True, eq=False)
class MemberOutlook:
    """forecast: None if its usage is hidden, or recent usage is unknown.

    on_target, on_target_before: when it is within tolerance of its target in the draft, and in the revision.
    """

    row: DraftRow
    forecast: MemberForecast | None
    on_target: Recovery | None
    on_target_before: Recovery | None


@dataclass(frozen=True, eq=False)
class GroupForecast:
    """Forecasts of a group's rows at present demand; as_of None: nothing has been computed yet."""

    group: DraftGroup
    as_of: datetime | None
    members: Sequence[MemberOutlook]


def get_group_forecast(view: DraftView, group: DraftGroup) -> GroupForecast:
    """Forecast the rows. Entries that the draft adds or moves here have no forecast: they have no usage in
    this group.
    """
    snapshot = view.snapshot
    if snapshot is None:
        return GroupForecast(group, None, [MemberOutlook(row, None, None, None) for row in group.rows])
    known = [row.node.uid for row in group.rows if row.actual is not None and group.had_before(row)]
    forecasts = forecasts_of(view.policy, snapshot, known)

    def back(row: DraftRow, target: float | None) -> Recovery | None:
        forecast = forecasts.get(row.node.uid)
        return None if forecast is None or target is None else forecast.back_on_target(snapshot, target)

    members = [
        MemberOutlook(row, forecasts.get(row.node.uid), back(row, row.target), back(row, row.target_before))
        for row in group.rows
    ]
    return GroupForecast(group, snapshot.as_of, members)
