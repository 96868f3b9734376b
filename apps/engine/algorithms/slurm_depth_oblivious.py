"""`slurm-depth-oblivious`: Slurm's factor whose range doesn't narrow with the depth of the tree."""

from __future__ import annotations

import numpy as np

from apps.engine import operators
from apps.engine.algorithms import base
from apps.engine.algorithms.base import Column, Explanation, PriorityResult
from apps.engine.algorithms.inputs import Compared, Prepared
from apps.engine.arrays import BoolArray, FloatArray
from apps.engine.parameters import Parameter, Settings


class SlurmDepthOblivious:
    """F = 2^−(R / d), where the ratio R of an account bends its members' own ratios towards itself."""

    name = "slurm-depth-oblivious"
    label = "Slurm: depth-oblivious"
    formula = (
        "F = 2^(−R/d); R = R_parent · r_l^k, r_l = (U/S) / (Σ U of the siblings / S_parent); "
        "k = 1 where R_parent and r_l lie on the same side of 1, else 1 / (1 + (5 ln R_parent)²)"
    )
    component = "2^(1 − R) − 1 with the ratio R of effective usage to normalised shares, before damping"
    reference = "Slurm: Depth-Oblivious Fair-share Factor (priority/multifactor with DEPTH_OBLIVIOUS)"
    parameters: tuple[Parameter, ...] = (base.DAMPING_FACTOR,)
    fields: tuple[str, ...] = (*base.SSHARE_FIELDS, "local_ratio", "k", "effective_ratio")
    takes_inherit = True
    explanation = Explanation("ratio", used="effective_usage", due="norm_shares", own_ratio="local_ratio", exponent="k")

    def properties(self, settings: Settings) -> operators.Properties:
        """An account's ratio reaches its members, so a priority changes with what others use, but not their order."""
        return operators.Properties(
            isolation=False, proportional_redistribution=True, scale_invariance=True, boundaries=True, sign=False
        )

    def compute(self, prepared: Prepared, compared: Compared, settings: Settings) -> PriorityResult:
        """Factors 0..1 of every entry, ranks of users; `columns` as `sshare` names them."""
        usage = base.norm_usage(prepared, compared)
        effective = effective_usage(prepared, usage[prepared.entry], compared.actual)
        columns = ratio_columns(prepared, effective, compared.actual)
        return base.assemble_sshare(
            prepared, compared, settings, norm_usage=usage, effective=effective, columns=columns
        )


def effective_usage(prepared: Prepared, usage: FloatArray, actual: FloatArray) -> FloatArray:
    """UE = R · S of the competing entries, (m,) 0..1, from their parts U of all usage and of their siblings' usage.

    U directly below the root, and where U, S, S_parent or UE_parent is 0; else UE_parent · target · r^k with
    r = actual / target, which is the ratio of U/S to that of all siblings. r spans 600 decades, so its logarithm is
    taken.
    """
    contest, target, shares = prepared.contest, prepared.target, prepared.target_global
    effective = np.ones(contest.n_entries)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        for number, level in enumerate(contest.levels):
            here, above = slice(level.lo, level.hi), contest.parent[level.lo : level.hi]
            if number == 0:
                effective[here] = usage[here]
                continue
            log_parent = np.log(effective[above]) - np.log(shares[above])
            log_local = np.log(actual[here]) - np.log(target[here])
            k = 1.0 / (1.0 + (5.0 * log_parent) ** 2)
            bent = effective[above] * target[here] * np.exp(k * log_local)
            ratio = np.where(log_parent * log_local >= 0, effective[above] * actual[here], bent)
            is_known = (shares[here] > 0) & (shares[above] > 0) & (effective[above] > 0) & (usage[here] > 0)
            effective[here] = np.where(is_known, ratio, usage[here])
    return effective


def ratio_columns(prepared: Prepared, effective: FloatArray, actual: FloatArray) -> dict[str, Column]:
    """What the formula is made of, (n,): `local_ratio` r_l = actual / target ≥ 0, `k` 0..1, `effective_ratio` R ≥ 0.

    k exists where the formula applies: below the first level, where S, R_parent and r_l are above 0. r_l and R exist
    where there are shares. Nothing of an entry whose shares are *inherit*: it has no ratio of its own.
    """
    contest, target, shares = prepared.contest, prepared.target, prepared.target_global
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        ratio, local = effective / shares, actual / target
        has_ratio, has_local = np.isfinite(ratio), np.isfinite(local)
        local[has_local & operators.on_target(target, actual)] = 1.0  # else k would depend on how sums are rounded
        above = ratio[contest.parent]
        applies = has_ratio & has_local & (above > 0) & (above < np.inf) & (local > 0) & (contest.parent > 0)
        other_side = np.flatnonzero(applies & ((above > 1) != (local > 1)) & (above != 1) & (local != 1))
        k = np.ones(len(ratio))
        k[other_side] = 1.0 / (1.0 + (5.0 * np.log(above[other_side])) ** 2)
    has_ratio[0] = False

    def column(values: FloatArray, exists: BoolArray) -> Column:
        values[~exists] = 0.0
        if prepared.is_whole:
            return Column(values, exists)
        own = ~prepared.tree.inherits
        there: BoolArray = prepared.spread(exists) & own
        return Column(np.where(there, prepared.spread(values), 0.0), there)

    return {
        "local_ratio": column(local, has_ratio & has_local),
        "k": column(k, applies),
        "effective_ratio": column(ratio, has_ratio),
    }
