"""`flux`: the ranking of flux-accounting's weighted tree."""

from __future__ import annotations

from functools import partial

import numpy as np

from apps.engine import operators, sweep
from apps.engine.algorithms.base import (
    Column,
    Components,
    Explanation,
    PriorityResult,
    Ranking,
    build_result,
    rank_by_walk,
)
from apps.engine.algorithms.inputs import LARGE, Compared, Prepared
from apps.engine.arrays import FEWEST_FOR_MACHINE_CODE, BoolArray, FloatArray, IntArray, LongArray, read_only
from apps.engine.numerics.flux_ties import IDLE_WEIGHT, POINT, Walked, WeightOrder, WholeNumbers, whole_numbers
from apps.engine.numerics.ties import balance
from apps.engine.numerics.walk_order import TieRules, count_ahead
from apps.engine.parameters import Parameter, Settings

# Less usage than this counts as none; an entry with shares and no usage has the highest weight.
IDLE_BELOW = 1e-9

_MOST_WEIGHT = float(np.finfo(np.float64).max)
_TIE_RULES = TieRules(merges_lists=True, passes_ties_down=False)


class Flux:
    """weight = (shares / Σ shares) / (usage / Σ usage) among siblings; walked best first, tied banks are merged."""

    name = "flux"
    label = "Flux: weighted tree"
    formula = "order by w = (shares/Σ shares)/(usage/Σ usage), highest first; factor = (N − users ahead)/N"
    component = (
        "(S − U)/(S + U), which is (w − 1)/(w + 1): −1 without shares, else 1 without usage; "
        "less than 1e-9 core-s counts as none"
    )
    reference = "flux-accounting: weighted tree (src/fairness), commit 9546e250"
    parameters: tuple[Parameter, ...] = ()
    fields: tuple[str, ...] = ("target", "actual", "weight", "rank", "factor")
    takes_inherit = False
    explanation = Explanation("levels", component="weight")

    def properties(self, settings: Settings) -> operators.Properties:
        """Weights compare siblings alone; an idle entry doesn't change the quotients of the others."""
        return operators.Properties(
            isolation=True, proportional_redistribution=True, scale_invariance=True, boundaries=True
        )

    def compute(self, prepared: Prepared, compared: Compared, settings: Settings) -> PriorityResult:
        """Weights of every entry, ranks and factors of leaves."""
        tree, n_ranked = prepared.tree, prepared.n_ranked
        walked = _walk_lists(prepared, compared) or _walk_columns(prepared, compared)
        components = Components(walked.actual, walked.priority)
        ranking = Ranking(walked.rank, walked.factor, tree.is_ranked, tree.is_ranked, tree.is_ranked, n_ranked)
        return build_result(prepared, compared, settings, components, ranking, {"weight": Column(walked.weight)})


def _walk_columns(prepared: Prepared, compared: Compared) -> Walked:
    """Weights, the walk by them and balances, column by column, with ties in exact arithmetic."""
    tree, actual = prepared.tree, compared.actual
    idle = compared.total < IDLE_BELOW / compared.scale
    weight = weights(prepared, compared, idle)
    order = WeightOrder(
        weight,
        tree.parent,
        tree.child_count,
        tree.shares,
        compared.total,
        long=partial(_long_weights, prepared, compared, idle),
        exact=partial(_exact_weights, prepared, compared, idle),
    )
    ahead = count_ahead(prepared.leaf_walk, order, _TIE_RULES)
    ranking = rank_by_walk(ahead, tree.is_ranked, prepared.n_ranked)
    return Walked(weight, actual, balance(prepared.target, np.where(idle, 0.0, actual)), ranking.rank, ranking.factor)


def _walk_lists(prepared: Prepared, compared: Compared) -> Walked | None:
    """What columns give, by machine code; None where there is none, or where doubles don't decide."""
    tree = prepared.tree
    if tree.n_entries < FEWEST_FOR_MACHINE_CODE or not _is_ordinary(prepared, compared):
        return None
    # Imported here, because small trees shouldn't wait for numba to be loaded.
    from apps.engine import fast
    from apps.engine.numerics import flux_walk

    if not fast.is_on():
        return None
    read = flux_walk.Walk(
        tree.parent,
        tree.first_child,
        tree.child_count,
        int(tree.level_offsets[-2]),
        read_only(tree.is_ranked),
        read_only(prepared.leaf_walk.n_ranked_below),
        read_only(prepared.target),
        read_only(tree.shares),
        read_only(compared.total),
        read_only(prepared.sibling_shares),
        read_only(compared.sibling_usage),
        IDLE_BELOW / compared.scale,
    )
    n = tree.n_entries
    walked = Walked(np.empty(n), np.empty(n), np.empty(n), np.empty(n, dtype=np.int64), np.empty(n))
    room = flux_walk.Room.of(read.n_inner, int(np.diff(tree.level_offsets).max()))
    return walked if fast.attempt(flux_walk.walk, read, room, walked) else None


