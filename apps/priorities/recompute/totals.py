"""Usage totals of the entries of a computed tree, hypothetical changes of them, and the priorities that follow.

Totals come from a stored snapshot, so no usage is read: a page can answer while a user still edits a number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from apps.core.errors import Conflict, Invalid
from apps.engine.algorithms import PriorityResult, compute_prepared, get_algorithm, read_algorithm
from apps.engine.algorithms.inputs import compare_totals, prepare
from apps.engine.errors import BadParameter, BadTree
from apps.engine.tree import FairshareTree
from apps.policies.settings import refuse_inherited, refusing_failed_packages
from apps.policies.tree.columns import TreeColumns, has_same_entries
from apps.priorities.recompute.comparison import matching_indexes

F8 = npt.NDArray[np.float64]
_ROUNDING = 1e-9  # relative to a total: a smaller remainder after subtraction is rounding error


@contextmanager
def conflict_without_algorithm() -> Iterator[None]:
    """Raise Conflict `no_algorithm` where an algorithm's package is no longer installed (BadParameter)."""
    try:
        yield
    except BadParameter as error:
        raise Conflict(str(error), code="no_algorithm") from None


@dataclass(frozen=True, eq=False)
class Totals:
    """Usage of every entry and all below it, (n,), decayed, in the policy's metric.

    usage: in the scope an entry is compared by; group_usage: in the scope its children are compared by.
    """

    tree: TreeColumns
    usage: F8
    group_usage: F8

    def added(self, entry: int, amount: float) -> Totals:
        """Add an amount (below 0: subtract it) to an entry and its ancestors; no total falls below 0."""
        usage, group_usage = self.usage.copy(), self.group_usage.copy()
        while entry >= 0:
            usage[entry] = max(usage[entry] + amount, 0.0)
            group_usage[entry] = max(group_usage[entry] + amount, 0.0)
            entry = int(self.tree.parent[entry])
        return Totals(self.tree, usage, group_usage)

    def corrected(self, entry: int, amount: float) -> Totals:
        """Apply one adjustment of usage. A refund reduces the entries below in proportion: see `inputs.corrected`."""
        usage, group_usage = self.usage.copy(), self.group_usage.copy()
        above = self.tree.ancestors(entry)
        for totals in (usage, group_usage):
            change = max(amount, -float(totals[entry]))
            left = (float(totals[entry]) + change) / float(totals[entry]) if totals[entry] > 0 and amount < 0 else 1.0
            for level in self.tree.subtree(entry)[1:]:
                totals[level.start : level.stop] *= left
            totals[[*above, entry]] += change
            np.maximum(totals, 0.0, out=totals)
        return Totals(self.tree, usage, group_usage)

    def compute(self, algorithm: Mapping[str, Any], *, tree: FairshareTree | None = None) -> PriorityResult:
        """Priorities of the tree, or of one with the same entries and other shares; raises as `compute_from_totals`."""
        return compute_from_totals(tree or self.tree.engine_tree(), self.usage, self.group_usage, algorithm=algorithm)

    def carried_to(self, after: TreeColumns) -> Totals:
        """Totals of the entries of another tree, matched by uid.

        An entry that kept its parent keeps its total to the last bit. One that moved takes its total along, a new one
        has none, and an archived one is subtracted from all its former ancestors. Where a move changes the scope that
        an entry is compared by, its total stays that of the old scope.
        """
        before = self.tree
        if has_same_entries(before, after) and np.array_equal(before.parent, after.parent):
            return Totals(after, self.usage, self.group_usage)
        in_before, in_after = matching_indexes(after, before), matching_indexes(before, after)
        known = in_before >= 0
        usage = np.where(known, self.usage[in_before], 0.0)
        group_usage = np.where(known, self.group_usage[in_before], 0.0)
        old_parent = np.where(known, before.parent[in_before], -1)
        new_parent = np.where(after.parent >= 0, in_before[after.parent], -1)
        stayed = known & (old_parent == new_parent)
        if stayed[1:].all() and len(after) == len(before):
            return Totals(after, usage, group_usage)
        change = np.zeros(len(after))
        left = np.flatnonzero(in_after[before.parent] != np.where(in_after >= 0, after.parent[in_after], -2))
        left = left[(left > 0) & (in_after[before.parent[left]] >= 0)]
        np.subtract.at(change, in_after[before.parent[left]], self.usage[left])
        for lo, hi in reversed(list(zip(after.level_starts[1:-1], after.level_starts[2:], strict=True))):
            level = slice(lo, hi)
            moved_in = np.where(stayed[level], change[level], _sum_or_zero(usage[level], change[level]))
            np.add.at(change, after.parent[level], moved_in)
        return Totals(after, _sum_or_zero(usage, change), _sum_or_zero(group_usage, change))


def _sum_or_zero(total: F8, change: F8) -> F8:
    """The sum, and 0 where rounding is all that remains of the total."""
    sums: F8 = total + change
    return np.where(sums < _ROUNDING * total, 0.0, sums)


def compute_from_totals(
    tree: FairshareTree, usage: F8, group_usage: F8, *, algorithm: Mapping[str, Any]
) -> PriorityResult:
    """Compute priorities of a tree from its totals; see `Totals` for the two columns.

    Raises BadTree and BadParameter as `engine.algorithms.compute` does, and Invalid (`package_failed`) where a package
    fails.
    """
    settings = read_algorithm(algorithm)
    chosen = get_algorithm(settings["name"])
    if tree.inherits.any() and not chosen.takes_inherit:
        at = int(np.argmax(tree.inherits))
        raise BadTree(f"{chosen.name} has no inherited shares; a number ≥ 0 is allowed", place=tree.path(at), row=at)
    prepared = prepare(tree)
    with refusing_failed_packages():
        return compute_prepared(prepared, compare_totals(prepared, usage, group_usage), settings)


def simulate_totals(totals: Totals, after: TreeColumns, *, algorithm: Mapping[str, Any]) -> PriorityResult:
    """Compute priorities of a changed tree, under any algorithm, with the totals carried over to it.

    Raises Invalid (`no_inherit`, `package_failed`) and BadParameter.
    """
    if after.inherit.any():
        refuse_inherited(after, algorithm)
    return totals.carried_to(after).compute(algorithm)


def simulate_totals_or_none(
    totals: Totals, after: TreeColumns, *, algorithm: Mapping[str, Any]
) -> PriorityResult | None:
    """As `simulate_totals`; None where the algorithm doesn't fit the tree, fails or is no longer installed."""
    try:
        return simulate_totals(totals, after, algorithm=algorithm)
    except (Invalid, BadParameter):
        return None
