"""One step for each level of a path, with numbers that add up, and the sibling directly ahead in each group."""

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

    priority is what siblings are compared by, through its scalar where the algorithm has a resolution. n_ahead,
    n_tied: of the n_competing entries of the group, those with a higher and with an equal component, reserves and the
    entry itself left out. next_ahead: the sibling with the least higher component, None for the first. By how much it
    is ahead: ahead_by in the priority's own unit, > 0; ahead_by_points in points of deviation, which may be negative:
    an operator may put an entry first that is less far below its target in points.
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
    n_ahead: int = 0
    n_tied: int = 0
    next_ahead: int | None = None
    ahead_by: float | None = None
    ahead_by_points: float | None = None


def walk(result: PriorityResult, entry: int) -> list[Step]:
    """Steps from the first level down to `entry`; empty for the root."""
    path = []
    while entry > 0:
        path.append(entry)
        entry = int(result.tree.parent[entry])
    return [step_of(result, at) for at in reversed(path)]


def step_of(result: PriorityResult, entry: int) -> Step:
    """The step of one entry."""
    competes = bool(result.competes[entry])
    group = competitors(result, entry) if competes else np.zeros(0, dtype=np.int64)
    n_ahead, n_tied, nearest = _ahead(result, entry, group)
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
        n_competing=len(group),
        n_ahead=n_ahead,
        n_tied=n_tied,
        next_ahead=nearest,
        ahead_by=None if nearest is None else float(result.priority[nearest] - result.priority[entry]),
        ahead_by_points=None if nearest is None else float(result.deviation[nearest] - result.deviation[entry]),
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


def tie_width(result: PriorityResult, one: FloatArray, other: FloatArray) -> FloatArray:
    """The largest difference at which two of these values tie."""
    if result.resolution is not None:
        return np.zeros(np.broadcast(one, other).shape)
    if result.settings["name"] == "gridwide":
        return np.full(np.broadcast(one, other).shape, TIE_POINTS)
    return _TIE * np.maximum(np.abs(one), np.abs(other))


def _ahead(result: PriorityResult, entry: int, group: IntArray) -> tuple[int, int, int | None]:
    """Number of siblings ahead of the entry, number tied with it, and the nearest one ahead."""
    others = group[(group != entry) & ~result.tree.is_reserve[group]]
    if not len(others):
        return 0, 0, None
    values = compared_values(result).astype(np.float64)
    same = values[others] == values[entry]  # infinity ties with infinity
    with np.errstate(invalid="ignore"):
        gap = np.where(same, 0.0, values[others] - values[entry])
        width = np.where(np.isinf(gap), 0.0, tie_width(result, values[others], values[entry]))
    ahead, tied = gap > width, np.abs(gap) <= width
    if not ahead.any():
        return 0, int(tied.sum()), None
    candidates = others[ahead]
    nearest = candidates[np.lexsort((result.priority[candidates], gap[ahead]))[0]]
    return int(ahead.sum()), int(tied.sum()), int(nearest)
