"""One level of the path to an entry: how many siblings are ahead, and how the level changes the entry's factor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from apps.engine.algorithms import Explanation, PriorityResult
from apps.explain.rank_position import RankPosition
from apps.priorities.sentences import Message, build_message
from apps.priorities.serving.served_snapshot import ServedSnapshot
from apps.priorities.snapshot_values import Values

I8 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
_SAME_PRIORITY = 1e-9  # closer priorities are equal, not only rounded to equal
DecidedBy = Literal["component", "rule", "inherited"]
_CAUSES: tuple[DecidedBy, ...] = get_args(DecidedBy)
_COMPONENT, _RULE, _INHERITED = range(len(_CAUSES))
I1 = npt.NDArray[np.int8]
Places = tuple[I1, I1]  # by leaf: the cause and the level at which it parts from the path; -1: it isn't on this side
Numbers = Values | PriorityResult  # of a snapshot, or computed
_SAME = 1e-9  # relative difference of R up to which two levels are equal


@dataclass(frozen=True, slots=True)
class SiblingCounts:
    """Counts of the siblings that an entry competes with, without itself and reserves; see `WalkStep`.

    kind: of all of them; "" if they have several.
    """

    n_ahead: int = 0
    n_siblings: int = 0
    n_equal: int = 0
    n_rounded: int = 0
    kind: str = ""


def siblings_of(snapshot: ServedSnapshot, i: int) -> SiblingCounts:
    """Count the siblings ahead. Two leaves are compared by rank, any other pair by their components.

    An algorithm with its own order may give leaves of a sibling with a higher component the rank of a leaf below i, as
    Slurm's Fair Tree does after an account without users. Such a sibling isn't ahead.
    """
    contest, entry_of, seat, _ = snapshot.tree.engine_tree().competition
    at, values, order = int(seat[i]), snapshot.values, snapshot.order
    parent = int(contest.parent[at])
    first, count = int(contest.first_child[parent]), int(contest.child_count[parent])
    group = np.arange(first, first + count)
    others = entry_of[group[(group != at) & ~contest.is_reserve[group]]]
    codes = np.unique(snapshot.tree.kind_code[others])
    kind = snapshot.tree.kind_names[int(codes[0])] if len(codes) == 1 else ""
    component = snapshot.components
    ahead, equal = order.ahead(component[others], component[i]), order.ties(component[others], component[i])
    if values.is_ranked[i]:
        leaves = values.is_ranked[others]
        ahead = np.where(leaves, values.rank[others] < values.rank[i], ahead)
        equal = np.where(leaves, values.rank[others] == values.rank[i], equal & ~ahead)
    if order.explanation.kind != "levels":
        return SiblingCounts(int(ahead.sum()), len(others), kind=kind)
    if order.has_own_order:
        ahead = ahead & ~_shares_a_rank(snapshot, i, others)
    rounded = np.zeros(len(others), dtype=np.bool_)
    if order.decides == "vector":
        rounded = equal & (np.abs(values.priority[others] - values.priority[i]) > _SAME_PRIORITY)
    return SiblingCounts(int(ahead.sum()), len(others), int(equal.sum()), int(rounded.sum()), kind)


def _shares_a_rank(snapshot: ServedSnapshot, i: int, others: I8) -> Mask:
    """Which siblings have a leaf whose rank is that of a leaf below i, or worse."""
    rows, depth_of = snapshot.leaf_lineage
    level = int(snapshot.lineage(np.array([i]))[1][0]) - 1
    if not 0 <= level < rows.shape[1]:
        return np.zeros(len(others), dtype=np.bool_)
    inside = depth_of > level
    entries, ranks = rows[inside, level], snapshot.values.rank[snapshot.values.is_ranked][inside]
    best_own = ranks[entries == i].min(initial=snapshot.n_ranked + 1)
    worst = np.zeros(len(snapshot.tree), dtype=np.int64)  # 0: no leaf
    np.maximum.at(worst, entries, ranks)
    shares_rank: Mask = worst[others] >= best_own
    return shares_rank


@dataclass(frozen=True, slots=True)
class PartedSiblings:
    """Siblings on one side of an entry. used: whether all used less of their target than the entry, or all more."""

    n: int
    used: Literal["less", "more", ""] = ""


@dataclass(frozen=True, eq=False)
class LeafCounts:
    """Ranked leaves ahead of an entry and behind it, (3, levels): by cause, at the level at which they part from it.

    levels: the entries of its path with shares of their own. The sums are those of the ranks: leaves that tie are not
    counted. siblings_ahead, siblings_behind: by level, the siblings of its entry that have these leaves; None where
    some are elsewhere, below an entry that is equal on a level above.
    """

    levels: I8
    ahead: I8
    behind: I8
    siblings_ahead: Sequence[PartedSiblings | None]
    siblings_behind: Sequence[PartedSiblings | None]

    def deciding(self, standing: RankPosition | None) -> DecidingLevel | None:
        """The level that explains the rank: of a good one, that with most leaves behind, else with most leaves ahead.

        So the reason never contradicts the rank. None if no leaf parts from the entry on that side.
        """
        if standing is None:
            return None
        counts = self.behind if standing.is_good else self.ahead
        if not counts.any():
            return None
        level = max(range(len(self.levels)), key=lambda at: (counts[:, at].sum(), counts[_COMPONENT, at], -at))
        by = _COMPONENT if counts[_COMPONENT, level] else int(np.argmax(counts[:, level]))
        return DecidingLevel(int(self.levels[level]), _CAUSES[by])


@dataclass(frozen=True, slots=True)
class DecidingLevel:
    """The level that is the main reason for the rank of an entry.

    entry: of the path, at this level. by: what puts leaves ahead there, or behind: another component; a rule of the
    algorithm, or levels below, for equal ones; that they have no own shares and are at no level.
    """

    entry: int
    by: DecidedBy


def count_leaves(snapshot: ServedSnapshot, entry: int) -> LeafCounts:
    """Count the leaves ahead and behind by the level at which they part from the entry."""
    rows, depth_of = snapshot.lineage(np.array([entry]))
    own = rows[0, : int(depth_of[0])]
    if not len(own) or not snapshot.n_ranked:
        nothing = np.zeros((len(_CAUSES), len(own)), dtype=np.int64)
        return LeafCounts(own, nothing, nothing, [None] * len(own), [None] * len(own))
    ahead, behind = _parted_at(snapshot, entry, own)
    return LeafCounts(
        levels=own,
        ahead=_counted(ahead, len(own)),
        behind=_counted(behind, len(own)),
        siblings_ahead=_siblings_with(snapshot, own, ahead[1]),
        siblings_behind=_siblings_with(snapshot, own, behind[1]),
    )


def _counted(places: Places, n_levels: int) -> I8:
    cause, level = (place[places[1] >= 0] for place in places)
    count = np.zeros((len(_CAUSES), n_levels), dtype=np.int64)
    np.add.at(count, (cause, level), 1)
    return count


def _siblings_with(snapshot: ServedSnapshot, own: I8, level_of: I1) -> list[PartedSiblings | None]:
    """By level, the siblings with leaves that part there; None where some are below no sibling, as those of entry."""
    rows, depth_of = snapshot.leaf_lineage
    sides: list[PartedSiblings | None] = []
    for level, entry in enumerate(own):
        is_here = level_of == level
        if not is_here.any():
            sides.append(PartedSiblings(0))
            continue
        has_level = level < rows.shape[1] and (depth_of[is_here] > level).all()
        is_beside = has_level and (rows[is_here, :level] == own[:level]).all() and (rows[is_here, level] != entry).all()
        sides.append(_compared(snapshot, entry, np.unique(rows[is_here, level])) if is_beside else None)
    return sides


def _compared(snapshot: ServedSnapshot, entry: int, siblings: npt.NDArray[np.int32]) -> PartedSiblings:
    target, actual = snapshot.values.target, snapshot.values.actual
    if target[entry] > 0 and (target[siblings] > 0).all():
        own, ratios = actual[entry] / target[entry], actual[siblings] / target[siblings]
        if (ratios < own).all():
            return PartedSiblings(len(siblings), "less")
        if (ratios > own).all():
            return PartedSiblings(len(siblings), "more")
    return PartedSiblings(len(siblings))


def _parted_at(snapshot: ServedSnapshot, entry: int, own: I8) -> tuple[Places, Places]:
    """Of the leaves ahead and of those behind: cause and level, of those equal on all levels above.

    own: the entries of its levels; an entry without own shares is none of them. A leaf that is ahead by another rule,
    such as list order, is counted where the paths diverge.
    """
    order, values, leaves = snapshot.order, snapshot.values, snapshot.leaf_components
    ranks, has_rank = values.rank[values.is_ranked], bool(values.has_rank[entry])
    is_ahead, is_behind = ranks < values.rank[entry], ranks > values.rank[entry]
    components = snapshot.components[own]
    level_with, left = np.ones(len(leaves), dtype=np.bool_), np.ones(len(leaves), dtype=np.bool_)
    ahead, behind = ((np.full(len(leaves), _COMPONENT, np.int8), np.full(len(leaves), -1, np.int8)) for _ in range(2))
    for level in range(len(own)):
        others = leaves[:, level] if level < leaves.shape[1] else np.full(len(leaves), order.fill)
        goes_first, ties = level_with & order.ahead(others, components[level]), order.ties(others, components[level])
        goes_last = level_with & ~goes_first & ~ties
        if has_rank:
            goes_first, goes_last = goes_first & is_ahead, goes_last & is_behind
        ahead[1][goes_first] = level
        behind[1][goes_last] = level
        left &= ~(goes_first | goes_last)
        level_with &= ties
    if has_rank:
        _part_by_path(snapshot, own, (left & is_ahead, left & is_behind), (ahead, behind))
    return ahead, behind


def _part_by_path(snapshot: ServedSnapshot, own: I8, masks: tuple[Mask, Mask], sides: tuple[Places, Places]) -> None:
    """Place the leaves of each mask at the level at which their path diverges from this one."""
    if not (masks[0].any() or masks[1].any()):
        return
    rows, depth_of = snapshot.leaf_lineage
    width = min(len(own), rows.shape[1])
    same = (rows[:, :width] == own[:width]) & (np.arange(width) < depth_of[:, None])
    n_shared = np.cumprod(same, axis=1).sum(axis=1)
    level_of = np.minimum(n_shared, len(own) - 1)
    cause_of = np.where(depth_of > n_shared, _RULE, _INHERITED)
    for mask, (causes, levels) in zip(masks, sides, strict=True):
        causes[mask], levels[mask] = cause_of[mask], level_of[mask]


@dataclass(frozen=True, slots=True)
class Effect:
    """Effect of one level under an algorithm with F = 2^(−R / damping). R (ratio): ≥ 0, None without shares.

    above, factor_above: R and F of the level above. own_ratio, exponent: r_l and k, if the algorithm has them at this
    level. change: of log2 F by this level; −inf if it makes F 0.
    """

    above: float | None
    ratio: float | None
    own_ratio: float | None
    exponent: float | None
    factor_above: float
    factor: float
    change: float
    only_adds: bool = False  # below the first level R never falls, whatever the usage

    @property
    def is_same(self) -> bool:
        return self.change == 0

    @property
    def lowers(self) -> bool:
        return self.change < 0


def effects_of(explanation: Explanation, values: Numbers, chain: Sequence[int], damping: float) -> list[Effect | None]:
    """Effects of the entries of a path, root first; None if an entry doesn't compete, or for other algorithms."""
    if explanation.kind != "ratio":
        return [None] * len(chain)
    effects: list[Effect | None] = []
    above: float | None = 1.0
    factor_above = 2.0 ** (-1.0 / damping)
    for entry in chain:
        if not values.competes[entry]:
            effects.append(None)
            continue
        ratio = _ratio(explanation, values, entry)
        factor = float(values.factor[entry]) if values.has_factor[entry] else _factor(ratio, damping)
        effects.append(
            Effect(
                above,
                ratio,
                _own(values, explanation.own_ratio, entry),
                _own(values, explanation.exponent, entry),
                factor_above,
                factor,
                _change(above, ratio, damping),
                explanation.only_adds and above is not None and len(effects) > effects.count(None),
            )
        )
        above, factor_above = ratio, factor
    return effects


