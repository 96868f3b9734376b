"""When entries will be on target and their fractions in the coming days, as an installed plug-in projects them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal
from uuid import UUID

from apps.core.plugins import plugins
from apps.priorities.selectors.rows import PolicyView

Outcome = Literal["on_target", "recovers", "never_if_nobody_runs", "not_at_this_pace", "not_within_horizon"]
HORIZON_DAYS = 90  # a later date is too uncertain to plan with


@dataclass(frozen=True)
class CurvePoint:
    """The entry's fraction of its group at an instant: most likely, quartiles, and range."""

    at: datetime
    likely: float
    least: float
    p25: float
    p75: float
    most: float


@dataclass(frozen=True, eq=False, slots=True)
class Projection:
    """One entry's way to its target if usage continues as in the last days, from the snapshot's instant `as_of` on.

    on_target_at: when it is within its tolerance at the usual pace; None unless the outcome is `recovers`. earliest_at,
    latest_at: the same at the quartiles of the pace; None where that pace doesn't lead there within HORIZON_DAYS.
    curve: takes whole days, 1..HORIZON_DAYS; its points are one day apart, the first at `as_of`.
    """

    outcome: Outcome
    as_of: datetime
    on_target_at: datetime | None
    earliest_at: datetime | None
    latest_at: datetime | None
    curve: Callable[[int], Sequence[CurvePoint]]


def projections_of(view: PolicyView, uids: Sequence[UUID]) -> Mapping[UUID, Projection]:
    """Projections of these entries, computed together; without those whose recent usage is unknown or not shown in
    full. Empty for views of the past, and without a plug-in that projects.
    """
    projected: dict[UUID, Projection] = {}
    if view.asked is None and view.snapshot is not None:
        for plugin in plugins():
            projected = {**plugin.projections(view=view, uids=uids), **projected}
    return projected
