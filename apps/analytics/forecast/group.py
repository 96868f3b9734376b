"""When each entry of a group is within tolerance again, for targets that a draft proposes: the forecast of a level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from threading import Lock
from uuid import UUID

from cachetools import LRUCache, cached

from apps.analytics.forecast.entry_forecast import CurvePoint, Outlook, curve_of, foresee, needs_hours, with_target
from apps.analytics.forecast.selectors import standing_of
from apps.analytics.forecast.usage_source import key_of, read_past
from apps.engine.explain import Recovery
from apps.policies.models import Policy
from apps.priorities.metering.usage import window_of
from apps.priorities.serving.lookup_index import ServedSnapshot

DAYS_AHEAD = 30
DAYS_BACK = 14
_MOST_REMEMBERED = 16


@dataclass(frozen=True, eq=False)
class MemberForecast:
    """One entry of a group at its present target. so_far: at the ends of days, and the part it had of its group."""

    uid: UUID
    outlook: Outlook
    so_far: Sequence[tuple[datetime, float]]

    def curve(self, as_of: datetime) -> Sequence[CurvePoint]:
        """Its part of the group's usage on each of the next 30 days, today first; independent of drafted shares."""
        return curve_of(self.outlook, as_of, days=DAYS_AHEAD, n_points=DAYS_AHEAD + 1)

    def back_within_tolerance(self, snapshot: ServedSnapshot, target: float) -> Recovery:
        """When it would be, with this target, if demand goes on as in the last days."""
        tolerance = snapshot.settings.tolerance
        slack = max(tolerance["relative"] * target, tolerance["points"] / 100)
        found = with_target(self.outlook, target=target, slack=slack)
        return Recovery("on_target", 0.0) if found.to_tolerance is None else found.to_tolerance.middle


def forecasts_of(policy: Policy, snapshot: ServedSnapshot, uids: Sequence[UUID]) -> Mapping[UUID, MemberForecast]:
    """Of those entries that compete in the snapshot; empty where the last days are unknown.

    The caller leaves out hidden entries. Independent of targets, so that it is cached while a user tries one number
    after the other.
    """
    return _foreseen(policy, snapshot, tuple(sorted(uids)))


@cached(LRUCache(_MOST_REMEMBERED), key=lambda policy, snapshot, uids: (*key_of(policy, snapshot), uids), lock=Lock())
def _foreseen(policy: Policy, snapshot: ServedSnapshot, uids: tuple[UUID, ...]) -> dict[UUID, MemberForecast]:
    places = [(uid, i) for uid in uids if (i := snapshot.tree.index_of_uid(uid))]
    standings = [(uid, i, standing) for uid, i in places if (standing := standing_of(snapshot, i)) is not None]
    if not standings:
        return {}
    window = window_of(snapshot.settings.window)
    pasts = read_past(policy, snapshot, [i for _uid, i, _standing in standings], hourly=needs_hours(window))
    if pasts is None:
        return {}
    as_of_s = snapshot.as_of.timestamp()
    return {
        uid: MemberForecast(uid, foresee(standing, past, window, as_of_s=as_of_s), past.so_far[-DAYS_BACK:])
        for (uid, _i, standing), past in zip(standings, pasts, strict=True)
    }