def largest_effect(effects: Sequence[Effect | None], standing: RankPosition | None) -> int | None:
    """Index of the level with the largest change of log2 F in the direction of the rank, the first of equal ones.

    A good rank is explained by a level that raises the factor, another by one that lowers it; None without one.
    """
    if standing is None:
        return None
    sign = 1.0 if standing.is_good else -1.0
    sizes = [0.0 if effect is None else max(sign * effect.change, 0.0) for effect in effects]
    return sizes.index(max(sizes)) if any(sizes) else None


def effect_messages(effect: Effect | None) -> list[Message]:
    """Messages about the effect of a level on the factor, and why its own ratio has a reduced weight."""
    if effect is None:
        return []
    facts = {"above": effect.above, "ratio": effect.ratio, "factor": effect.factor, "other_factor": effect.factor_above}
    if effect.ratio is None:
        return [
            build_message(
                "effect.no_shares" if effect.above is not None else "effect.no_shares_above", factor=effect.factor
            )
        ]
    key = "same" if effect.is_same else "lowers" if effect.lowers else "raises"
    messages = [build_message(f"effect.{key}", **facts)]
    if effect.lowers and effect.only_adds:
        messages.append(build_message("effect.adds"))
    if effect.exponent is not None and effect.exponent < 1:
        messages.append(build_message("effect.bent", own_ratio=effect.own_ratio, k=effect.exponent, above=effect.above))
    return messages


def _ratio(explanation: Explanation, values: Numbers, entry: int) -> float | None:
    due = float(values.columns[explanation.due].values[entry])
    if due <= 0:
        return None
    used = float(values.columns[explanation.used].values[entry])
    ratio = used / due
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
