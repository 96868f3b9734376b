"""States of the days ahead, whose demand isn't known: by the share that is expected and the tolerance of today."""

from __future__ import annotations

import numpy as np

from apps.engine.target_state import is_on_target
from apps.priorities.level_facts import IDLE_STATES
from apps.series.convergence.verdict import States
from apps.series.daily_series import F8


def states_ahead(expected: F8, target: F8, slack: F8, now: States) -> States:
    """on, over, or under; without demand as long as it is below its target and has none now; "" where unknown.

    Args:
        expected, target, slack: (entries, days ahead); NaN where no share is expected.
        now: (entries,) states of the last day.
    """
    below = np.where(np.isin(now, IDLE_STATES), now, "inferred")[:, None]
    states = np.where(expected > target, "over", np.broadcast_to(below, expected.shape))
    states = np.where(is_on_target(expected, target, slack), "on", states)
    is_known = np.isfinite(expected) & np.isfinite(target)
    found: States = np.where(is_known, states, "")
    return found
