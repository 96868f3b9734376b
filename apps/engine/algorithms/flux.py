"""`flux`: the ranking of flux-accounting's weighted tree."""

from __future__ import annotations

import numpy as np

from apps.engine import operators, sweep
from apps.engine.algorithms.base import Column, Explanation, PriorityResult, finish
from apps.engine.algorithms.inputs import LARGE, Compared, Prepared
from apps.engine.arrays import BoolArray, FloatArray, IntArray
from apps.engine.numerics.ties import POINT, WeightRuler, WholeNumbers, balance, whole_numbers
from apps.engine.numerics.walk_order import Manners, count_ahead
from apps.engine.parameters import Parameter, Settings

# Less usage than this is none; who has none, and shares, has the highest weight.
IDLE_BELOW = 1e-9
IDLE_WEIGHT = 2.0**64

_MOST = float(np.finfo(np.float64).max)
_MANNERS = Manners(merges=True, hands_down=False)


class Flux:
    """weight = (shares / Σ shares) / (usage / Σ usage) among siblings; walked best first, tied banks as one."""

    name = "flux"
    label = "Flux: weighted tree"
    formula = "walk by w = (shares/Σ shares)/(usage/Σ usage), highest first; factor = (N − leaves ahead)/N"
    component = "(S − U)/(S + U), which is (w − 1)/(w + 1): −1 without shares, else 1 without usage"
    reference = "flux-accounting: weighted tree (src/fairness), commit 9546e250"
    parameters: tuple[Parameter, ...] = ()
    fields: tuple[str, ...] = ("target", "actual", "weight", "rank", "factor")
    takes_inherit = False
    explanation = Explanation("levels", component="weight")

    def properties(self, settings: Settings) -> operators.Properties:
        """Weights compare siblings alone, and who is idle leaves the quotients of the others as they were."""
        return operators.Properties(
            isolation=True, proportional_redistribution=True, scale_invariance=True, boundaries=True
        )

    def compute(self, prepared: Prepared, compared: Compared, settings: Settings) -> PriorityResult:
        """Weights of every entry, ranks and factors of leaves."""
        target, actual = prepared.target, compared.actual
        idle = compared.total < IDLE_BELOW / compared.scale
        weight = weigh(prepared, compared, idle)
        ruler = WeightRuler(weight, prepared.tree.parent, lambda some: _weigh_exactly(prepared, compared, idle, some))
        ahead = count_ahead(prepared.leaves, ruler, _MANNERS)
        is_leaf, n_leaves = prepared.tree.is_ranked, prepared.n_ranked
        return finish(
            prepared,
            compared,
            settings,
            actual=actual,
            priority=balance(target, np.where(idle, 0.0, actual)),
            rank=np.where(is_leaf, ahead + 1, 0),
            factor=np.where(is_leaf, (n_leaves - ahead) / max(n_leaves, 1), 0.0),
            has_rank=is_leaf,
            has_factor=is_leaf,
            is_ranked=is_leaf,
            n_ranked=n_leaves,
            columns={"weight": Column(weight)},
        )


def weigh(prepared: Prepared, compared: Compared, idle: BoolArray) -> FloatArray:
    """(shares / Σ shares) / (usage / Σ usage) among siblings, ≥ 0 and finite; 0 without shares, else 2^64 where `idle`.

    Ratios are rounded once, and then multiplied by one number in each group: siblings whose ratios are equal in
    fractions have equal weights.
    """
    tree, shares, usage = prepared.tree, prepared.tree.shares, compared.total
    whole_shares, whole_usage = prepared.sibling_shares, compared.sibling_usage
    is_ordinary = prepared.has_ordinary_shares and float(usage.max()) < LARGE
    if not is_ordinary:  # quotients may be beyond doubles
        shares, usage = shares.astype(np.longdouble), usage.astype(np.longdouble)
        whole_shares, whole_usage = sweep.sibling_sum(tree, shares), sweep.sibling_sum(tree, usage)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        weight = sweep.divide_parts(tree, shares, usage, whole_shares, whole_usage)
    weight[idle] = IDLE_WEIGHT
    weight[prepared.without_shares] = 0.0
    if not is_ordinary:
        weight = np.minimum(weight, _MOST).astype(np.float64)
    return weight


def _weigh_exactly(prepared: Prepared, compared: Compared, idle: BoolArray, entries: IntArray) -> WholeNumbers:
    """Weights · 2^POINT of these entries, rounded down, from the exact sums over their siblings."""
    tree = prepared.tree
    groups, group = np.unique(tree.parent[entries], return_inverse=True)
    counts = tree.child_count[groups].astype(np.int64)
    starts = np.cumsum(counts) - counts
    siblings = np.arange(int(counts.sum())) + np.repeat(tree.first_child[groups] - starts, counts)
    place = np.searchsorted(siblings, entries)
    shares, usage = whole_numbers(tree.shares[siblings]), compared.exact_totals(siblings)
    whole_shares, whole_usage = np.add.reduceat(shares, starts)[group], np.add.reduceat(usage, starts)[group]
    has_shares, is_idle = tree.shares[entries] > 0, idle[entries]
    divisor = np.where(has_shares, whole_shares, 1) * np.where(is_idle, 1, usage[place])
    weight: WholeNumbers = np.minimum((shares[place] * whole_usage << POINT) // divisor, int(_MOST) << POINT)
    weight[is_idle] = int(IDLE_WEIGHT) << POINT
    weight[~has_shares] = 0
    return weight
