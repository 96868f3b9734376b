"""Results of trials for readers who don't see the usage of all entries: exact about what they see, in steps about the
rest.

A trial compares a number that the reader chooses (core-hours, a share, a parameter) with usage that may be hidden, and
shows by a rank which is larger. Repeated trials would find hidden usage to the last digit. So hidden usage enters a
trial in steps: whatever is tried, no more than the step follows from the answers. Ranks as they are now stay exact,
because a trial of the reader adds to them how far the rank moves.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from apps.engine.algorithms import PriorityResult
from apps.policies.tree.columns import Mask
from apps.priorities.recompute.comparison import Numbers
from apps.priorities.recompute.totals import Totals

STEPS_A_DECADE = 10  # preferred numbers (R10): neighbours differ by 26 percent, and a number from its step by up to 12
F8 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int64]


def totals_of_reader(totals: Totals, visible: Mask) -> Totals:
    """Round the usage of entries with hidden numbers to steps; visible: (n,), entries whose numbers the reader sees.

    Sums are rounded by themselves: the sum of many rounded members would be nearer to the hidden one than a step.
    """
    if visible.all():
        return totals
    return Totals(
        totals.tree,
        np.where(visible, totals.usage, in_steps(totals.usage)),
        np.where(visible, totals.group_usage, in_steps(totals.group_usage)),
    )


def in_steps(amounts: F8) -> F8:
    """Round amounts ≥ 0 to the nearest 10^(k/10) with a whole k; 0 stays 0."""
    is_used = amounts > 0
    exponent = np.round(np.log10(amounts, where=is_used, out=np.zeros_like(amounts)) * STEPS_A_DECADE) / STEPS_A_DECADE
    steps: F8 = np.where(is_used, 10.0**exponent, 0.0)
    return steps


def moved_from(
    shown: Numbers, before: PriorityResult, after: PriorityResult, places: I8 | None = None
) -> PriorityResult:
    """Return `after` with ranks and factors as far from those that are shown as they are from those of `before`.

    before, after: of the reader's totals, without and with the trial. places: index of each entry of `after` in the
    tree of `shown` and `before`, −1 where it has none; None: the trees have the same entries.
    """
    at = np.arange(len(after.rank)) if places is None else places
    known = at >= 0
    has_rank = known & shown.has_rank[at] & before.has_rank[at] & after.has_rank
    has_factor = known & shown.has_factor[at] & before.has_factor[at] & after.has_factor
    last = max(int(after.rank.max(initial=0)), 1)
    rank = np.clip(shown.rank[at] + after.rank - before.rank[at], 1, last)
    factor = np.clip(shown.factor[at] + after.factor - before.factor[at], 0.0, 1.0)
    return replace(
        after,
        rank=np.where(has_rank, rank, after.rank),
        factor=np.where(has_factor, factor, after.factor),
    )
