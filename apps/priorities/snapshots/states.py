"""Over, under, on target, idle or unknown: decided once, for pages and REST alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

State = Literal["over", "under", "on", "idle", "unknown"]
F8 = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
_EDGE = 1 + 1e-9  # a difference of exactly the tolerance is within it, whatever the last bit says


def state_of(
    *, target: float | None, actual: float | None, has_usage: bool, has_demand: bool, tolerance: Mapping[str, Any]
) -> State:
    """Within max(relative · target, points) is on target; idle: has a target, no usage and no demand."""
    if target is None or actual is None:
        return "unknown"
    if not has_usage and not has_demand and target > 0:
        return "idle"
    if abs(actual - target) <= max(tolerance["relative"] * target, tolerance["points"] / 100) * _EDGE:
        return "on"
    return "over" if actual > target else "under"


def out_of_tolerance(target: F8, actual: F8, *, is_idle: Mask, tolerance: Mapping[str, Any]) -> Mask:
    """Which of many entries are over or under."""
    allowed = np.maximum(tolerance["relative"] * target, tolerance["points"] / 100)
    outside: Mask = ~is_idle & (np.abs(actual - target) > allowed * _EDGE)
    return outside
