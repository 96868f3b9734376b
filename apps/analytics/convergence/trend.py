"""The last days of entries in a list, in one read: what sparklines beside numbers are drawn from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

import numpy as np

from apps.analytics.convergence.shares import Counting, actual_share, target_share
from apps.analytics.series.stored_series import load_series, series_state
from apps.analytics.series.visible_days import as_visible
from apps.priorities.selectors.rows import PolicyView

DAYS = 14


@dataclass(frozen=True, slots=True)
class Trend:
    """Fractions of the parent (or of the total), oldest first; NaN where unknown or hidden. `target`: the last."""

    actual: tuple[float, ...]
    target: float


def load_trends(view: PolicyView, uids: Iterable[UUID], *, of: str = "parent", n_days: int = DAYS) -> dict[UUID, Trend]:
    """By entry, of those that have days: decayed, as priorities count. Nothing while a view shows the past."""
    state = series_state(view.policy)
    wanted = list(uids)
    if state.through_on is None or view.asked is not None or not wanted:
        return {}
    from_on = state.through_on - timedelta(days=n_days - 1)
    series = load_series(view.policy, wanted, from_on=from_on, to_on=state.through_on)
    if not series.days.on:
        return {}
    series, told = as_visible(series, view=view)
    actual = np.where(told, actual_share(series, Counting(of=of)), np.nan)
    target = target_share(series, of)
    return {
        uid: Trend(tuple(actual[row].tolist()), float(target[row, -1]))
        for row, uid in enumerate(series.uids)
        if np.isfinite(actual[row]).any()
    }
