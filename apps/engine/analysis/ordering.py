"""Which operators put the same entries in the same order, and who gets the share that idle siblings leave."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from apps.engine.arrays import BoolArray, FloatArray
from apps.engine.operators import Operator

# Priorities nearer to each other than this are taken as equal, so that rounding is no disagreement.
_EQUAL = 1e-9


def state_of_same_priority(operator: Operator, target: FloatArray, actual: FloatArray, other: FloatArray) -> FloatArray:
    """G(F, t_j, s_j, t_i): the s_i, beyond 1 perhaps, with F(t_i, s_i) = F(t_j, s_j); targets > 0.

    Operators with the same G order alike. The relative and sigmoid families and Slurm's share s_j · t_i/t_j; absolute
    has t_i − t_j + s_j. Source: operators paper, eq. 16.
    """
    if operator.inverse is None:
        return operator.state(operator(target, actual), other)  # says that there is none
    state: FloatArray = operator.inverse(operator(target, actual), other)
    return state


@dataclass(frozen=True)
class Agreement:
    """Pairs of entries that two ways put in an order: compared ones, and those put the other way round."""

    pairs: int
    reversed_pairs: int
    example: tuple[float, float, float, float] | None  # t_i, s_i, t_j, s_j of a reversed pair

    @property
    def share(self) -> float:
        """0..1; 1 where they always agree."""
        return 1.0 - self.reversed_pairs / self.pairs if self.pairs else 1.0

    @property
    def is_full(self) -> bool:
        return self.reversed_pairs == 0


def compare_orders(one: Operator, other: Operator, *, steps: int = 12) -> Agreement:
    """Do both order every pair of inputs of a grid alike? Targets and actuals are 1/steps … (steps − 1)/steps.

    Equal for one and apart for the other counts as reversed. Full agreement on a grid shows that no counterexample is
    on it; that operators are equivalent follows from eq. 16, which is what `state_of_same_priority` gives.
    """
    points = np.arange(1, steps) / steps
    t, s = (axis.ravel() for axis in np.meshgrid(points, points))
    return _agreement(one(t, s), other(t, s), t, s)


def virtual_targets(target: npt.ArrayLike, is_active: npt.ArrayLike) -> FloatArray:
    """Targets with the idle entries' shares handed to the active ones in proportion; 0 for idle ones.

    t'_i = t_i / Σ_active t. Source: operators paper, eq. 15. Where the active have no shares all are 0.
    """
    t = np.where(np.asarray(is_active, dtype=np.bool_), np.asarray(target, dtype=np.float64), 0.0)
    total = float(t.sum())
    return t / total if total > 0 else t


def equal_split_targets(target: npt.ArrayLike, is_active: npt.ArrayLike) -> FloatArray:
    """Where the absolute operator settles: the idle entries' shares in equal points for each active entry.

    t_i + (Σ_idle t)/n_active, for active entries. Source: Grid-wide paper, figure 13.
    """
    active = np.asarray(is_active, dtype=np.bool_)
    t = np.asarray(target, dtype=np.float64)
    if not active.any():
        return np.zeros_like(t)
    given: FloatArray = np.where(active, t + t[~active].sum() / active.sum(), 0.0)
    return given


def check_redistribution(operator: Operator, *, steps: int = 12, active_share: float = 0.5) -> Agreement:
    """Is the order under virtual targets the order under the given ones? Eq. 15 on a grid.

    Entries have t' = i/steps and t = active_share · t', the rest of the shares being idle. Full agreement means that
    the operator brings active entries to their virtual targets: unused share is handed on in proportion.
    """
    points = np.arange(1, steps) / steps
    wished, s = (axis.ravel() for axis in np.meshgrid(points, points))
    return _agreement(operator(wished, s), operator(active_share * wished, s), active_share * wished, s)


def _agreement(one: FloatArray, other: FloatArray, t: FloatArray, s: FloatArray) -> Agreement:
    reversed_pairs, example = 0, None
    for i in range(len(t)):
        differ = _sign(one[i] - one[:i]) != _sign(other[i] - other[:i])
        count = int(differ.sum())
        if count and example is None:
            j = int(np.argmax(differ))
            example = (float(t[i]), float(s[i]), float(t[j]), float(s[j]))
        reversed_pairs += count
    return Agreement(len(t) * (len(t) - 1) // 2, reversed_pairs, example)


def _sign(difference: FloatArray) -> npt.NDArray[np.int8]:
    is_apart: BoolArray = np.abs(difference) > _EQUAL
    return (np.sign(difference) * is_apart).astype(np.int8)
