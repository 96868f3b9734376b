"""The one criterion of advice, experiments and evidence: how far usage was from fair use, in every group of a tree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apps.engine.algorithms.inputs import prepare
from apps.engine.arrays import FloatArray
from apps.engine.convergence import demand_error_points
from apps.engine.sweep import sum_up
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
