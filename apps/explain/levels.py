"""One level of a walk: who is ahead there, and how it enters a number of the whole path."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from apps.engine.algorithms import Explanation, PriorityResult
from apps.priorities.sentences import Message, say
from apps.priorities.serving.served_snapshot import ServedSnapshot
from apps.priorities.snapshots import Values

# --- Siblings ahead ---------------------------------------------------------------------------------------------------
I8 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
_SAME_PRIORITY = 1e-9  # what is nearer than this is equal without any rounding


@dataclass(frozen=True, slots=True)
class Beside:
    """Of those an entry is compared with, itself and reserves left out; see WalkStep for what each number counts."""

    n_ahead: int = 0
    n_siblings: int = 0
    n_equal: int = 0
    n_rounded: int = 0


def siblings_of(snapshot: ServedSnapshot, i: int) -> Beside:
    """Two leaves are compared by their ranks, which are the order; any other pair by what siblings are compared by."""
    contest, entry_of, seat, _ = snapshot.tree.engine_tree().competition
    at, values, order = int(seat[i]), snapshot.values, snapshot.order
    parent = int(contest.parent[at])
    first, count = int(contest.first_child[parent]), int(contest.child_count[parent])
    group = np.arange(first, first + count)
    others = entry_of[group[(group != at) & ~contest.is_reserve[group]]]
    component = order.components(values)
    ahead, equal = order.ahead(component[others], component[i]), order.ties(component[others], component[i])
    if values.is_ranked[i]:
        leaves = values.is_ranked[others]
        ahead = np.where(leaves, values.rank[others] < values.rank[i], ahead)
        equal = np.where(leaves, values.rank[others] == values.rank[i], equal & ~ahead)
    if order.explanation.kind != "levels":
        return Beside(int(ahead.sum()), len(others))
    rounded = np.zeros(len(others), dtype=np.bool_)
    if order.decides == "vector":
        rounded = equal & (np.abs(values.priority[others] - values.priority[i]) > _SAME_PRIORITY)
    return Beside(int(ahead.sum()), len(others), int(equal.sum()), int(rounded.sum()))


def deciding_level(snapshot: ServedSnapshot, entry: int) -> int | None:
    """The entry at which most leaves ahead diverge from this one; where none is ahead, most of those behind."""
    rows, depth_of = snapshot.lineage(np.array([entry]))
    own = rows[0, : int(depth_of[0])]
    if not len(own) or not snapshot.n_ranked:
        return None
    ahead, behind = _parted(snapshot, own)
    counts = ahead if sum(ahead) else behind
    return int(own[int(np.argmax(counts))]) if sum(counts) else None


def _parted(snapshot: ServedSnapshot, own: I8) -> tuple[list[int], list[int]]:
    """At each level, how many leaves are ahead and behind that have the same components on all levels above.

    A leaf ahead by another rule (the order of a listing) is counted where the paths diverge.
    """
    order, values, leaves = snapshot.order, snapshot.values, snapshot.leaf_components
    ranks, at = values.rank[values.is_ranked], int(own[-1])
    has_rank = bool(values.has_rank[at])
    is_ahead, is_behind = ranks < values.rank[at], ranks > values.rank[at]
    mine = order.components(values)[own]
    level_with, left = np.ones(len(leaves), dtype=np.bool_), np.ones(len(leaves), dtype=np.bool_)
    ahead, behind = [], []
    for level in range(len(own)):
        theirs = leaves[:, level] if level < leaves.shape[1] else np.full(len(leaves), order.fill)
        goes_first, ties = level_with & order.ahead(theirs, mine[level]), order.ties(theirs, mine[level])
        goes_last = level_with & ~goes_first & ~ties
        if has_rank:
            goes_first, goes_last = goes_first & is_ahead, goes_last & is_behind
        ahead.append(int(goes_first.sum()))
        behind.append(int(goes_last.sum()))
        left &= ~(goes_first | goes_last)
        level_with &= ties
    if has_rank:
        _add_by_path(snapshot, own, (left & is_ahead, left & is_behind), (ahead, behind))
    return ahead, behind


def _add_by_path(
    snapshot: ServedSnapshot, own: I8, masks: tuple[Mask, Mask], counts: tuple[list[int], list[int]]
) -> None:
    """Count the leaves of each mask at the level at which their path leaves this one."""
    if not (masks[0].any() or masks[1].any()):
        return
    rows, depth_of = snapshot.lineage(np.flatnonzero(snapshot.values.is_ranked))
    width = min(len(own), rows.shape[1])
    same = (rows[:, :width] == own[:width]) & (np.arange(width) < depth_of[:, None])
    parts = np.minimum(np.cumprod(same, axis=1).sum(axis=1), len(own) - 1)
    for mask, count in zip(masks, counts, strict=True):
        for level, n in enumerate(np.bincount(parts[mask], minlength=len(own)).tolist()):
            count[level] += n


# --- Terms of a number of the whole path ------------------------------------------------------------------------------
Numbers = Values | PriorityResult  # of a snapshot, or just computed

_SAME = 1e-9  # a part of R by which two levels may differ and still count as equal


@dataclass(frozen=True, slots=True)
class Effect:
    """One level under an algorithm with F = 2^(−R / damping): R ≥ 0, None without shares; F from 0 to 1.

    above, factor_above: with all levels above this one alone. own_ratio, exponent: r_l and k, where the algorithm has
    them and they exist at this level. change: of log2 F by this level; −inf where it takes F to 0.
    """

    above: float | None
    ratio: float | None
    own_ratio: float | None
    exponent: float | None
    factor_above: float
    factor: float
    change: float

    @property
    def is_same(self) -> bool:
        return self.change == 0

    @property
    def lowers(self) -> bool:
        return self.change < 0


def effects_of(explanation: Explanation, values: Numbers, chain: Sequence[int], damping: float) -> list[Effect | None]:
    """One for each entry root→leaf; None for one that doesn't compete, and under algorithms of another kind."""
    if explanation.kind != "ratio":
        return [None] * len(chain)
    found: list[Effect | None] = []
    above: float | None = 1.0
    factor_above = 2.0 ** (-1.0 / damping)
    for entry in chain:
        if not values.competes[entry]:
            found.append(None)
            continue
        ratio = _ratio(explanation, values, entry)
        factor = float(values.factor[entry]) if values.has_factor[entry] else _factor(ratio, damping)
        found.append(
            Effect(
                above,
                ratio,
                _own(values, explanation.own_ratio, entry),
                _own(values, explanation.exponent, entry),
                factor_above,
                factor,
                _change(above, ratio, damping),
            )
        )
        above, factor_above = ratio, factor
    return found


