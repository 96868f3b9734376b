"""The priority somebody would get who isn't in the tree yet.

An approximation, and a stated one: the newcomer is compared with everybody as they stand in the snapshot. Adding them
would lower the targets of their new siblings a little and with that perhaps move some of these; that is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from apps.engine import codecs
from apps.engine.algorithms.aequus import operator_of
from apps.engine.algorithms.gridwide import TIE_POINTS

F8 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Newcomer:
    """Priorities and components root→new leaf, and where that stands among `of` leaves, itself included."""

    priorities: list[float]
    vector: list[int] | None
    rank: int
    of: int
    factor: float


def newcomer(
    *, shares: float, sibling_shares: float, above: list[float], above_scalars: list[int], leaves: npt.NDArray[Any],
    algorithm: dict[str, Any], depth: int
) -> Newcomer:  # fmt: skip
    """A new leaf with `shares` beside siblings that have `sibling_shares` together, without usage.

    above, above_scalars: priorities and components of its ancestors. leaves: components of all ranked leaves, padded
    to `depth`, shape (N, depth): integers, or deviations in points for `gridwide`.
    """
    total = shares + sibling_shares
    target = np.array([shares / total if total else 0.0])
    of = len(leaves) + 1
    if algorithm["name"] == "gridwide":
        priorities = [*above, float(target[0] * 100.0)]
        rank = 1 + _count_ahead(leaves, priorities, fill=0.0, tolerance=TIE_POINTS)
        return Newcomer(priorities, None, rank, of, _factor(rank, of))
    resolution = algorithm["resolution"]
    priority = operator_of(algorithm)(target, np.zeros(1))
    vector = [*above_scalars, int(codecs.scalar(priority, resolution)[0])]
    rank = 1 + _count_ahead(leaves, vector, fill=resolution // 2, tolerance=0)
    factor = _factor(rank, of)
    if algorithm["factor_from"] == "key":
        padded = [*vector, *[resolution // 2] * (depth - len(vector))]
        factor = sum(component / resolution**level for level, component in enumerate(padded, start=1))
    return Newcomer([*above, float(priority[0])], vector, rank, of, factor)


def _factor(rank: int, of: int) -> float:
    return float(codecs.factor_from_rank(np.array([rank]), of)[0])


def _count_ahead(leaves: npt.NDArray[Any], vector: list[Any], *, fill: float, tolerance: float) -> int:
    """Leaves whose padded vector is strictly ahead of the padded `vector`."""
    n_leaves, depth = leaves.shape
    ahead, level_with = np.zeros(n_leaves, dtype=np.bool_), np.ones(n_leaves, dtype=np.bool_)
    for level in range(max(depth, len(vector))):
        theirs = leaves[:, level] if level < depth else np.full(n_leaves, fill)
        ours = vector[level] if level < len(vector) else fill
        ahead |= level_with & (theirs > ours + tolerance)
        level_with &= np.abs(theirs - ours) <= tolerance
    return int(ahead.sum())
