"""Explain why the scheduler's numbers and ours differ: usage, tree, algorithm, restart, rounding. Pure functions.

The difference is split by three computations, which replace one input at a time:

    ours           our algorithm, our tree, our usage
    with_usage     our algorithm, our tree, their usage
    with_tree      our algorithm, their tree, their usage
    theirs         as listed by the scheduler

so that usage + tree + rule is exactly the difference. A reason is stated only where it predicts the scheduler's number
within 1 % of the difference: what is computed with that input replaced, or otherwise as the reason says. Else the
difference is unexplained.

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
from apps.engine.algorithms import compute, read_algorithm
from apps.engine.errors import BadTree, EngineError
from apps.engine.tree import FairshareTree

F8 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Reason = Literal["none", "rounding", "usage", "tree", "both", "restart", "rule", "unexplained"]
Scale = Literal["factor", "position"]
REASONS: tuple[Reason, ...] = ("usage", "tree", "both", "restart", "rule", "unexplained", "rounding", "none")
PRINTED = 1e-6  # sshare prints six decimals
PROVED = 0.01  # of a difference, by which a prediction may miss it
_BY_EFFECTIVE_USAGE = ("slurm-classic", "slurm-depth-oblivious")
_SLURMS = ("slurm-fair-tree", "slurm-classic", "slurm-depth-oblivious")
_SUM = 1e-9  # tolerance for sums of doubles
ROOT = "root"


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
    predicted = {} if their_tree is None else _predicted(rows, ours, their_tree)
    parts = split_difference(
        ours.factor[entry[at]],
        None if with_usage is None else with_usage[entry[at]],
        with_tree,
        scheduler_factor[at],
        same_usage=bool(np.all(np.abs(ours.usage[entry[at]] - own[at]) < 1.0 + _SUM * own[at])),
        scale=scale,
        predicted={reason: factors[at] for reason, factors in predicted.items()},
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
    ours: F8,
    with_usage: F8 | None,
    with_tree: F8 | None,
    scheduler_values: F8,
    *,
    same_usage: bool,
    scale: Scale,
    predicted: Mapping[Reason, F8] | None = None,
) -> Parts:
    """Split differences of factors (m,) into parts, from the four computations; None for one that is not possible.

    same_usage: usage differs by less than one unit, so that its effect is rounding. The part of an impossible
    computation goes to the next one. predicted: factors (m,) of the scheduler by further reasons, the likeliest first.
    """
    first = ours if with_usage is None else with_usage
    steps = [ours, first, first if with_tree is None else with_tree, scheduler_values]
    others = dict(predicted or {})
    if scale == "position":
        steps = [_positions(step) for step in steps]
        others = {reason: _positions(factors) for reason, factors in others.items()}
    by_usage, by_tree, by_rule = (before - after for before, after in pairwise(steps))
    whole = steps[0] - steps[3]
    smallest = PRINTED if scale == "factor" else _SUM
    missed: dict[Reason, F8] = {
        "rounding" if same_usage else "usage": by_tree + by_rule,
        "tree": np.abs(by_usage) + np.abs(by_rule),  # usage is replaced before: parts may not cancel each other
        "both": by_rule,
        **{reason: factors - steps[3] for reason, factors in others.items()},
    }
    most = np.maximum(PROVED * np.abs(whole), smallest)
    reasons: list[Reason] = ["unexplained"] * len(whole)
    for reason, miss in reversed(missed.items()):  # the likeliest last, so that it stays
        for i in np.flatnonzero(np.abs(miss) <= most).tolist():
            reasons[i] = reason
    for i in np.flatnonzero(np.abs(whole) <= smallest).tolist():
        reasons[i] = "none" if whole[i] == 0 else "rounding"
    return Parts(whole, by_usage, by_tree, by_rule, reasons)


def _predicted(rows: Sequence[OwnValue], ours: Ours, their_tree: TheirTree) -> dict[Reason, F8]:
    """The scheduler's factors (rows,) by reasons that aren't parts, the likeliest first; NaN where a row has none.

    rule: the algorithm of Slurm, other than ours, that comes closest to what it lists. restart: what its own
    EffectvUsage gives, which does not follow its RawUsage from a restart until jobs run.
    """
    predicted: dict[Reason, F8] = {}
    listed = np.array([row.fairshare for row in rows])
    known = ~np.isnan(listed)
    others = [
        factors[their_tree.entry_of_row]
        for name in _SLURMS
        if name != ours.algorithm.get("name")
        and (factors := _factors(their_tree.tree, their_tree.own_usage, read_algorithm(name))) is not None
    ]
    if others and known.any():
        predicted["rule"] = min(others, key=lambda factors: float(np.abs(factors - listed)[known].sum()))
    if ours.algorithm.get("name") in _BY_EFFECTIVE_USAGE:
        predicted["restart"] = _from_effective_usage(rows, float(ours.algorithm.get("damping_factor", 1.0)))
    return predicted


def _from_effective_usage(rows: Sequence[OwnValue], dampening: float) -> F8:
    """2^(−EffectvUsage / NormShares / dampening), Slurm's last step without Fair Tree; 0 without shares.

    Source: priority_p_calc_fs_factor of plugins/priority/multifactor.
    """
    used, shares = (np.array([getattr(row, name) for row in rows]) for name in ("effective_usage", "norm_shares"))
    with np.errstate(divide="ignore", invalid="ignore", under="ignore"):
        factors: F8 = np.where(shares > 0, np.exp2(-used / shares / dampening), np.where(shares == 0, 0.0, np.nan))
    return factors


def _positions(factor: F8) -> F8:
    """Fraction of values that are smaller, 0..1; values equal in the printed digits share the mean."""
    n = len(factor)
    if n < 2:
        return np.zeros(n)
    _values, index, counts = np.unique(np.round(factor, 6), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    positions: F8 = (((2 * last - counts - 1) / 2)[index] / (n - 1)).astype(np.float64)
    return positions


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
