"""Since when an entry is off its target: one rule for all pages.

A day is off target as an entry is now: outside the tolerance, and neither unused nor without demand. The days since are
those on one side of the target without a break, up to the last complete one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np

from apps.engine.target_state import Side, is_off_target
from apps.series.daily_series import F8, Mask


@dataclass(frozen=True, slots=True)
class OffTarget:
    """n_days: complete days off target on one side, from `since` on. is_whole: all that are known; it may be longer."""

    since: date
    n_days: int
    is_whole: bool


def off_target_since(
    on: Sequence[date], actual: F8, target: F8, slack: F8, is_idle: Mask, side: Side
) -> OffTarget | None:
    """None if the last complete day isn't off target on this side. on, …: complete days, oldest first; NaN: unknown."""
    is_same = is_off_target(actual, target, slack, is_idle) & ((actual > target) == (side == "over"))
    other = np.flatnonzero(~is_same)
    first = int(other[-1]) + 1 if other.size else 0
    if first >= len(on):
        return None
    return OffTarget(on[first], (on[-1] + timedelta(days=1) - on[first]).days, not other.size)
