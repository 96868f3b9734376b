"""Since when an entry is outside its band although it wants to be inside: arrays in, runs of days out. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt

from apps.analytics.series.storage.columns import DailySeries, Mask
from apps.analytics.series.stored_series import load_series, series_state
from apps.engine.convergence import DayState, actual_share, day_states, tolerance_of
from apps.policies.models import Policy

STALE_AFTER = timedelta(days=3)


def newest_day(policy: Policy, today: date) -> date | None:
    """The last day that is built, or None where it lies so far back that nothing can be said of now."""
    through_on = series_state(policy).through_on
    return through_on if through_on is not None and today - through_on <= STALE_AFTER else None


def last_days(policy: Policy, uids: Sequence[UUID], *, through_on: date, n_days: int) -> DailySeries:
    return load_series(policy, uids, from_on=through_on - timedelta(days=n_days - 1), to_on=through_on)


I8 = npt.NDArray[np.int64]
F8 = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Drift:
    """Of some siblings, up to the last day; arrays (entries,).

    starved_days: in a row under the band with demand. pushing_days: in a row over it while a sibling was starved.
    deviation: actual − target on the last day.
    """

    starved_days: I8
    pushing_days: I8
    deviation: F8


def drift_of(siblings: DailySeries, *, tolerance: Mapping[str, Any]) -> Drift:
    """All competitors of one group; only days without a gap before the last one count.

    actual = decayed / peers_decayed at the day's end. Starved, over: its DayState, as the convergence page draws them;
    days without a report on waiting jobs are neither.
    """
    counted = _without_gaps(siblings)
    peers = siblings.peers_decayed[:, counted]
    target = siblings.target[:, counted]
    actual = actual_share(siblings.decayed[:, counted], peers)
    states = day_states(
        actual=actual,
        target=target,
        tolerance=tolerance_of(target, relative=tolerance["relative"], points=tolerance["points"]),
        used=siblings.used[:, counted],
        waited=siblings.waited_core_s[:, counted],
        knows_waiting=siblings.knows_waiting[:, counted],
        competes=siblings.exists[:, counted] & siblings.competes[:, counted] & (peers > 0),
    )
    starved = states == DayState.STARVED
    pushing = (states == DayState.OVER) & starved.any(axis=0)
    deviation = (actual - target)[:, -1] if counted.any() else np.zeros(len(siblings.uids))
    return Drift(_run_at_end(starved), _run_at_end(pushing), deviation)


def _without_gaps(series: DailySeries) -> Mask:
    """The days after the last gap, and of the policy's own life."""
    on = series.days.on
    counted = np.zeros(len(on), dtype=np.bool_)
    for at in range(len(on) - 1, -1, -1):
        is_next = at == len(on) - 1 or on[at + 1] - on[at] == timedelta(days=1)
        if not is_next or series.days.is_before_first[at]:
            break
        counted[at] = True
    return counted


def _run_at_end(mask: Mask) -> I8:
    """How many of the last days in a row."""
    backwards = mask[:, ::-1]
    found: I8 = np.cumprod(backwards, axis=1).sum(axis=1, dtype=np.int64)
    return found
