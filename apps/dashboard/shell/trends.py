"""Sparklines for rows of a list: the last fourteen days beside the numbers of now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from uuid import UUID

from django.utils.translation import gettext as _

from apps.analytics.convergence.trend import Trend, load_trends
from apps.dashboard.figures import sparkline
from apps.dashboard.figures.sparkline import Sparkline
from apps.dashboard.shell import presentation
from apps.priorities.selectors import EntryRow, PolicyView

MOST = 300  # rows of one page that get theirs
_COLOURED = ("over", "under")


@dataclass(frozen=True, slots=True)
class DrawnTrend:
    """A line, and what it says to somebody who can't see it."""

    figure: Sparkline
    words: str


def draw_trends(view: PolicyView, rows: Sequence[EntryRow], *, of: str = "parent") -> dict[UUID, DrawnTrend]:
    """By entry; one read for all rows. Entries without known days are left out."""
    wanted = [row for row in rows if row.parent_uid is not None and row.target is not None][:MOST]
    found = load_trends(view, [row.uid for row in wanted], of=of)
    drawn = {}
    for row in wanted:
        trend = found.get(row.uid)
        state = row.state if row.state in _COLOURED else "on"
        line = sparkline.draw(trend.actual, trend.target, state=state) if trend is not None else None
        if trend is not None and line is not None:
            drawn[row.uid] = DrawnTrend(line, _words(trend))
    return drawn


def _words(trend: Trend) -> str:
    known = [value for value in trend.actual if isfinite(value)]
    return _("%(before)s to %(after)s in %(n)s days") % {
        "before": presentation.percent(known[0]),
        "after": presentation.percent(known[-1]),
        "n": len(trend.actual),
    }
