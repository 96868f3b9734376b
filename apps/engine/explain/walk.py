"""Why an entry stands where it stands: one step for each level, with numbers that add up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apps.engine.algorithms import PriorityResult


@dataclass(frozen=True)
class Step:
    """One entry on the way root→leaf, beside the group it competes in.

    target = shares / group_shares, actual = usage / group_usage (0 where the divisor is), deviation = their difference
    in points. An entry whose shares are *inherit* doesn't compete: everything but its usage is 0, and scalar −1.
    """

    entry: int
    competes: bool
    shares: float
    group_shares: float
    target: float
    target_global: float
    usage: float
    group_usage: float
    actual: float
    deviation: float
    priority: float
    scalar: int
    n_competing: int


def walk(result: PriorityResult, entry: int) -> list[Step]:
    """Steps from the first level down to `entry`; empty for the root."""
    path = []
    while entry > 0:
        path.append(entry)
        entry = int(result.tree.parent[entry])
    return [_step(result, at) for at in reversed(path)]


def _step(result: PriorityResult, entry: int) -> Step:
    competes = bool(result.competes[entry])
    group = _group(result, entry) if competes else np.zeros(0, dtype=np.int64)
    return Step(
        entry=entry,
        competes=competes,
        shares=float(result.tree.shares[entry]),
        group_shares=float(result.tree.shares[group].sum()),
        target=float(result.target[entry]),
        target_global=float(result.target_global[entry]),
        usage=float(result.usage[entry]),
        group_usage=float(result.usage[group].sum()),
        actual=float(result.actual[entry]),
        deviation=float(result.target[entry] - result.actual[entry]) * 100.0,
        priority=float(result.priority[entry]),
        scalar=int(result.scalar[entry]),
        n_competing=len(group),
    )


def _group(result: PriorityResult, entry: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Everybody who competes for the same shares, the entry included."""
    contest, entry_of, seat, _ = result.tree.competition
    above = int(contest.parent[seat[entry]])
    first = int(contest.first_child[above])
    return entry_of[first : first + int(contest.child_count[above])]
