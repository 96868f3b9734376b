"""Figures of merit and what each day was, by the engine's one arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from apps.analytics.convergence.before_entry import BEFORE_ENTRY
from apps.analytics.convergence.verdict import Shares, States
from apps.analytics.series.storage.columns import F8, DailySeries, Mask, SeriesDays
from apps.engine import convergence as engine
from apps.engine.convergence import DayState, HalfTime, Outcome

NAMES = np.array([""] + [state.name.lower() for state in DayState if state is not DayState.ABSENT])


@dataclass(frozen=True, slots=True)
class Figures:
    """Means of days, over known and visible numbers; None where there is none.

    mean_deviation: share-weighted |actual − target|. inside: part of the shares within their band. demand_error: as the
    mean deviation, of unmet demand alone. idle_given: part that entries without further demand
    left to others. half_time_days: of the last change of targets the slowest entry's until half of its gap was gone;
    None: nothing changed, infinite: one hasn't come so far (`n_halved` of `n_changed` have).
    """

    mean_deviation: float | None = None
    inside: float | None = None
    demand_error: float | None = None
    idle_given: float | None = None
    half_time_days: float | None = None
    half_time_revision: int | None = None
    n_halved: int = 0
    n_changed: int = 0
    n_days: int = 0


def slack_of(target: F8, tolerance: Mapping[str, Any]) -> F8:
    """Half the band around each target."""
    return engine.tolerance_of(target, relative=tolerance["relative"], points=tolerance["points"])


def states_of(
    actual: F8, target: F8, slack: F8, series: DailySeries, told: Mask, before_entry: Mask | None = None
) -> States:
    """Names of DayState in small letters, or `before_entry`; "" where nothing can be compared, or it is hidden."""
    codes = engine.day_states(
        actual=_filled(actual),
        target=_filled(target),
        tolerance=_filled(slack),
        used=series.used,
        waited=series.waited_core_s,
        knows_waiting=series.knows_waiting,
        competes=series.competes & told,
    )
    codes[~np.isfinite(actual)] = DayState.ABSENT
    found = NAMES[codes]
    return found if before_entry is None else np.where(before_entry, BEFORE_ENTRY, found)


def measure(shares: Shares, days: SeriesDays) -> Figures:
    actual, target, slack = _filled(shares.actual), _filled(shares.target), _filled(shares.slack)
    counts = np.isfinite(shares.actual) & np.isfinite(shares.target)
    codes = np.zeros(shares.states.shape, dtype=np.int8)
    for code, name in enumerate(NAMES.tolist()):
        codes[shares.states == name] = code
    inside = engine.is_inside(actual, target, slack).astype(np.float64)
    return Figures(
        mean_deviation=engine.mean_of_days(*engine.mean_deviation(actual, target, counts)),
        inside=engine.mean_of_days(*engine.weighted_mean(inside, target, counts)),
        demand_error=engine.mean_of_days(*engine.demand_aware_error(actual, target, codes, counts)),
        idle_given=engine.mean_of_days(engine.given_away(actual, target, codes), np.asarray(counts.any(axis=0))),
        n_days=len(days.on),
        **_half_time(shares, days),
    )


def half_times_of(shares: Shares, row: int) -> list[HalfTime]:
    """After each change of one member's target, on the days it competes without a break up to the last."""
    unknown = np.flatnonzero(~(np.isfinite(shares.actual[row]) & np.isfinite(shares.target[row])))
    first = int(unknown[-1]) + 1 if unknown.size else 0
    if len(shares.on) - first < 2:
        return []
    found = engine.half_times(shares.actual[row, first:], shares.target[row, first:], shares.slack[row, first:])
    return [HalfTime(one.at + first, one.gap, one.outcome, one.days) for one in found]


def _half_time(shares: Shares, days: SeriesDays) -> dict[str, Any]:
    """Of the last day on which a target changed so that there was a gap to close."""
    last: Sequence[HalfTime] = [
        one
        for row in range(len(shares.names))
        for one in half_times_of(shares, row)
        if one.outcome in (Outcome.REACHED, Outcome.NOT_YET)
    ]
    if not last:
        return {}
    at = max(one.at for one in last)
    changed = [one for one in last if one.at == at]
    halved = [one.days for one in changed if one.days is not None]
    return {
        "half_time_days": float(max(halved)) if len(halved) == len(changed) else inf,
        "half_time_revision": int(days.revision[at]),
        "n_halved": len(halved),
        "n_changed": len(changed),
    }


def _filled(values: F8) -> F8:
    """What isn't known as 0, for sums it is left out of."""
    return np.where(np.isfinite(values), values, 0.0)