def weightiest(effects: Sequence[Effect | None]) -> int | None:
    """The level with the largest change of log2 F, the first of equal ones; None where none changes it."""
    sizes = [0.0 if effect is None else abs(effect.change) for effect in effects]
    return sizes.index(max(sizes)) if any(sizes) else None


def effect_said(effect: Effect | None) -> list[Message]:
    """What this level does to the factor, and why its own ratio counts in part only."""
    if effect is None:
        return []
    facts = {"above": effect.above, "ratio": effect.ratio, "factor": effect.factor, "other_factor": effect.factor_above}
    if effect.ratio is None:
        return [say("effect.no_shares" if effect.above is not None else "effect.no_shares_above", factor=effect.factor)]
    key = "same" if effect.is_same else "lowers" if effect.lowers else "raises"
    said = [say(f"effect.{key}", **facts)]
    if effect.exponent is not None and effect.exponent < 1:
        said.append(say("effect.bent", own_ratio=effect.own_ratio, k=effect.exponent, above=effect.above))
    return said


def _ratio(explanation: Explanation, values: Numbers, entry: int) -> float | None:
    promised = float(values.columns[explanation.due].values[entry])
    if promised <= 0:
        return None
    used = float(values.columns[explanation.used].values[entry])
    ratio = used / promised
    return ratio if math.isfinite(ratio) else None


def _own(values: Numbers, name: str, entry: int) -> float | None:
    column = values.columns.get(name)
    if column is None or (column.exists is not None and not column.exists[entry]):
        return None
    return float(column.values[entry])


def _factor(ratio: float | None, damping: float) -> float:
    return 0.0 if ratio is None else 2.0 ** (-ratio / damping)


def _change(above: float | None, ratio: float | None, damping: float) -> float:
    if above is None:
        return 0.0
    if ratio is None:
        return -math.inf
    return 0.0 if abs(ratio - above) <= _SAME * max(ratio, above) else (above - ratio) / damping
