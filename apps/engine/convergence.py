"""Measures of how usage converges to shares over days, and of how fair usage was.

Arrays are (entries, days) unless stated otherwise; entries may be siblings or any others. Shares are 0..1, usage is ≥ 0
in one unit. counts: the compared entries and days: the entry competes on that day, and its peers have usage.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from apps.engine.arrays import BoolArray, FloatArray
from apps.engine.errors import BadParameter
from apps.engine.target_state import is_on_target

States = npt.NDArray[np.int8]
_ROUNDING = 1e-12  # half a gap that is reached but for the last bit counts as reached


class DayState(IntEnum):
    """State of one entry on one day. Demand is inferred if sources don't report submit times."""

    ABSENT = 0  # nothing to compare: not in the tree, or without shares
    NO_DEMAND = 1  # no job ran and none waited
    MET = 2  # under target, and all requested usage ran
    STARVED = 3  # under target, while jobs waited
    INFERRED = 4  # under target and running; waiting isn't reported
    ON = 5
    OVER = 6


class Outcome(StrEnum):
    """Outcome for the gap opened by a change of the target."""

    REACHED = "reached"  # it halved, and stayed so until the next change or the end
    NOT_YET = "not_yet"  # the last change, and data ends before the gap halved
    OVERTAKEN = "overtaken"  # the next change came first
    NO_GAP = "no_gap"  # it was within the tolerance from the start


@dataclass(frozen=True, slots=True)
class HalfTime:
    """Half-life of one gap. at: the first day with the new target. gap: |actual of the day before − new target|.

    days: until the end of the first day from which the gap stays at half of that or less until the next change. None if
    `outcome` gives the reason.
    """

    at: int
    gap: float
    outcome: Outcome
    days: int | None = None


def actual_share(used: FloatArray, peers: FloatArray) -> FloatArray:
    """used / peers, 0 where peers have no usage; any shape."""
    share: FloatArray = np.divide(used, peers, out=np.zeros(np.shape(used)), where=peers > 0)
    return share


def trailing_sum(values: FloatArray, n_days: int) -> FloatArray:
    """Σ of the last n_days days including each day itself, or of fewer at the start. n_days ≥ 1."""
    if not values.shape[1]:
        return np.zeros(values.shape)
    padded = np.pad(values, ((0, 0), (n_days - 1, 0)))
    sums: FloatArray = np.lib.stride_tricks.sliding_window_view(padded, n_days, axis=1).sum(axis=2)
    return sums


def gap_of(actual: FloatArray, target: FloatArray) -> FloatArray:
    """|actual − target|."""
    return np.abs(actual - target)


def mean_deviation(actual: FloatArray, target: FloatArray, counts: BoolArray) -> tuple[FloatArray, BoolArray]:
    """(Σ target · |actual − target| / Σ target over compared entries, days with any compared entry), each (days,).

    Each entry is weighted by its share; the mean is 0 on days without compared entries.
    """
    return weighted_mean(gap_of(actual, target), target, counts)


def weighted_mean(values: FloatArray, weight: FloatArray, counts: BoolArray) -> tuple[FloatArray, BoolArray]:
    """(Σ weight · value / Σ weight over compared entries, days with any weight), each (days,)."""
    weights = np.where(counts, weight, 0.0)
    total = weights.sum(axis=0)
    mean = np.divide((weights * values).sum(axis=0), total, out=np.zeros(len(total)), where=total > 0)
    return mean, total > 0


def mean_of_days(values: FloatArray, there: BoolArray) -> float | None:
    """Mean of the selected days, (days,); None if there are none."""
    return float(values[there].mean()) if there.any() else None


def half_times(actual: FloatArray, target: FloatArray, tolerance: FloatArray) -> list[HalfTime]:
    """Half-lives after each change of one entry's target; all arrays (days,), consecutive days on which it competes.

    The gap may halve and open again: it counts as halved from the day on after which it stays so.
    """
    changes = (1 + np.flatnonzero(target[1:] != target[:-1])).tolist()
    return [_half_time(actual, target, tolerance, at, end) for at, end in pairwise([*changes, len(target)])]


