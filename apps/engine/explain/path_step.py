"""One step for each level of a path, with numbers that add up, and what siblings are compared by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apps.engine import codecs
from apps.engine.algorithms import PriorityResult, explanation_of
from apps.engine.algorithms.gridwide import TIE_POINTS
from apps.engine.arrays import FloatArray, IntArray

# Priorities of algorithms without own components tie within this relative difference.
_TIE = 1e-12


@dataclass(frozen=True)
class Step:
    """One entry on the way root→leaf, beside the group it competes in.

    target = shares / group_shares, actual = usage / group_usage (0 where the divisor is), deviation = their difference
    in points. An entry whose shares are *inherit* doesn't compete: everything but its usage is 0, and scalar −1.

    priority is what siblings are compared by, through its scalar where the algorithm has a resolution.
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


def step_of(result: PriorityResult, entry: int) -> Step:
    """The step of one entry."""
    competes = bool(result.competes[entry])
    group = competitors(result, entry) if competes else np.zeros(0, dtype=np.int64)
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
        deviation=float(result.deviation[entry]),
        priority=float(result.priority[entry]),
        scalar=int(result.scalar[entry]),
    )


def lineage(result: PriorityResult, entry: int) -> list[int]:
    """The competing entries whose components form the entry's vector, from the first level down."""
    contest, entry_of, seat, _ = result.tree.competition
    path: list[int] = entry_of[codecs.lineage(contest, int(seat[entry]))].tolist()
    return path


def competitors(result: PriorityResult, entry: int) -> IntArray:
    """Entries that compete for the same shares, including this entry."""
    contest, entry_of, seat, _ = result.tree.competition
    above = int(contest.parent[seat[entry]])
    first = int(contest.first_child[above])
    group: IntArray = entry_of[first : first + int(contest.child_count[above])]
    return group


def compared_values(result: PriorityResult) -> FloatArray | IntArray:
    """The values that siblings are compared by, (n,), higher sooner: scalars, the algorithm's column, or priorities."""
    if result.resolution is not None:
        return result.scalar
    column = result.columns.get(explanation_of(result.settings).component)
    return result.priority if column is None else column.values


def tie_width(result: PriorityResult, left: FloatArray, right: FloatArray) -> FloatArray:
    """The largest difference at which two of these values tie."""
    if result.resolution is not None:
        return np.zeros(np.broadcast(left, right).shape)
    if result.settings["name"] == "gridwide":
        return np.full(np.broadcast(left, right).shape, TIE_POINTS)
    return _TIE * np.maximum(np.abs(left), np.abs(right))