def _is_ordinary(prepared: Prepared, compared: Compared) -> bool:
    """Whether no quotient exceeds doubles."""
    return prepared.has_ordinary_shares and float(compared.total.max()) < LARGE


def weights(prepared: Prepared, compared: Compared, idle: BoolArray) -> FloatArray:
    """w = (shares / Σ shares) / (usage / Σ usage) among siblings, ≥ 0 and finite; 0 without shares, else 2^64 if idle.

    Computed as (shares / usage) · (Σ usage / Σ shares): the first ratio is rounded once and the second is one number
    for all siblings, so siblings with equal ratios have equal weights. Source: flux-accounting, weighted tree.
    """
    tree, shares, usage = prepared.tree, prepared.tree.shares, compared.total
    sum_shares, sum_usage = prepared.sibling_shares, compared.sibling_usage
    is_ordinary = _is_ordinary(prepared, compared)
    if not is_ordinary:
        shares, usage = shares.astype(np.longdouble), usage.astype(np.longdouble)
        sum_shares, sum_usage = sweep.sibling_sum(tree, shares), sweep.sibling_sum(tree, usage)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        weight = sweep.divide_parts(tree, shares, usage, sum_shares, sum_usage)
    weight[idle] = IDLE_WEIGHT
    weight[prepared.without_shares] = 0.0
    if not is_ordinary:
        weight = np.minimum(weight, _MOST_WEIGHT).astype(np.float64)
    return weight


def _long_weights(prepared: Prepared, compared: Compared, idle: BoolArray, entries: IntArray) -> LongArray:
    """w of these entries as long doubles, off by 2⁻⁶² of it at most; NaN where sums or weights are rounded before.

    For w > 0 of entries that aren't idle, if shares and usage are whole numbers that doubles add up exactly.
    """
    tree, parent = prepared.tree, prepared.tree.parent[entries]
    if not (prepared.has_whole_shares and compared.own is not None and compared.adds_up_exactly):
        return np.full(len(entries), np.nan, dtype=np.longdouble)
    columns = (tree.shares[entries], compared.sibling_usage[parent], prepared.sibling_shares[parent])
    shares, sum_usage, sum_shares = (column.astype(np.longdouble) for column in columns)
    usage = np.where(idle[entries] | (shares == 0), np.nan, compared.total[entries]).astype(np.longdouble)
    weight: LongArray = (shares * sum_usage) / (sum_shares * usage)
    return weight


def _exact_weights(prepared: Prepared, compared: Compared, idle: BoolArray, entries: IntArray) -> WholeNumbers:
    """w · 2^POINT of these entries, rounded down, from exact sums over their siblings."""
    tree = prepared.tree
    groups, group = np.unique(tree.parent[entries], return_inverse=True)
    counts = tree.child_count[groups].astype(np.int64)
    starts = np.cumsum(counts) - counts
    siblings = np.arange(int(counts.sum())) + np.repeat(tree.first_child[groups] - starts, counts)
    index = np.searchsorted(siblings, entries)
    shares, usage = whole_numbers(tree.shares[siblings]), compared.exact_totals(siblings)
    sum_shares, sum_usage = np.add.reduceat(shares, starts)[group], np.add.reduceat(usage, starts)[group]
    has_shares, is_idle = tree.shares[entries] > 0, idle[entries]
    dividend = shares[index] * sum_usage << POINT
    divisor = np.where(has_shares, sum_shares, 1) * np.where(is_idle, 1, usage[index])
    weight: WholeNumbers = np.minimum(dividend // divisor, int(_MOST_WEIGHT) << POINT)
    weight[is_idle] = int(IDLE_WEIGHT) << POINT
    weight[~has_shares] = 0
    return weight
