"""Density: how many inputs fall on one component."""

from __future__ import annotations

import numpy as np

from apps.engine import codecs
from apps.engine.arrays import FloatArray
from apps.engine.operators import Operator

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
