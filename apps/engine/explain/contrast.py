"""Two entries side by side: which is ahead, the level that decides, and what would turn their order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from apps.engine.algorithms import PriorityResult, get_algorithm
from apps.engine.explain.skeleton import Skeleton, compare, decides_by_level, first_difference, skeleton
from apps.engine.explain.walk import Step, lineage, step_of

DecidedBy = Literal["level", "whole_path", "sibling_order", "own_order", "tie"]
_RELATIVE_WIDTH = 1e-12
_SAME_PRIORITY = 1e-9  # what is nearer than this is equal without any rounding
_MOST_HALVINGS = 200
_FARTHEST = 1e12


@dataclass(frozen=True)
class Turn:
    """Single changes, each enough by itself to put the one behind strictly ahead; None where none of its kind is.

    Amounts of usage are in the unit of the result's usage. ahead_gains_usage: what the entry ahead would have to use
    in addition. behind_sheds_usage: by how much the usage of the entry behind would have to shrink, at most all of it.
    ahead_shares_at_most, behind_shares_at_least: shares, the other siblings' staying. All other entries are unchanged.
    """

    ahead_gains_usage: float | None
    behind_sheds_usage: float | None
    ahead_shares_at_most: float | None
    behind_shares_at_least: float | None


@dataclass(frozen=True)
class Contrast:
    """Which of two entries is ahead, and why.

    decided_by: `level`, the first one whose components differ; `whole_path`, for an algorithm that makes one number of
    all levels; `sibling_order`, where the entries at which the paths diverge are equal and a scheduler's order
    of listing decides (Slurm: tied accounts); `own_order`, where another rule of the algorithm does (Slurm: users
    before accounts, and users whose shares are `parent` first); `tie`. level: 1 for the first below the root, where
    they differ, or else where their paths diverge; None for equal vectors (two users whose shares are *inherit*, whom
    Slurm still distinguishes). rounded: the levels above that one (all, for
    a tie) at which the entries of the two have different priorities and equal whole numbers, as (level, step, step).
    ahead_step, behind_step: their entries on this level; None where the vector has ended and counts as balance. turn:
    None for a tie; for usage and shares of the entries of this level.
    """

    decided_by: DecidedBy
    ahead: int | None
    behind: int | None
    level: int | None
    ahead_step: Step | None
    behind_step: Step | None
    turn: Turn | None
    rounded: tuple[tuple[int, Step, Step], ...] = ()


def contrast(result: PriorityResult, one: int, other: int) -> Contrast:
    """Compare two entries of a result, neither the root; found by recomputing what lies around their paths."""
    sign = compare(result, one, other)
    mine, theirs = lineage(result, one), lineage(result, other)
    decided_by, at = _decided(result, sign, first_difference(result, one, other), mine, theirs)
    if sign < 0:
        one, other, mine, theirs = other, one, theirs, mine
    if at is None:
        ahead, behind = (None, None) if sign == 0 else (one, other)
        return Contrast(decided_by, ahead, behind, None, None, None, None)
    one_at = mine[at] if at < len(mine) else None
    other_at = theirs[at] if at < len(theirs) else None
    steps = [None if entry is None else step_of(result, entry) for entry in (one_at, other_at)]
    rounded = _rounded(result, mine, theirs, None if sign == 0 else at)
    if sign == 0:
        return Contrast("tie", None, None, at + 1, steps[0], steps[1], None, rounded)
    turn = _turn(skeleton(result, one, other), one, other, one_at, other_at)
    return Contrast(decided_by, one, other, at + 1, steps[0], steps[1], turn, rounded)


def _decided(
    result: PriorityResult, sign: int, difference: tuple[int, int] | None, mine: list[int], theirs: list[int]
) -> tuple[DecidedBy, int | None]:
    """By what, and at which level (from 0); difference: the first level whose components differ, and which is ahead."""
    parting = _parting(mine, theirs)
    if sign == 0:
        return "tie", parting
    if not decides_by_level(result):
        return "whole_path", parting
    at_parting = [path[parting] for path in (mine, theirs) if parting is not None and parting < len(path)]
    is_between_groups = len(at_parting) == 2 and not result.is_ranked[at_parting].any()
    properties = get_algorithm(result.settings["name"]).properties(result.settings)
    is_listed = not properties.order_independent and is_between_groups
    if difference is not None and difference[1] == sign and (difference[0] == parting or not is_listed):
        return "level", difference[0]
    return ("sibling_order" if is_listed else "own_order"), parting


def _rounded(
    result: PriorityResult, mine: list[int], theirs: list[int], end: int | None
) -> tuple[tuple[int, Step, Step], ...]:
    """Levels before `end` at which entries have equal scalars though their priorities differ."""
    if result.resolution is None:
        return ()
    pairs = list(zip(mine, theirs, strict=False))[:end]
    return tuple(
        (level, step_of(result, one), step_of(result, other))
        for level, (one, other) in enumerate(pairs, start=1)
        if result.scalar[one] == result.scalar[other]
        and abs(result.priority[one] - result.priority[other]) > _SAME_PRIORITY
    )


def _parting(mine: list[int], theirs: list[int]) -> int | None:
    """The first level at which two paths are in different entries."""
    for level in range(max(len(mine), len(theirs))):
        if mine[level : level + 1] != theirs[level : level + 1]:
            return level
    return None


def _turn(small: Skeleton, ahead: int, behind: int, ahead_at: int | None, behind_at: int | None) -> Turn:
    def turned(computed: PriorityResult) -> bool:
        return small.sign(computed, behind, ahead) > 0

    result, gains, sheds, falls, rises = small.result, None, None, None, None
    if ahead_at is not None:
        step = step_of(result, ahead_at)
        start = step.group_usage if step.group_usage > 0 else 1.0
        gains = least(lambda amount: turned(small.with_more_usage(ahead_at, amount)), start, start * _FARTHEST)
        taken = least(lambda amount: turned(small.with_shares(ahead_at, step.shares - amount)), step.shares, None)
        falls = None if taken is None else step.shares - taken
    if behind_at is not None:
        step = step_of(result, behind_at)
        sheds = least(lambda amount: turned(small.with_less_usage(behind_at, amount)), step.usage, None)
        start = step.group_shares if step.group_shares > 0 else 1.0
        given = least(
            lambda amount: turned(small.with_shares(behind_at, step.shares + amount)), start, start * _FARTHEST
        )
        rises = None if given is None else step.shares + given
    return Turn(gains, sheds, falls, rises)


def least(holds: Callable[[float], bool], start: float, farthest: float | None) -> float | None:
    """The least amount > 0 from which on something holds, to 1e-12 of itself, by doubling and halving.

    `holds` turns from false to true at most once. The answer is an amount at which it holds; None where it doesn't,
    however much: up to `farthest`, or, where that is None, at `start`.
    """
    low, high = 0.0, start
    if start <= 0:
        return None
    while not holds(high):
        low, high = high, high * 8.0
        if farthest is None or high > farthest:
            return None
    for _ in range(_MOST_HALVINGS):
        if high - low <= _RELATIVE_WIDTH * high or high <= _RELATIVE_WIDTH * start:
            break
        middle = (low + high) / 2.0
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
