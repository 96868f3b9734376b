"""Sparklines for rows of a list: the last fourteen days beside the numbers of now."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from apps.dashboard.figures import sparkline
from apps.dashboard.figures.sparkline import Sparkline
from apps.priorities.convergence.trend import load_trends
from apps.priorities.selectors import EntryRow, PolicyView

_COLOURED = ("over", "under")


def draw_trends(view: PolicyView, rows: Sequence[EntryRow], *, of: str = "parent") -> dict[UUID, Sparkline]:
    """By entry; one read for all rows. Entries without known days are left out."""
    found = load_trends(view, [row.uid for row in rows if row.parent_uid is not None and row.target is not None], of=of)
    drawn = {}
    for row in rows:
        trend = found.get(row.uid)
        state = row.state if row.state in _COLOURED else "on"
        line = sparkline.draw(trend.actual, trend.target, state=state) if trend is not None else None
        if line is not None:
            drawn[row.uid] = line
    return drawn