def _half_time(actual: FloatArray, target: FloatArray, tolerance: FloatArray, at: int, end: int) -> HalfTime:
    gap = float(abs(actual[at - 1] - target[at]))
    if is_on_target(float(actual[at - 1]), float(target[at]), float(tolerance[at])):
        return HalfTime(at, gap, Outcome.NO_GAP)
    open_on = np.flatnonzero(gap_of(actual[at:end], target[at:end]) > gap / 2 + _ROUNDING)
    first = 0 if not len(open_on) else int(open_on[-1]) + 1
    if at + first < end:
        return HalfTime(at, gap, Outcome.REACHED, first + 1)
    return HalfTime(at, gap, Outcome.NOT_YET if end == len(target) else Outcome.OVERTAKEN)


def day_states(
    *,
    actual: FloatArray,
    target: FloatArray,
    tolerance: FloatArray,
    used: FloatArray,
    waited: FloatArray,
    knows_waiting: BoolArray,
    competes: BoolArray,
) -> States:
    """The DayState of each entry and day. used: on that day alone; waited: requested by jobs that waited on it."""
    is_on = is_on_target(actual, target, tolerance)
    under, over = ~is_on & (actual < target), ~is_on & (actual > target)
    ran, waits = used > 0, waited > 0
    states = np.full(np.shape(actual), DayState.ON, np.int8)
    states[over] = DayState.OVER
    states[under & ran & ~knows_waiting] = DayState.INFERRED
    states[under & ran & knows_waiting] = DayState.MET
    states[under & waits] = DayState.STARVED
    states[~ran & ~waits] = DayState.NO_DEMAND
    states[~competes] = DayState.ABSENT
    return states


def demand_aware_gap(actual: FloatArray, target: FloatArray, states: States) -> FloatArray:
    """The part of the gap that contradicts demand; for one sibling group.

    max(target − actual, 0) where the entry had demand, known or inferred (STARVED or INFERRED). max(actual − target, 0)
    where another entry of the group was STARVED on that day.
    """
    starved = states == DayState.STARVED
    wanted = starved | (states == DayState.INFERRED)
    others_starved = starved.sum(axis=0, keepdims=True) - starved > 0
    shortfall = np.where(wanted, np.maximum(target - actual, 0.0), 0.0)
    excess = np.where(others_starved & (states != DayState.ABSENT), np.maximum(actual - target, 0.0), 0.0)
    return shortfall + excess


def redistributed_share(actual: FloatArray, target: FloatArray, states: States) -> FloatArray:
    """Σ max(target − actual, 0) over entries without further demand (NO_DEMAND or MET), (days,)."""
    quiet = (states == DayState.NO_DEMAND) | (states == DayState.MET)
    left: FloatArray = np.where(quiet, np.maximum(target - actual, 0.0), 0.0).sum(axis=0)
    return left


def demand_aware_error(
    actual: FloatArray, target: FloatArray, states: States, counts: BoolArray
) -> tuple[FloatArray, BoolArray]:
    """(Σ target · demand-aware gap / Σ target over compared entries, days with any compared entry), each (days,)."""
    return weighted_mean(demand_aware_gap(actual, target, states), target, counts)


@dataclass(frozen=True)
class Fairness:
    """Fairness indices. jain: 1/n..1, 1 if all have an equal part of their target. gini: 0..1, 0 in that case.

    deviation_points: share-weighted mean of |actual − target|. misplaced_points: the part of all usage that exceeds
    targets. demand_error_points: relative to the targets that demand allows; None without demand.
    """

    jain: float
    gini: float
    deviation_points: float
    misplaced_points: float
    demand_error_points: float | None = None


def fairness(target: npt.ArrayLike, actual: npt.ArrayLike, demand: npt.ArrayLike | None = None) -> Fairness:
    """All indices of one group. target, actual: ≥ 0, normalised here.

    demand: usage plus requested time, in the unit of `actual` before that is normalised.
    """
    t, used = _weights(target, "target"), _weights(actual, "actual")
    if len(t) != len(used):
        raise BadParameter(f"{len(used)} actuals for {len(t)} targets", place="actual")
    t, s = _normalised(t), _normalised(used)
    has_shares = t > 0
    received = s[has_shares] / t[has_shares]
    return Fairness(
        jain=jain_index(received),
        gini=gini_index(received, t[has_shares]),
        deviation_points=share_weighted_deviation_points(t, s),
        misplaced_points=misplaced_points(t, s),
        demand_error_points=None if demand is None else demand_error_points(t, used, demand),
    )


