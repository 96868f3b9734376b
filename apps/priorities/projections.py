"""When entries will be on target and their fractions in the coming days, as an installed plug-in projects them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from uuid import UUID

from apps.core.plugins import PluginConfig, plugins
from apps.engine.explain import Outcome
from apps.priorities.selectors.draft import DraftRow, DraftView
from apps.priorities.selectors.rows import PolicyView

HORIZON_DAYS = 90  # a later date is too uncertain to plan with
NEXT_DAYS = 30


@dataclass(frozen=True)
class CurvePoint:
    """The entry's fraction of its group at an instant: most likely, quartiles, and range."""

    at: datetime
    likely: float
    least: float
    p25: float
    p75: float
    most: float


@dataclass(frozen=True, slots=True)
class PaceDays:
    """The days from which a pace is measured: their number, at least one, and when the last one ends."""

    n: int
    until: datetime


@dataclass(frozen=True, eq=False, slots=True)
class Projection:
    """One entry's way to its target if usage continues as in the last days, from the snapshot's instant `as_of` on.

    on_target_at: when it is within its tolerance at the usual pace; None unless the outcome is `recovers`. earliest_at,
    latest_at: the same at the quartiles of the pace; None where that pace doesn't lead there within HORIZON_DAYS.
    usual_share: its fraction, 0..1, of the group's usage in the last days, which is the assumed one.
    pace_days: from which the pace is; None where it is on target without one.
    curve: takes whole days, 1..HORIZON_DAYS; its points are one day apart, the first at `as_of`.
    """

    outcome: Outcome
    as_of: datetime
    on_target_at: datetime | None
    earliest_at: datetime | None
    latest_at: datetime | None
    usual_share: float
    pace_days: PaceDays | None
    curve: Callable[[int], Sequence[CurvePoint]]

    @property
    def next_days(self) -> Sequence[CurvePoint]:
        """The curve of the next NEXT_DAYS days."""
        return self.curve(NEXT_DAYS)


def projections_of(view: PolicyView, uids: Sequence[UUID]) -> Mapping[UUID, Projection]:
    """Projections of these entries, computed together; without those whose recent usage is unknown or not shown in
    full. Empty for views of the past, and without a plug-in that projects.
    """
    projected: dict[UUID, Projection] = {}
    if view.asked is None and view.snapshot is not None:
        for plugin in plugins():
            projected = {**plugin.projections(view=view, uids=uids), **projected}
    return projected


@dataclass(frozen=True, eq=False, slots=True)
class DraftProjection:
    """One entry of a draft on its way to its target: to that of the revision, and to that of the draft.

    Usage is the same on both, because it doesn't follow shares. None where it has no target, or its pace is unknown.
    """

    before: Projection | None
    after: Projection | None


def draft_projections_of(view: DraftView, rows: Sequence[DraftRow]) -> Mapping[UUID, DraftProjection]:
    """Projections of rows of a draft, computed together; without those that the draft adds or moves, which have no
    usage in their group. Empty without a plug-in that projects.
    """
    projected: dict[UUID, DraftProjection] = {}
    stay = [row for row in rows if row.actual is not None and row.stays]
    if view.snapshot is not None and stay:
        for plugin in plugins():
            projected = {**plugin.draft_projections(view=view, rows=stay), **projected}
    return projected


def projects_drafts() -> bool:
    """Whether an installed plug-in projects entries of drafts."""
    return _one_projects_drafts(plugins())


@cache
def _one_projects_drafts(installed: tuple[PluginConfig, ...]) -> bool:
    return any(type(plugin).draft_projections is not PluginConfig.draft_projections for plugin in installed)
