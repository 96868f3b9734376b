"""Projections of the entries of a page or of a draft, from the forecasts of their levels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cache
from uuid import UUID

from apps.contrib.forecast.cached_forecasts import forecasts_of
from apps.contrib.forecast.entry_forecast import Outlook, curve_of, instant_of, with_target
from apps.contrib.forecast.selectors import slack_at
from apps.engine.target_state import slack_of
from apps.policies.settings import tolerance_at
from apps.priorities.projections import CurvePoint, DraftProjection, Projection
from apps.priorities.selectors.draft import DraftRow, DraftView
from apps.priorities.selectors.rows import PolicyView


def project(view: PolicyView, uids: Sequence[UUID]) -> Iterator[tuple[UUID, Projection]]:
    """Project entries to the targets of the view, whose revision may be newer than its snapshot."""
    if view.snapshot is None:
        return
    indices = {uid: i for uid in uids if (i := view.tree.index_of_uid(uid)) and _is_shown(view, i)}
    for uid, forecast in forecasts_of(view.policy, view.snapshot, list(indices)).items():
        i = indices[uid]
        target = float(view.target[0][i])
        slack = slack_of(target, tolerance_at(view.settings.tolerance, not view.tree.n_children[i]))
        outlook = with_target(forecast, target=target, slack=slack)
        if outlook.is_known:
            yield uid, _projection(outlook, view.snapshot.as_of)


def project_draft(view: DraftView, rows: Sequence[DraftRow]) -> Iterator[tuple[UUID, DraftProjection]]:
    """Project rows of a draft whose usage is shown, to their targets in the revision and in the draft."""
    snapshot = view.snapshot
    if snapshot is None:
        return
    forecasts = forecasts_of(view.policy, snapshot, [row.node.uid for row in rows])

    def projection(uid: UUID, target: float | None) -> Projection | None:
        if target is None:
            return None
        slack = slack_at(snapshot, snapshot.tree.index_of_uid(uid) or 0, target)
        outlook = with_target(forecasts[uid], target=target, slack=slack)
        return _projection(outlook, snapshot.as_of) if outlook.is_known else None

    for row in rows:
        uid = row.node.uid
        if uid in forecasts:
            yield uid, DraftProjection(projection(uid, row.target_before), projection(uid, row.target))


def _is_shown(view: PolicyView, i: int) -> bool:
    """Whether the actor sees the days from which the pace is estimated."""
    return bool(view.competes[i] and view.shows_numbers[i] and view.visibility.outright[i])


def _projection(outlook: Outlook, as_of: datetime) -> Projection:
    @cache
    def curve(days: int) -> Sequence[CurvePoint]:
        return curve_of(outlook, as_of, days=days, n_points=days + 1)

    recoveries = outlook.to_target
    return Projection(
        recoveries.middle.outcome,
        as_of,
        on_target_at=instant_of(as_of, recoveries.middle),
        earliest_at=instant_of(as_of, recoveries.soonest),
        latest_at=instant_of(as_of, recoveries.latest),
        usual_share=outlook.share,
        pace_days=outlook.days,
        curve=curve,
    )
