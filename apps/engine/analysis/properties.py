"""What operators and algorithms are found to keep: definition, order, redistribution, and other properties."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

from apps.engine import operator_trial
from apps.engine.algorithms import brought_algorithms, read_algorithm
from apps.engine.algorithms.packages import measure_properties
from apps.engine.arrays import FloatArray
from apps.engine.errors import PackageFailed
from apps.engine.operator_trial import Agreement, Definition, check_definition, check_redistribution, compare_orders
from apps.engine.operators import Operator, Properties, brought_operators, get_operator

__all__ = [
    "Agreement",
    "Definition",
    "Measured",
    "check_definition",
    "check_redistribution",
    "compare_orders",
    "equal_split_targets",
    "measure",
    "measured_algorithms",
    "measured_operators",
    "state_of_same_priority",
    "virtual_targets",
    "without_target",
    "without_usage",
]


def without_target(operator: Operator, actual: FloatArray) -> FloatArray:
    """F(0, s): what entries without shares get. Table 1, first column."""
    return operator(np.zeros_like(actual), actual)


def without_usage(operator: Operator, target: FloatArray) -> FloatArray:
    """F(t, 0): what entries that used nothing get. Table 1, second column."""
    return operator(target, np.zeros_like(target))


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


@dataclass(frozen=True)
class Measured:
    """What an operator is found to keep on fixed points, beside what it declares; see `Properties`.

    orders_like: names of ours with which it agrees about the order of every pair of a grid.
    """

    proportional_redistribution: bool
    boundaries: bool
    is_odd: bool
    orders_like: tuple[str, ...]

    def contradicts(self, declared: Properties) -> tuple[str, ...]:
        """Names of properties that are declared otherwise."""
        names = ("proportional_redistribution", "boundaries")
        return tuple(name for name in names if getattr(self, name) != getattr(declared, name))


def measure(operator: Operator) -> Measured:
    """Try it out on fixed points; PackageFailed where its code fails there."""
    definition = operator_trial.check_definition(operator)
    return Measured(
        proportional_redistribution=operator_trial.check_redistribution(operator).is_full,
        boundaries=definition.has_boundaries,
        is_odd=definition.is_odd,
        orders_like=tuple(
            name
            for name in ("relative", "absolute", "combined")
            if operator_trial.compare_orders(operator, get_operator(name)).is_full
        ),
    )


@cache
def measured_operators() -> Mapping[str, Measured]:
    """Of the operators that packages bring, by name; nothing of one that fails on these points."""
    found = {}
    for name, operator in brought_operators().found.items():
        with suppress(PackageFailed):
            found[name] = measure(operator)
    return found


@cache
def measured_algorithms() -> Mapping[str, Properties]:
    """Of the algorithms that packages bring, with their defaults, by name; nothing of one that fails on these trees."""
    found = {}
    for name, algorithm in brought_algorithms().found.items():
        with suppress(PackageFailed):
            found[name] = measure_properties(algorithm, read_algorithm(name))
    return found