def jain_index(received: npt.ArrayLike) -> float:
    """(Σx)²/(n·Σx²), 1/n..1; 1 without usage. x: actual/target of each entry with shares.

    Source: Jain, Chiu, Hawe, A Quantitative Measure of Fairness and Discrimination, DEC-TR-301, 1984.
    """
    x = _weights(received, "received")
    top = float(x.max(initial=0.0))
    if top == 0:
        return 1.0
    x = x / top
    return float(x.sum() ** 2 / (len(x) * (x * x).sum()))


def gini_index(received: npt.ArrayLike, weights: npt.ArrayLike) -> float:
    """Σᵢⱼ wᵢwⱼ|xᵢ − xⱼ|/(2·Σw·Σwx), 0..1; 0 without usage.

    With targets as weights an entry of 20 % counts like two of 10 %, so splitting a group changes nothing. O(n log n),
    by the area under the Lorenz curve.
    """
    x, w = _weights(received, "received"), _weights(weights, "weights")
    order = np.argsort(x, kind="stable")
    w = _normalised(w[order])
    amount = _normalised(w * x[order])
    if float(amount.sum()) == 0:
        return 0.0
    reached = np.cumsum(amount)
    area = float((w * (reached - amount / 2)).sum())
    return min(1.0, max(0.0, 1.0 - 2.0 * area))


def share_weighted_deviation_points(target: npt.ArrayLike, actual: npt.ArrayLike) -> float:
    """100 · Σ t·|s − t|/Σ t, 0..100: entries are weighted by their targets."""
    t, s = _weights(target, "target"), _weights(actual, "actual")
    total = float(t.sum())
    return 100.0 * float((t * np.abs(s - t)).sum()) / total if total > 0 else 0.0


def misplaced_points(wished: npt.ArrayLike, actual: npt.ArrayLike) -> float:
    """100 · ½ Σ |s − a|, 0..100: the part of usage that would have to be redistributed."""
    a, s = _weights(wished, "wished"), _weights(actual, "actual")
    return 50.0 * float(np.abs(s - a).sum())


def water_fill(target: npt.ArrayLike, demand: npt.ArrayLike, capacity: float) -> FloatArray:
    """min(demand, θ·target) of each, with the θ for which the sum is min(capacity, Σ demand).

    No entry gets more than its demand; the rest is distributed among the others in proportion to their targets,
    repeatedly. Exact, by sorting demand/target. Entries with target 0 get nothing.
    """
    t, asked = _weights(target, "target"), _weights(demand, "demand")
    asked = np.where(t > 0, asked, 0.0)
    amounts = np.zeros_like(t)
    order = np.flatnonzero(t > 0)
    order = order[np.argsort(asked[order] / t[order], kind="stable")]
    left, weight = float(capacity), float(t.sum())
    for place, at in enumerate(order.tolist()):
        level = left / weight if weight > 0 else 0.0
        if asked[at] > level * t[at]:
            rest = order[place:]
            amounts[rest] = np.minimum(asked[rest], left * t[rest] / float(t[rest].sum()))
            break
        amounts[at] = asked[at]
        left, weight = max(0.0, left - float(asked[at])), weight - float(t[at])
    return amounts


def demand_error_points(target: npt.ArrayLike, used: npt.ArrayLike, demand: npt.ArrayLike) -> float:
    """100 · ½ Σ |used − wished|/Σ used, wished = `water_fill` of all usage by target and demand.

    An idle entry's share is not an error of the scheduler: its target is capped by its demand. Demand below usage is
    raised to usage, because usage was requested. 0 without usage.
    """
    got = _weights(used, "used")
    asked = np.maximum(_weights(demand, "demand"), got)
    total = float(got.sum())
    if total == 0:
        return 0.0
    wished = water_fill(target, asked, total)
    return 50.0 * float(np.abs(got - wished).sum()) / total


def _weights(values: npt.ArrayLike, place: str) -> FloatArray:
    weights = np.asarray(values, dtype=np.float64)
    if weights.ndim != 1 or not bool((np.isfinite(weights) & (weights >= 0)).all()):
        raise BadParameter("a list of finite numbers ≥ 0 is allowed", place=place)
    return weights


def _normalised(values: FloatArray) -> FloatArray:
    top = float(values.max(initial=0.0))
    if top == 0:
        return values
    scaled = values / top
    normal: FloatArray = scaled / scaled.sum()
    return normal
