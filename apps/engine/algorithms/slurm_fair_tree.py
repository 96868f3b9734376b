"""`slurm-fair-tree`: walk Slurm's share tree by level fairshare, with ties as Slurm runs or as its manual says."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from apps.engine import operators, sweep
from apps.engine.algorithms import inputs, slurm_shares
from apps.engine.algorithms.base import Column, Components, Explanation, PriorityResult, build_result, rank_by_walk
from apps.engine.algorithms.inputs import Compared, Prepared
from apps.engine.arrays import BoolArray, FloatArray, LongArray
from apps.engine.numerics import long_quotients
from apps.engine.numerics.ties import LevelOrder, balance
from apps.engine.numerics.walk_order import TieRules, WalkTree, count_ahead
from apps.engine.parameters import Parameter, Settings, choice

Sums = TypeVar("Sums", FloatArray, LongArray)

# The level of an account whose shares are `parent`: the number that Slurm uses for "no value".
NO_LEVEL = 4294967294.0
# Below this U, a level may exceed doubles; then all levels are divided with 64-bit mantissas and wider exponents.
_SMALLEST_DOUBLE_U = 2.0**-900

_TIE_RULES = {
    "as-slurm": TieRules(merges_lists=False, passes_ties_down=True),
    "as-documented": TieRules(merges_lists=True, passes_ties_down=True),
}


class SlurmFairTree:
    """LF = S/U: S = shares / Σ shares of the siblings, U = usage / usage of the fairshare parent."""

    name = "slurm-fair-tree"
    label = "Slurm: Fair Tree"
    formula = "walk by LF = S/U, highest first, users before accounts; factor = (N − users ahead)/N"
    component = "(S − U)/(S + U), which is (LF − 1)/(LF + 1): −1 without shares, else 1 without usage"
    reference = "Slurm: Fair Tree Fairshare Algorithm (priority/multifactor), as Slurm 22.05 computes it"
    parameters: tuple[Parameter, ...] = (
        choice(
            "ties",
            "Ties",
            "as-slurm",
            tuple(_TIE_RULES),
            note="as-slurm: accounts that tie follow each other in their order in the tree, as Slurm runs; "
            "as-documented: their members are merged and ranked together",
        ),
    )
    fields: tuple[str, ...] = slurm_shares.SSHARE_FIELDS
    takes_inherit = True
    explanation = Explanation("levels", component="level_fs")

    def properties(self, settings: Settings) -> operators.Properties:
        """Levels compare siblings alone; an idle entry doesn't change the quotients of the others."""
        return operators.Properties(
            isolation=True,
            proportional_redistribution=True,
            scale_invariance=True,
            boundaries=True,
            order_independent=settings["ties"] != "as-slurm",
        )

    def compute(self, prepared: Prepared, compared: Compared, settings: Settings) -> PriorityResult:
        """Levels of every entry, ranks and factors of users; `columns` has the names of `sshare`."""
        walk = prepared.user_walk
        shares: FloatArray = prepared.spread(prepared.target)
        usage = effective_usage(prepared, compared)
        order = _level_order(prepared, compared, shares, usage)
        ahead = count_ahead(walk, order, _TIE_RULES[settings["ties"]])
        level = order.value
        if not walk.is_unchanged:
            ahead, level = ahead[walk.index_of_entry], level[walk.index_of_entry]
        has_shares = None if prepared.is_whole else ~prepared.tree.inherits
        columns = {
            "norm_shares": Column(shares, None if has_shares is None else has_shares | (prepared.fairshare_parent > 0)),
            "norm_usage": Column(slurm_shares.norm_usage(prepared, compared)),
            "effective_usage": Column(usage),
            "level_fs": Column(level, has_shares),
        }
        actual = usage if prepared.is_whole else usage[prepared.entry]
        components = Components(actual, balance(prepared.target, actual))
        ranking = rank_by_walk(ahead, inputs.users_of(prepared.tree), walk.n_ranked)
        return build_result(prepared, compared, settings, components, ranking, columns)


def effective_usage(prepared: Prepared, compared: Compared) -> FloatArray:
    """U = usage / usage of the fairshare parent, both with their subtrees, (n,) 0..1; 0 where the parent has none.

    Source: Slurm: Fair Tree Fairshare Algorithm.
    """
    total, group_total = compared.total, compared.group_total
    if prepared.is_whole:
        usage = sweep.divide_by_group(prepared.tree, total, group_total)
    else:
        parent_total = group_total[np.maximum(prepared.fairshare_parent, 0)]
        usage = np.divide(total, parent_total, out=np.zeros(len(total)), where=parent_total > 0)
    usage[0] = 1.0 if total[0] > 0 else 0.0
    return usage


def level_fairshare(shares: FloatArray, usage: FloatArray) -> FloatArray:
    """LF = S / U; infinite where only U is 0, 0 where S is 0. Source: Slurm: Fair Tree Fairshare Algorithm."""
    S, U = shares, usage
    with np.errstate(divide="ignore", invalid="ignore"):
        LF = S / U
    LF[S == 0] = 0.0
    return LF


def _level_order(prepared: Prepared, compared: Compared, shares: FloatArray, usage: FloatArray) -> LevelOrder:
    """The order by LF of the entries of the walk tree, from S (`shares`) and U (`usage`) of the share tree.

    A user whose shares are `parent` has an infinite level, an account `NO_LEVEL`: both get numbers S and U that have
    this quotient.
    """
    walk, is_sum = prepared.user_walk, prepared.tree.child_count > 0
    total, list_total, owner = compared.total, compared.group_total, walk.tree.parent
    inherits = prepared.tree.inherits if walk.is_unchanged else prepared.tree.inherits[walk.entry]

    def long_sums() -> tuple[LongArray, LongArray]:
        return compared.long_totals if walk.is_unchanged else _sums_of_walk(walk, inherits, *compared.long_totals)

    if not walk.is_unchanged:
        total, list_total = _sums_of_walk(walk, inherits, total, list_total)
        shares = np.where(inherits, np.where(walk.is_ranked, 1.0, NO_LEVEL), shares[walk.entry])
        usage = np.where(inherits, total, usage[walk.entry])
        owner = np.where(inherits, len(total), owner)
        is_sum = is_sum[walk.entry]
    if np.count_nonzero(usage < _SMALLEST_DOUBLE_U) > np.count_nonzero(total == 0):
        level = long_quotients.level_fairshare(shares, total, list_total[np.maximum(owner, 0)]).to_doubles()
    else:
        level = level_fairshare(shares, usage)
    return LevelOrder(level, shares, total, list_total, owner, is_sum, lambda: compared.adds_up_exactly, long_sums)


def _sums_of_walk(walk: WalkTree, inherits: BoolArray, total: Sums, list_total: Sums) -> tuple[Sums, Sums]:
    """Numerators (n,) and denominators (n + 1,) of U over the walk tree.

    Entries with `parent` shares have U = 0 (users) or 1 (accounts): they are divided by the last denominator, 1.
    """
    total_of_walk = np.where(inherits, np.where(walk.is_ranked, 0.0, 1.0), total[walk.entry])
    return total_of_walk, np.append(list_total[walk.entry], 1.0)
