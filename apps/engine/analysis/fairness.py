"""One number for how usage came out beside the targets: of siblings, or of all leaves by their global targets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from apps.engine.arrays import FloatArray
from apps.engine.errors import BadParameter


@dataclass(frozen=True)
class Fairness:
    """jain: 1/n..1, 1 where all have an equal part of their target. gini: 0..1, 0 where they have.

    deviation_points: share-weighted mean of |actual − target|. misplaced_points: the part of all usage that exceeds
    targets. demand_error_points: against the targets that demand allows; None without it.
    """

    jain: float
    gini: float
    deviation_points: float
    misplaced_points: float
    demand_error_points: float | None = None


def fairness(target: npt.ArrayLike, actual: npt.ArrayLike, demand: npt.ArrayLike | None = None) -> Fairness:
    """All indices of one group. target, actual: ≥ 0, normalised here; demand: what each could have used, in any unit.

    demand is in the unit of `actual` before that is normalised: usage beside what was asked for.
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


def gini_index(received: npt.ArrayLike, weights: npt.ArrayLike | None = None) -> float:
    """Σᵢⱼ wᵢwⱼ|xᵢ − xⱼ|/(2·Σw·Σwx), 0..1; 0 without usage.

    With targets as weights an entry of 20 % counts like two of 10 %: cutting a group in two changes nothing.
    O(n log n), by the area under the Lorenz curve.
    """
    x = _weights(received, "received")
    w = np.ones_like(x) if weights is None else _weights(weights, "weights")
    order = np.argsort(x, kind="stable")
    w = _normalised(w[order])
    amount = _normalised(w * x[order])
    if float(amount.sum()) == 0:
        return 0.0
    reached = np.cumsum(amount)
    area = float((w * (reached - amount / 2)).sum())
    return min(1.0, max(0.0, 1.0 - 2.0 * area))


def share_weighted_deviation_points(target: npt.ArrayLike, actual: npt.ArrayLike) -> float:
    """100 · Σ t·|s − t|/Σ t, 0..100: large entries count by their size."""
    t, s = _weights(target, "target"), _weights(actual, "actual")
    total = float(t.sum())
    return 100.0 * float((t * np.abs(s - t)).sum()) / total if total > 0 else 0.0


def misplaced_points(wished: npt.ArrayLike, actual: npt.ArrayLike) -> float:
    """100 · ½ Σ |s − a|, 0..100: the part of usage that would have to change hands."""
    a, s = _weights(wished, "wished"), _weights(actual, "actual")
    return 50.0 * float(np.abs(s - a).sum())


def water_fill(target: npt.ArrayLike, demand: npt.ArrayLike, capacity: float) -> FloatArray:
    """min(demand, θ·target) of each, with the one θ that distributes min(capacity, demand).

    No entry gets more than its demand; the rest goes to the others in proportion to their targets, again and
    again. Exact, by sorting demand/target. Entries with target 0 get nothing.
    """
    t, asked = _weights(target, "target"), _weights(demand, "demand")
    asked = np.where(t > 0, asked, 0.0)
    given = np.zeros_like(t)
    order = np.flatnonzero(t > 0)
    order = order[np.argsort(asked[order] / t[order], kind="stable")]
    left, weight = float(capacity), float(t.sum())
    for place, at in enumerate(order.tolist()):
        level = left / weight if weight > 0 else 0.0
        if asked[at] > level * t[at]:
            rest = order[place:]
            given[rest] = np.minimum(asked[rest], left * t[rest] / float(t[rest].sum()))
            break
        given[at] = asked[at]
        left, weight = max(0.0, left - float(asked[at])), weight - float(t[at])
    return given


def demand_error_points(target: npt.ArrayLike, used: npt.ArrayLike, demand: npt.ArrayLike) -> float:
    """100 · ½ Σ |used − wished|/Σ used, wished = `water_fill` of what was used in all, by target and demand.

    An idle entry's share is no error of the scheduler: its target is capped by its demand. Demand below usage is
    raised to it: what ran was requested. 0 without usage.
    """
    got = _weights(used, "used")
    asked = np.maximum(_weights(demand, "demand"), got)
    total = float(got.sum())
    if total == 0:
        return 0.0
    wished = water_fill(target, asked, total)
    return 50.0 * float(np.abs(got - wished).sum()) / total


def _weights(values: npt.ArrayLike, place: str) -> FloatArray:
    found = np.asarray(values, dtype=np.float64)
    if found.ndim != 1 or not bool((np.isfinite(found) & (found >= 0)).all()):
        raise BadParameter("a list of finite numbers ≥ 0 is allowed", place=place)
    return found


def _normalised(values: FloatArray) -> FloatArray:
    top = float(values.max(initial=0.0))
    if top == 0:
        return values
    scaled = values / top
    normal: FloatArray = scaled / scaled.sum()
    return normal
