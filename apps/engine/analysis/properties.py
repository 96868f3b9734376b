"""Measured properties of operators and algorithms, such as order and redistribution, and the density of inputs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Annotated

import numpy as np
import numpy.typing as npt

from apps.engine import codecs, operator_trial
from apps.engine.algorithms import algorithms_of_packages, read_algorithm
from apps.engine.algorithms.packages import measure_properties
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
    given: FloatArray = np.where(active, t + t[~active].sum() / active.sum(), 0.0)
    return given


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
    found = {}
    for name, operator in operators_of_packages().found.items():
        with suppress(PackageFailed):
            found[name] = measure(operator)
    return found


@cache
def measured_algorithms() -> Mapping[str, Properties]:
    """Measurements of algorithms of packages with their defaults, by name, without those that fail on these trees."""
    found = {}
    for name, algorithm in algorithms_of_packages().found.items():
        with suppress(PackageFailed):
            found[name] = measure_properties(algorithm, read_algorithm(name))
    return found


# --- Density: how many inputs fall on one component -------------------------------------------------------------------
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_HALVINGS = 60


def effective_priorities(resolution: int) -> FloatArray:
    """P_r: the lowest priority of each component, −1 + 2i/r, i = 0..r − 1. Source: operators paper, eq. 20."""
    return codecs.effective_priority(np.arange(resolution), resolution)


def highest_actual(operator: Operator, priority: FloatArray, target: float | FloatArray) -> FloatArray:
    """The largest actual in 0..1 whose priority is still at least this: 0 where none is, shape of `priority`.

    target: one for all, or one each. By the operator's inverse; by halving where it has none, and at target 0, where
    no inverse exists.
    """
    targets = np.broadcast_to(np.asarray(target, dtype=np.float64), priority.shape)
    if operator.inverse is None:
        return _halved(operator, priority, targets)
    has_inverse = targets > 0
    actual = operator.state(priority, np.where(has_inverse, targets, 1.0))
    if not has_inverse.all():
        actual[~has_inverse] = _halved(operator, priority[~has_inverse], targets[~has_inverse])
    return actual


def _halved(operator: Operator, priority: FloatArray, targets: FloatArray) -> FloatArray:
    low, high = np.zeros_like(priority), np.ones_like(priority)
    is_all = operator(targets, high) >= priority
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        is_enough = operator(targets, middle) >= priority
        low, high = np.where(is_enough, middle, low), np.where(is_enough, high, middle)
    actual: FloatArray = np.where(is_all, 1.0, low)
    return actual


def local_density(operator: Operator, target: float, resolution: int) -> FloatArray:
    """Width in actual, 0..1, of each component at one target, shape (r,), lowest priority first; adds up to 1.

    D(F, p_i, t, r) = I_s(p_i, t) − I_s(p_{i+1}, t), cut to the actuals that exist. Source: operators paper, eq. 18–19.
    """
    inner = highest_actual(operator, effective_priorities(resolution)[1:], target)
    edges: FloatArray = np.concatenate(([1.0], inner, [0.0]))
    return edges[:-1] - edges[1:]


def input_density(operator: Operator, resolution: int) -> FloatArray:
    """Share of all inputs (t, s) in the unit square that fall on each component, shape (r,); adds up to 1.

    The area between the curves F = p_i and F = p_{i+1}: ∫₀¹ D(F, p_i, t, r) dt. Not sampled: the curve of each p is
    integrated by 64 Gauss–Legendre nodes on the targets at which it is inside the square, where it is smooth, and is
    constant (0 or 1) on the rest. Source: operators paper, §5.2.
    """
    at_least: FloatArray = np.append(areas_at_least(operator, effective_priorities(resolution)), 0.0)
    return at_least[:-1] - at_least[1:]


def areas_at_least(operator: Operator, priority: FloatArray) -> FloatArray:
    """Share of inputs with at least each of these priorities, 0..1, shape of `priority`."""
    begin = _first_targets(operator, priority, actual=0.0)  # below it no entry has this priority
    end = _first_targets(operator, priority, actual=1.0)  # above it all entries have it
    middle, half = (begin + end) / 2, (end - begin) / 2
    targets = middle[:, np.newaxis] + half[:, np.newaxis] * _NODES
    each = np.broadcast_to(priority[:, np.newaxis], targets.shape).ravel()
    if operator.inverse is not None:
        inside = operator.state(each, targets.ravel())
    else:
        inside = highest_actual(operator, each, targets.ravel())
    between = half * (_WEIGHTS * inside.reshape(targets.shape)).sum(axis=1)
    areas: FloatArray = np.where(priority <= -1.0, 1.0, between + 1.0 - end)
    return areas


def _first_targets(operator: Operator, priority: FloatArray, *, actual: float) -> FloatArray:
    """The smallest target in 0..1 at which this actual still has each priority, by halving; 1 if there is none."""
    low, high = np.zeros_like(priority), np.ones_like(priority)
    actuals = np.full_like(priority, actual)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        is_enough = operator(middle, actuals) >= priority
        low, high = np.where(is_enough, low, middle), np.where(is_enough, middle, high)
    return high


# --- The exponent of slurm-depth-oblivious ----------------------------------------------------------------------------
EXPONENT_RATIOS = (0.2, 5.0)  # ratios of the parent, as in the manual's figure
_CURVE_POINTS = 101


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
