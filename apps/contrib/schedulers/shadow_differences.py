"""Explain why the scheduler's numbers and ours differ: by usage, tree, algorithm or rounding. Pure functions.

The difference is split by three computations, which replace one input at a time:

    ours           our algorithm, our tree, our usage
    with_usage     our algorithm, our tree, their usage
    with_tree      our algorithm, their tree, their usage
    theirs         as listed by the scheduler

so that usage + tree + rule is exactly the difference. The reason is the largest part.

Also builds the scheduler's own tree from its rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from apps.contrib.schedulers.own_values import PARENT, OwnValue
from apps.engine.algorithms import compute
from apps.engine.errors import BadTree, EngineError
from apps.engine.tree import FairshareTree

F8 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Reason = Literal["none", "rounding", "usage", "tree", "rule"]
Scale = Literal["factor", "position"]
REASONS: tuple[Reason, ...] = ("usage", "tree", "rule", "rounding", "none")
PRINTED = 1e-6  # sshare prints six decimals
_SUM = 1e-9  # tolerance for sums of doubles


@dataclass(frozen=True, eq=False)
class Ours:
    """Arrays (n,) over the entries of our tree. usage: total of each entry's subtree."""

    tree: FairshareTree
    algorithm: Mapping[str, Any]
    factor: F8
    has_factor: Mask
    usage: F8


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference for one user of one group.

    difference = by_usage + by_tree + by_rule, on the scale of the comparison. ours, theirs: factors, 0..1. our_usage,
    their_usage: in the units of the policy and the scheduler.
    """

    group: str
    user: str
    entry: int
    ours: float
    theirs: float
    our_usage: float
    their_usage: float
    difference: float
    by_usage: float
    by_tree: float
    by_rule: float
    reason: Reason


@dataclass(frozen=True)
class Comparison:
    """Differences in the order of the scheduler's rows. n_unknown: users of the scheduler without an entry of ours.

    scale: "factor" for Slurm's own algorithms, whose numbers are comparable; else "position", the relative rank, 0..1.
    """

    differences: Sequence[Difference]
    n_unknown: int
    scale: Scale

    @property
    def largest(self) -> float:
        return max((abs(difference.difference) for difference in self.differences), default=0.0)

    @property
    def n_equal(self) -> int:
        """Number of users whose values are equal in the printed digits."""
        return sum(difference.reason in ("none", "rounding") for difference in self.differences)

    @property
    def n_users(self) -> int:
        """Number of users in both."""
        return len(self.differences)

    def ordered(self) -> list[Difference]:
        """Differences, largest first."""
        return sorted(
            self.differences, key=lambda difference: (-abs(difference.difference), difference.group, difference.user)
        )


def compare(rows: Sequence[OwnValue], ours: Ours, entry_of_row: Sequence[int]) -> Comparison:
    """Compare rows with our values. entry_of_row: (rows,) index of our entry for each row, −1 for none."""
    entry = np.array(entry_of_row, np.int64).reshape(-1)
    is_user = np.array([bool(value.user) for value in rows], np.bool_)
    scheduler_factor = np.array([value.fairshare for value in rows], np.float64)
    known = is_user & (entry >= 0) & ~np.isnan(scheduler_factor)
    known[known] = ours.has_factor[entry[known]]
    at = np.flatnonzero(known)
    own = own_usage_of(rows)
    with_usage = _with_their_usage(ours, entry, own)
    their_tree = build_their_tree(rows)
    with_tree = None
    if their_tree is not None:
        factors = _factors(their_tree.tree, their_tree.own_usage, ours.algorithm)
        with_tree = None if factors is None else factors[their_tree.entry_of_row[at]]
    scale: Scale = "factor" if str(ours.algorithm.get("name", "")).startswith("slurm-") else "position"
    parts = split_difference(
        ours.factor[entry[at]],
        None if with_usage is None else with_usage[entry[at]],
        with_tree,
        scheduler_factor[at],
        same_usage=bool(np.all(np.abs(ours.usage[entry[at]] - own[at]) < 1.0 + _SUM * own[at])),
        scale=scale,
    )
    differences = [
        Difference(
            group=rows[row].group,
            user=rows[row].user,
            entry=int(entry[row]),
            ours=float(ours.factor[entry[row]]),
            theirs=float(scheduler_factor[row]),
            our_usage=float(ours.usage[entry[row]]),
            their_usage=float(own[row]),
            difference=float(parts.whole[i]),
            by_usage=float(parts.by_usage[i]),
            by_tree=float(parts.by_tree[i]),
            by_rule=float(parts.by_rule[i]),
            reason=parts.reasons[i],
        )
        for i, row in enumerate(at.tolist())
    ]
    return Comparison(differences, int((is_user & (entry < 0)).sum()), scale)


def _with_their_usage(ours: Ours, entry: I8, own: F8) -> F8 | None:
    """Our factors with the scheduler's usage: users' usage at their entries, and usage of groups without a member."""
    usage = np.zeros(ours.tree.n_entries)
    placed = entry >= 0
    np.add.at(usage, entry[placed], own[placed])
    return _factors(ours.tree, usage, ours.algorithm)


def _factors(tree: FairshareTree, usage: F8, algorithm: Mapping[str, Any]) -> F8 | None:
    """Factors of a tree; None if the algorithm rejects it (for inherited shares, for example) or a package fails."""
    try:
        return compute(tree, usage, algorithm=algorithm).factor
    except EngineError:
        return None


@dataclass(frozen=True, eq=False)
class Parts:
    """Parts of the differences, arrays (m,): whole = by_usage + by_tree + by_rule."""

    whole: F8
    by_usage: F8
    by_tree: F8
    by_rule: F8
    reasons: Sequence[Reason]


def split_difference(
    ours: F8, with_usage: F8 | None, with_tree: F8 | None, scheduler_values: F8, *, same_usage: bool, scale: Scale
) -> Parts:
    """Split differences of factors (m,) into parts, from the four computations; None for one that is not possible.

    same_usage: usage differs by less than one unit, so that its effect is rounding. The part of an impossible
    computation goes to the next one: a tree that our algorithm rejects is a matter of the algorithm (`rule`).
    """
    first = ours if with_usage is None else with_usage
    steps = [ours, first, first if with_tree is None else with_tree, scheduler_values]
    if scale == "position":
        steps = [_positions(step) for step in steps]
    by_usage, by_tree, by_rule = (before - after for before, after in pairwise(steps))
    whole = steps[0] - steps[3]
    parts = np.abs(np.stack([by_usage, by_tree, by_rule]))
    names: tuple[Reason, ...] = ("rounding" if same_usage else "usage", "tree", "rule")
    is_small = np.abs(whole) <= (PRINTED if scale == "factor" else _SUM)
    largest = np.argmax(parts, axis=0) if len(whole) else np.zeros(0, np.int64)
    reasons: list[Reason] = [
        ("none" if value == 0 else "rounding") if small else names[index]
        for value, small, index in zip(whole.tolist(), is_small.tolist(), largest.tolist(), strict=True)
    ]
    return Parts(whole, by_usage, by_tree, by_rule, reasons)


def _positions(factor: F8) -> F8:
    """Fraction of values that are smaller, 0..1; values equal in the printed digits share the mean."""
    n = len(factor)
    if n < 2:
        return np.zeros(n)
    _values, index, counts = np.unique(np.round(factor, 6), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    positions: F8 = (((2 * last - counts - 1) / 2)[index] / (n - 1)).astype(np.float64)
    return positions


ROOT = "root"


@dataclass(frozen=True, eq=False)
class TheirTree:
    """The scheduler's tree. entry_of_row: (rows,) entry of each row. own_usage: (entries,) in the scheduler's unit."""

    tree: FairshareTree
    entry_of_row: I8
    own_usage: F8


def own_usage_of(rows: Sequence[OwnValue]) -> F8:
    """Own usage of each row: of a user the listed usage, of a group the part that its users and groups don't have.

    Listed usage is truncated to whole numbers, so a remainder of less than one per member is ignored. A larger
    remainder is usage of removed users.
    """
    own = np.array([0.0 if math.isnan(row.raw_usage) else row.raw_usage for row in rows])
    row_of_group = {row.group: i for i, row in enumerate(rows) if not row.user}
    below, members = np.zeros(len(rows)), np.zeros(len(rows))
    for i, row in enumerate(rows):
        above = row_of_group.get(row.group if row.user else row.parent)
        if above is not None and above != i:
            below[above] += own[i]
            members[above] += 1
    is_group = np.array([not row.user for row in rows], np.bool_)
    rest = own - below
    return np.where(is_group, np.where(rest > members, rest, 0.0), own)


def build_their_tree(rows: Sequence[OwnValue]) -> TheirTree | None:
    """Build the scheduler's tree; None if the rows don't contain the groups' parents or are no tree."""
    row_of_group = {row.group: i for i, row in enumerate(rows) if not row.user}
    if ROOT not in row_of_group:
        return None
    parents = []
    for row in rows:
        is_root = not row.user and row.group == ROOT
        above = -1 if is_root else row_of_group.get(row.group if row.user else row.parent)
        if above is None:
            return None
        parents.append(above)
    shares = [math.nan if row.raw_shares == PARENT else _shares(row) for row in rows]
    is_user = [bool(row.user) for row in rows]
    try:
        tree, order = FairshareTree.from_columns(
            parents, shares, is_group=[not user for user in is_user], is_user=is_user
        )
    except BadTree:
        return None
    entry = np.empty(len(rows), np.int64)
    entry[order] = np.arange(len(rows))
    return TheirTree(tree, entry, own_usage_of(rows)[order])


def _shares(row: OwnValue) -> float:
    return 0.0 if math.isnan(row.raw_shares) else row.raw_shares
