"""The smallest change that brings an entry to its target at an instant whose usage is known.

One sibling group at that instant: target t = shares / Σ shares, actual a = usage / whole. The goal holds where
|a − t| ≤ tolerance(t) = max(relative · t, points). An entry *loses* what its deviation t − a falls by.

Closed forms, with δ the change of the entry's target and x the usage that is refunded:
- dilution: w' = R · t'/(1 − t') with R = Σ other shares; each other entry loses t_j · δ/(1 − t).
- giving: w'_j = w_j − d_j · W with W = Σ shares and Σ d_j = δ; each giver loses d_j.
- refund: x = (u − e · D)/(1 − e) with e = t + tolerance, D the whole; another entry with usage v loses
  v/(D − x) − v/D.
The largest set of changes of shares is that of giving with d_j ≤ min(bound, t_j): where Σ min(bound, t_j) < δ, no
shares reach the goal. Source: derived here; compared with exhaustive search in
`tests/contrib/forecast/test_goal_changes.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from apps.engine.arrays import BoolArray, FloatArray
from apps.engine.errors import BadParameter
from apps.engine.target_state import slack_of

_ROUNDING = 1e-12
_INSIDE = 1.0 - 1e-9  # part of a tolerance that is used, so that recomputing in another order stays within it
_MOST_SHARE_DIGITS = 15


@dataclass(frozen=True)
class Rule:
    """Bounds of a change. relative, points: the tolerance, points as a part of 1.

    most_lost: the most that any other entry may lose, a part of 1. least_target, most_target: of the entry, 0..1.
    """

    relative: float
    points: float
    most_lost: float
    least_target: float = 0.0
    most_target: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.most_lost <= 1:
            raise BadParameter("0..1 is allowed", place="most_lost")
        if not 0 <= self.least_target <= self.most_target <= 1:
            raise BadParameter("0 ≤ least ≤ most ≤ 1 is allowed", place="least_target")
        if not (0 <= self.relative < math.inf and 0 <= self.points < math.inf):
            raise BadParameter("finite numbers ≥ 0 are allowed", place="relative")

    def tolerance(self, target: float) -> float:
        """Half the width of the band around a target, 0..1."""
        return slack_of(target, {"relative": self.relative, "points": self.points * 100})

    def distance(self, actual: float, target: float) -> float:
        """How far actual is outside the tolerance, as a part of 1; 0 within it."""
        outside = abs(actual - target) - self.tolerance(target)
        return outside if outside > _ROUNDING else 0.0

    def allows(self, lost: FloatArray) -> bool:
        """Whether no other entry loses more than the bound; lost: (n,) of the other entries."""
        return bool((lost <= self.most_lost + _ROUNDING).all())

    def nearest_target(self, actual: float, target: float) -> float:
        """The target nearest to `target` that has `actual` within its tolerance; `target` itself if it has."""
        if self.distance(actual, target) == 0.0:
            return target
        relative, points = self.relative * _INSIDE, self.points * _INSIDE
        if actual > target:
            return min(actual / (1.0 + relative), actual - points)
        above = actual / (1.0 - relative) if relative < 1.0 else 1.0
        return min(max(above, actual + points), 1.0)


@dataclass(frozen=True, eq=False)
class Contest:
    """Entries that compete for the same shares: shares, usage and may_lose are (n,); entry: the one with the goal.

    whole: divisor of usage, ≥ Σ usage (a Slurm group's own usage counts in it, too). may_lose: entries whose shares may
    change.
    """

    shares: FloatArray
    usage: FloatArray
    whole: float
    entry: int
    may_lose: BoolArray

    @property
    def target(self) -> FloatArray:
        return targets_of(self.shares)

    @property
    def actual(self) -> FloatArray:
        """Usage / whole; 0 without usage."""
        return self.usage / self.whole if self.whole > 0 else np.zeros(len(self.usage))

    @property
    def others(self) -> BoolArray:
        mask = np.ones(len(self.shares), dtype=np.bool_)
        mask[self.entry] = False
        return mask


class SharesSolution(NamedTuple):
    """Shares (n,) that reach the goal, or come closest to it."""

    shares: FloatArray
    is_reached: bool


class RefundSolution(NamedTuple):
    """Usage to subtract from the entry, ≥ 0, in its unit; or as much of it as the bound allows."""

    amount: float
    is_reached: bool


def targets_of(shares: FloatArray) -> FloatArray:
    """Normalised shares, (n,); zeros if all are 0."""
    whole = float(shares.sum())
    return shares / whole if whole > 0 else np.zeros(len(shares))


def by_dilution(contest: Contest, rule: Rule) -> SharesSolution:
    """Change the entry's weight alone; all others keep theirs and lose, or gain, in proportion."""
    at, target = contest.entry, contest.target
    now, rest = float(target[at]), float(contest.shares[contest.others].sum())
    change = _change(contest, rule)
    if rest <= 0 or not change:
        return SharesSolution(contest.shares, rest > 0 and _is_reached(contest, contest.shares, rule))
    if change > 0:
        largest = float(target[contest.others].max())
        change = min(change, rule.most_lost * (1.0 - now) / largest if largest > 0 else change)
    wanted = min(now + change, 1.0 - _ROUNDING)

    def with_weight(weight: float) -> FloatArray:
        shares = contest.shares.copy()
        shares[at] = max(weight, 0.0)
        return shares

    weight = round_beyond(
        rest * wanted / (1.0 - wanted),
        lambda amount: _is_reached(contest, with_weight(amount), rule),
        up=change > 0,
    )
    shares = with_weight(weight)
    return SharesSolution(shares, _is_reached(contest, shares, rule))


def by_unused(contest: Contest, rule: Rule) -> SharesSolution:
    """Take shares from entries below their target, in proportion to what they leave unused; the sum stays.

    If the entry has to give shares, entries above their target get them.
    """
    gap = contest.target - contest.actual
    change = _change(contest, rule)
    most = np.maximum(gap, 0.0) if change > 0 else np.maximum(-gap, 0.0)
    if change > 0:
        most = np.minimum(most, rule.most_lost)
    return _changed_shares(contest, rule, change, _of_others(contest, most), is_level=False)


def by_equal_parts(contest: Contest, rule: Rule) -> SharesSolution:
    """Take the same number of points from all others, but from none more than the bound or than it has.

    This finds shares wherever any exist.
    """
    change = _change(contest, rule)
    most = np.minimum(contest.target, rule.most_lost) if change > 0 else np.ones(len(contest.shares))
    return _changed_shares(contest, rule, change, _of_others(contest, most), is_level=True)


def refund(contest: Contest, rule: Rule, above: Sequence[Contest] = ()) -> RefundSolution:
    """Usage to refund to an entry over its target. above: the contests of its ancestors, nearest first.

    A refund counts in all totals above, so siblings of ancestors lose by it, too. 0, and not reached, for an entry
    under its target.
    """
    at = contest.entry
    used, target = float(contest.usage[at]), float(contest.target[at])
    actual, edge = float(contest.actual[at]), target + rule.tolerance(target) * _INSIDE
    if rule.distance(actual, target) == 0.0:
        return RefundSolution(0.0, True)
    if actual < target or contest.whole - used <= 0 or edge >= 1.0:
        return RefundSolution(0.0, False)
    needed = (used - edge * contest.whole) / (1.0 - edge)
    most = min([used, *(_largest_refund(level, rule.most_lost) for level in (contest, *above))])
    return RefundSolution(max(min(needed, most), 0.0), needed <= most * (1.0 + _ROUNDING))


def nearest_of(candidates: Sequence[float], is_reached: Sequence[bool], present: float) -> int | None:
    """Index of the candidate that reaches the goal and is nearest to `present` by ratio; the smaller if tied."""
    reached = [n for n, flag in enumerate(is_reached) if flag]
    return min(reached, key=lambda n: (abs(math.log(candidates[n] / present)), candidates[n]), default=None)


def round_beyond(value: float, is_fine: Callable[[float], bool], *, up: bool) -> float:
    """The number with the fewest digits at or beyond `value` in this direction for which `is_fine`; else `value`."""
    if value <= 0 or not math.isfinite(value):
        return value
    for digits in range(1, _MOST_SHARE_DIGITS + 1):
        step = 10.0 ** (math.floor(math.log10(value)) + 1 - digits)
        n = math.ceil(value / step) if up else math.floor(value / step)
        rounded = float(f"{n * step:.{_MOST_SHARE_DIGITS}g}")
        if is_fine(rounded):
            return rounded
    return value


def _change(contest: Contest, rule: Rule) -> float:
    """The required change of the entry's target, within its bounds."""
    at = contest.entry
    now = float(contest.target[at])
    wanted = rule.nearest_target(float(contest.actual[at]), now)
    return min(max(wanted, rule.least_target), rule.most_target) - now


def _of_others(contest: Contest, most: FloatArray) -> FloatArray:
    return np.where(contest.others & contest.may_lose, most, 0.0)


def _changed_shares(contest: Contest, rule: Rule, change: float, most: FloatArray, *, is_level: bool) -> SharesSolution:
    """Shares after a change. most: the largest part of 1 that each entry may give or get, (n,)."""
    whole, room = float(contest.shares.sum()), float(most.sum())
    if whole <= 0 or room <= 0 or not change:
        return SharesSolution(contest.shares, not change and _is_reached(contest, contest.shares, rule))
    amount = min(abs(change), room)
    parts = _levelled(most, amount) if is_level else most * (amount / room)
    moved = math.copysign(1.0, change) * whole * parts
    exact = contest.shares - moved
    exact[contest.entry] += float(moved.sum())
    exact = np.maximum(exact, 0.0)
    for digits in range(2, _MOST_SHARE_DIGITS):
        scale = 10.0 ** (math.floor(math.log10(whole)) + 1 - digits)
        rounded = np.where(exact == contest.shares, exact, np.round(exact / scale) * scale)
        rounded = np.array([float(f"{number:.{_MOST_SHARE_DIGITS}g}") for number in rounded.tolist()])
        if _is_reached(contest, rounded, rule):
            return SharesSolution(rounded, True)
    return SharesSolution(exact, _is_reached(contest, exact, rule))


def _levelled(most: FloatArray, amount: float) -> FloatArray:
    """Parts min(level, most) with the sum `amount` ≤ Σ most."""
    ordered = np.sort(most)
    n = len(ordered)
    below = np.concatenate([[0.0], np.cumsum(ordered)[:-1]])
    filled = below + ordered * (n - np.arange(n))  # the sum if the level equals each of them
    at = min(int(np.searchsorted(filled, amount)), n - 1)
    level = (amount - below[at]) / (n - at)
    parts: FloatArray = np.minimum(most, level)
    return parts


def _is_reached(contest: Contest, shares: FloatArray, rule: Rule) -> bool:
    at, target = contest.entry, targets_of(shares)
    lost = (contest.target - target)[contest.others]
    inside = rule.least_target - _ROUNDING <= float(target[at]) <= rule.most_target + _ROUNDING
    inside = inside and float(shares.sum()) > 0
    return inside and rule.allows(lost) and rule.distance(float(contest.actual[at]), float(target[at])) == 0.0


def _largest_refund(contest: Contest, most_lost: float) -> float:
    """The largest refund at which no other entry of this contest loses more than the bound."""
    used = contest.usage[contest.others]
    used = used[used > 0]
    if not len(used) or contest.whole <= 0:
        return math.inf
    return max(contest.whole - float((used / (most_lost + used / contest.whole)).max()), 0.0)
