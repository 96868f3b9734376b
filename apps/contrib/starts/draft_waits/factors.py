"""Factors of a policy's entries as published and under a draft, from one calculation with the same usage."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.document_merge import indexes_of
from apps.priorities.recompute.simulation import Projection
from apps.priorities.recompute.totals import Totals, simulate_totals_or_none

F8 = npt.NDArray[np.float64]
ComputedFrom = tuple[TreeColumns, PolicySettings]


class TriedFactors(NamedTuple):
    """published, draft: (entries,) of a tree, between 0 and 1; NaN for an entry that has none there."""

    published: F8
    draft: F8


def factors_of_projection(tree: TreeColumns, projection: Projection) -> TriedFactors:
    """As the effect of a change set has them at once, for the entries of a tree."""
    published, draft = (np.full(len(tree), np.nan) for _each in range(2))
    at = indexes_of(projection.uid, tree)
    known = at >= 0
    published[at[known]] = projection.factor_without[0, known]
    draft[at[known]] = projection.factor_with[0, known]
    return TriedFactors(published, draft)


def factors_of_totals(totals: Totals, published: ComputedFrom, draft: ComputedFrom) -> TriedFactors | None:
    """By the usage of a snapshot, for the entries of the published tree; None where an algorithm doesn't fit."""
    factors = []
    for tree, settings in (published, draft):
        numbers = simulate_totals_or_none(totals, tree, algorithm=settings.algorithm)
        if numbers is None:
            return None
        at = indexes_of(published[0].uid, tree)
        factors.append(np.where((at >= 0) & numbers.has_factor[at], numbers.factor[at], np.nan))
    return TriedFactors(*factors)


def counts_alike(published: PolicySettings, draft: PolicySettings) -> bool:
    """Whether usage counts the same, so that the totals of a snapshot are those of both."""
    return all(getattr(published, name) == getattr(draft, name) for name in ("metric", "window", "approach"))
