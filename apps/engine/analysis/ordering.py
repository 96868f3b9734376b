"""Which operators order entries alike, and how the share of idle siblings is redistributed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from apps.engine.arrays import FloatArray
from apps.engine.operator_trial import Agreement, check_redistribution, compare_orders
from apps.engine.operators import Operator

__all__ = [
    "Agreement",
    "check_redistribution",
    "compare_orders",
    "equal_split_targets",
    "state_of_same_priority",
    "virtual_targets",
]


def state_of_same_priority(operator: Operator, target: FloatArray, actual: FloatArray, other: FloatArray) -> FloatArray:
    """G(F, t_j, s_j, t_i): the s_i, beyond 1 perhaps, with F(t_i, s_i) = F(t_j, s_j); targets > 0.

    Operators with the same G order alike. The relative and sigmoid families and Slurm's share s_j · t_i/t_j; absolute
    has t_i − t_j + s_j. Source: operators paper, eq. 16.
    """
    if operator.inverse is None:
        return operator.state(operator(target, actual), other)  # says that there is none
    state: FloatArray = operator.inverse(operator(target, actual), other)
    return state


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
