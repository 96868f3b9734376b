"""The one criterion of advice, experiments and evidence: how far usage was from fair use, in every group of a tree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from apps.engine.algorithms.inputs import prepare
from apps.engine.arrays import BoolArray, FloatArray
from apps.engine.convergence import demand_error_points
from apps.engine.sweep import sum_up
from apps.engine.target_state import is_on_target
from apps.engine.tree import FairshareTree


@dataclass(frozen=True, eq=False)
class FairUse:
    """Distances from fair use in points. at: (times,) of the whole tree, groups weighted by their usage; NaN without
    usage. groups: (n,) of each group over all times, weighted by its usage; NaN for others, and without usage.
    """

    at: FloatArray
    groups: FloatArray

    @property
    def mean(self) -> float:
        """Over the times with usage; NaN without any."""
        known = self.at[np.isfinite(self.at)]
        return float(known.mean()) if len(known) else float("nan")


def fair_use(tree: FairshareTree, used: FloatArray, demand: FloatArray) -> FairUse:
    """From usage and demand of the entries themselves, (times, n).

    In each group: the part of its usage that would have to be another entry's, so that all have their targets as far
    as their demand allows (`demand_error_points`). A share that nobody asks for is no error of the scheduler.
    """
    prepared = prepare(tree)
    contest, target = prepared.contest, prepared.target
    used, demand = (np.stack([sum_up(tree, row)[0] for row in each])[:, prepared.entry] for each in (used, demand))
    n_times = len(used)
    errors, weights = np.zeros(n_times), np.zeros(n_times)
    of_groups = np.full(tree.n_entries, np.nan)
    for group in np.flatnonzero(contest.child_count > 1).tolist():
        first = int(contest.first_child[group])
        here = slice(first, first + int(contest.child_count[group]))
        amount = used[:, here].sum(axis=1)
        weighted = np.zeros(n_times)
        for at in np.flatnonzero(amount > 0).tolist():
            weighted[at] = amount[at] * demand_error_points(target[here], used[at, here], demand[at, here])
        errors += weighted
        weights += amount
        if amount.any():
            of_groups[prepared.entry[group]] = weighted.sum() / amount.sum()
    points: FloatArray = np.divide(errors, weights, out=np.full(n_times, np.nan), where=weights > 0)
    return FairUse(points, of_groups)


def kept_from(
    tree: FairshareTree,
    used: FloatArray,
    demand: FloatArray,
    at_h: FloatArray,
    band: Callable[[FloatArray, BoolArray], FloatArray],
) -> FloatArray:
    """(n,) of each group the first of these hours from which on all its entries have their fair part of its usage:
    their targets as far as their demand allows. Infinite: not by the end; NaN for others, and without usage at the end.

    used, demand: (times, n) of each entry and all below it. band: half the width of the band around the fair parts of
    entries, (n, times), and whether each is a leaf.
    """
    prepared = prepare(tree)
    contest, target = prepared.contest, prepared.target
    hours = np.full(tree.n_entries, np.nan)
    for group in np.flatnonzero(contest.child_count > 1).tolist():
        first = int(contest.first_child[group])
        entry = prepared.entry[first : first + int(contest.child_count[group])]
        amount = used[:, entry].sum(axis=1, keepdims=True)
        if amount[-1] <= 0:
            continue
        here = target[first : first + len(entry)]
        wished = _water_filled(here, np.maximum(demand[:, entry], used[:, entry]), amount[:, 0])
        share, fair = (np.divide(each, np.where(amount > 0, amount, 1.0)).T for each in (used[:, entry], wished))
        is_on = is_on_target(share, fair, band(fair, tree.child_count[entry] == 0))
        is_kept = (is_on | (amount[:, 0] <= 0)).all(axis=0)
        open_at = np.flatnonzero(~is_kept)
        begin = int(open_at[-1]) + 1 if len(open_at) else 0
        hours[prepared.entry[group]] = at_h[begin] if begin < len(at_h) else np.inf
    return hours


def _water_filled(target: FloatArray, demand: FloatArray, capacity: FloatArray) -> FloatArray:
    """(times, k) `water_fill` of one group at many times at once. demand: (times, k); capacity: (times,)."""
    demand = np.where(target > 0, demand, 0.0)
    per_target = np.divide(demand, target, out=np.zeros_like(demand), where=target > 0)
    order = np.argsort(per_target, axis=1, kind="stable")
    asked, weight = np.take_along_axis(demand, order, axis=1), target[order]
    left = capacity[:, None] - (np.cumsum(asked, axis=1) - asked)  # for this entry and all that ask for more
    others = weight[:, ::-1].cumsum(axis=1)[:, ::-1]
    level = np.divide(left, others, out=np.zeros_like(left), where=others > 0)
    is_short = (asked > level * weight) & (weight > 0)
    first = is_short.argmax(axis=1)
    of_all = np.where(is_short.any(axis=1), np.take_along_axis(level, first[:, None], axis=1)[:, 0], np.inf)
    with np.errstate(invalid="ignore"):
        amounts: FloatArray = np.where(target > 0, np.minimum(demand, of_all[:, None] * target), 0.0)
    return amounts
