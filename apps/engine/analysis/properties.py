"""Measured properties of operators and algorithms, such as order and redistribution."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Annotated

import numpy as np
import numpy.typing as npt

from apps.engine import operator_trial
from apps.engine.algorithms import algorithms_of_packages, read_algorithm
from apps.engine.algorithms.package_properties import measure_properties
from apps.engine.analysis.density import (
    areas_at_least,
    effective_priorities,
    highest_actual,
    input_density,
    local_density,
)
from apps.engine.arrays import FloatArray
from apps.engine.errors import PackageFailed
from apps.engine.operator_trial import Agreement, Definition, check_definition, check_redistribution, compare_orders
from apps.engine.operators import Operator, Properties, get_operator, operators_of_packages

__all__ = [
    "Agreement",
    "Definition",
    "Measured",
    "areas_at_least",
    "check_definition",
    "check_redistribution",
    "compare_orders",
    "effective_priorities",
    "equal_split_targets",
    "exponent_curve",
    "exponent_of",
    "highest_actual",
    "input_density",
    "local_density",
    "measure",
    "measured_algorithms",
    "measured_operators",
    "state_of_same_priority",
    "virtual_targets",
    "without_target",
    "without_usage",
]
EXPONENT_RATIOS = (0.2, 5.0)  # ratios of the parent, as in the manual's figure
_CURVE_POINTS = 101


def without_target(operator: Operator, actual: FloatArray) -> FloatArray:
    """F(0, s): priorities of entries without shares. Table 1, first column."""
    return operator(np.zeros_like(actual), actual)


def without_usage(operator: Operator, target: FloatArray) -> FloatArray:
    """F(t, 0): priorities of entries without usage. Table 1, second column."""
    return operator(target, np.zeros_like(target))


def state_of_same_priority(operator: Operator, target: FloatArray, actual: FloatArray, other: FloatArray) -> FloatArray:
    """G(F, t_j, s_j, t_i): the s_i, beyond 1 perhaps, with F(t_i, s_i) = F(t_j, s_j); targets > 0.

    Operators with the same G give the same order. The relative and sigmoid families and Slurm's operator share
    s_j · t_i/t_j; absolute has t_i − t_j + s_j. Source: operators paper, eq. 16.
    """
    if operator.inverse is None:
        return operator.state(operator(target, actual), other)  # says that there is none
    state: FloatArray = operator.inverse(operator(target, actual), other)
    return state


def virtual_targets(target: npt.ArrayLike, is_active: npt.ArrayLike) -> FloatArray:
    """Targets after idle entries' shares are redistributed to active ones in proportion; 0 for idle ones.

    t'_i = t_i / Σ_active t. Source: operators paper, eq. 15. All 0 if the active entries have no shares.
    """
    t = np.where(np.asarray(is_active, dtype=np.bool_), np.asarray(target, dtype=np.float64), 0.0)
    total = float(t.sum())
    return t / total if total > 0 else t


def equal_split_targets(target: npt.ArrayLike, is_active: npt.ArrayLike) -> FloatArray:
    """The steady state of the absolute operator: idle entries' shares are divided equally among the active entries.

    t_i + (Σ_idle t)/n_active, for active entries. Source: Grid-wide paper, figure 13.
    """
    active = np.asarray(is_active, dtype=np.bool_)
    t = np.asarray(target, dtype=np.float64)
    if not active.any():
        return np.zeros_like(t)
    targets: FloatArray = np.where(active, t + t[~active].sum() / active.sum(), 0.0)
    return targets


@dataclass(frozen=True)
class Measured:
    """Properties measured on fixed points, in addition to the declared ones; see `Properties`.

    orders_like: built-in operators that order every pair of a grid alike.
    """

    proportional_redistribution: bool
    boundaries: bool
    is_odd: Annotated[bool, "F(s, t) = −F(t, s)"]
    orders_like: Annotated[tuple[str, ...], "Operators with the same order"]

    def contradicts(self, declared: Properties) -> tuple[str, ...]:
        """Names of properties that are declared otherwise."""
        names = ("proportional_redistribution", "boundaries")
        return tuple(name for name in names if getattr(self, name) != getattr(declared, name))


def measure(operator: Operator) -> Measured:
    """Measure an operator on fixed points; PackageFailed if its code fails there."""
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
    """Measurements of operators of packages, by name, without those that fail on these points."""
    measured = {}
    for name, operator in operators_of_packages().objects.items():
        with suppress(PackageFailed):
            measured[name] = measure(operator)
    return measured


@cache
def measured_algorithms() -> Mapping[str, Properties]:
    """Measurements of algorithms of packages with their defaults, by name, without those that fail on these trees."""
    measured = {}
    for name, algorithm in algorithms_of_packages().objects.items():
        with suppress(PackageFailed):
            measured[name] = measure_properties(algorithm, read_algorithm(name))
    return measured


def exponent_of(parent_ratio: FloatArray) -> FloatArray:
    """k = 1 / (1 + (5 ln R_parent)²), 0..1, for parents R > 0 on the other side of 1 than the entry itself.

    Source: Slurm's manual, *Depth-Oblivious Fair-share Factor*, figure 1.
    """
    k: FloatArray = 1.0 / (1.0 + (5.0 * np.log(parent_ratio)) ** 2)
    return k


def exponent_curve() -> tuple[FloatArray, FloatArray]:
    """(R_parent, k), points evenly in log R_parent, the middle one at 1."""
    ratio = np.exp(np.linspace(np.log(EXPONENT_RATIOS[0]), np.log(EXPONENT_RATIOS[1]), _CURVE_POINTS))
    ratio[_CURVE_POINTS // 2] = 1.0
    return ratio, exponent_of(ratio)
