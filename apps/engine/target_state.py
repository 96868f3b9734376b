"""Whether an actual share is on its target: the one rule of states, days, forecasts, figures and gauges.

slack = max(relative · target, points)          half the width of the tolerance around a target
on      |actual − target| ≤ slack               an edge that is reached but for the last bits is reached
over    actual > target + slack
under   actual < target − slack
idle    a target above 0, no usage, and no job that waits; whatever the distance

Shares are fractions, 0..1. A policy states its tolerance as `relative`, a fraction of the target, and `points`,
percentage points.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from apps.engine.arrays import BoolArray, FloatArray

State = Literal["over", "under", "on", "idle", "unknown"]
Side = Literal["over", "under"]
States = npt.NDArray[np.str_]
_EDGE = 1 + 1e-9  # relative to the slack: actual and target are sums and quotients of doubles
_ROUNDING = 1e-12  # where the slack is 0


@overload
def slack_of(target: float, tolerance: Mapping[str, Any]) -> float: ...
@overload
def slack_of(target: FloatArray, tolerance: Mapping[str, Any]) -> FloatArray: ...
def slack_of(target: float | FloatArray, tolerance: Mapping[str, Any]) -> float | FloatArray:
    """Half the width of the tolerance around a target. tolerance: numbers, or arrays in the shape of `target`."""
    relative, least = tolerance["relative"], tolerance["points"] / 100
    if isinstance(target, np.ndarray):
        widths: FloatArray = np.maximum(relative * target, least)
        return widths
    return float(max(relative * target, least))


@overload
def is_on_target(actual: float, target: float, slack: float) -> bool: ...
@overload
def is_on_target(actual: FloatArray, target: FloatArray, slack: FloatArray) -> BoolArray: ...
def is_on_target(actual: Any, target: Any, slack: Any) -> Any:
    """Whether a share is within the tolerance around its target; NaN is not."""
    return abs(actual - target) <= slack * _EDGE + _ROUNDING


def is_off_target(actual: FloatArray, target: FloatArray, slack: FloatArray, is_idle: BoolArray) -> BoolArray:
    """Which shares are over or under their target; NaN is neither. is_idle: without usage and demand."""
    with np.errstate(invalid="ignore"):
        is_known = np.isfinite(actual) & np.isfinite(target)
        return is_known & ~is_on_target(actual, target, slack) & ~is_idle


def sides_off_target(
    actual: FloatArray, target: FloatArray, slack: FloatArray, is_idle: BoolArray
) -> tuple[BoolArray, BoolArray]:
    """Which shares are over their target, and which are under it; as `is_off_target`."""
    is_off, is_above = is_off_target(actual, target, slack, is_idle), actual > target
    return is_off & is_above, is_off & ~is_above


def state_of(
    *, target: float | None, actual: float | None, has_usage: bool, has_demand: bool, tolerance: Mapping[str, Any]
) -> State:
    """The state of one entry. has_demand: jobs of its own wait."""
    if target is None or actual is None:
        return "unknown"
    if target > 0 and not has_usage and not has_demand:
        return "idle"
    if is_on_target(actual, target, slack_of(target, tolerance)):
        return "on"
    return "over" if actual > target else "under"


def states_of(actual: FloatArray, target: FloatArray, slack: FloatArray, is_idle: BoolArray) -> States:
    """The states of many entries, whose shares are known."""
    is_over, is_under = sides_off_target(actual, target, slack, is_idle)
    states: States = np.where(is_idle, "idle", np.where(is_over, "over", np.where(is_under, "under", "on")))
    return states


def targets_on(actual: float, tolerance: Mapping[str, Any]) -> tuple[float, float | None]:
    """The least and the greatest target, between 0 and 1, that this share would be on; None: every greater one.

    actual ≤ target + max(relative · target, least) holds from min(actual − least, actual / (1 + relative)) on, and
    actual ≥ target − max(relative · target, least) until max(actual + least, actual / (1 − relative)).
    """
    relative, least = float(tolerance["relative"]) * _EDGE, float(tolerance["points"]) / 100 * _EDGE
    low, high = actual - _ROUNDING, actual + _ROUNDING
    lowest = max(min(low - least, low / (1 + relative)), 0.0)
    return lowest, None if relative >= 1 else max(high + least, high / (1 - relative))
