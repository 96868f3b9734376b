"""`slurm-depth-oblivious`: Slurm's factor whose range doesn't narrow in deeper trees."""

from __future__ import annotations

import numpy as np

from apps.engine import operators
from apps.engine.algorithms import slurm_shares
from apps.engine.algorithms.base import Column, Explanation, PriorityResult
from apps.engine.algorithms.inputs import Compared, Prepared
from apps.engine.arrays import BoolArray, FloatArray
from apps.engine.parameters import Parameter, Settings


class SlurmDepthOblivious:
    """F = 2^−(R / d); the effective ratio R of an account shifts the ratios of its members towards itself."""

    name = "slurm-depth-oblivious"
    label = "Slurm: depth-oblivious"
    formula = (
        "F = 2^(−R/d); R = R_parent · r_l^k, r_l = (U/S) / (Σ U of the siblings / S_parent); "
        "k = 1 where R_parent and r_l lie on the same side of 1, else 1 / (1 + (5 ln R_parent)²)"
    )
    component = "2^(1 − R) − 1 with the ratio R of effective usage to normalised shares, before damping"
    reference = "Slurm: Depth-Oblivious Fair-share Factor (priority/multifactor with DEPTH_OBLIVIOUS)"
    parameters: tuple[Parameter, ...] = (slurm_shares.DAMPING_FACTOR,)
    fields: tuple[str, ...] = (*slurm_shares.SSHARE_FIELDS, "local_ratio", "k", "effective_ratio")
    takes_inherit = True
    explanation = Explanation("ratio", used="effective_usage", due="norm_shares", own_ratio="local_ratio", exponent="k")

    def properties(self, settings: Settings) -> operators.Properties:
        """The ratio of an account affects its members: usage of others changes a priority, but not their order."""
        return operators.Properties(
            isolation=False, proportional_redistribution=True, scale_invariance=True, boundaries=True, sign=False
        )

    def compute(self, prepared: Prepared, compared: Compared, settings: Settings) -> PriorityResult:
        """Factors 0..1 of every entry and ranks of users; `columns` has the names of `sshare`."""
        usage = slurm_shares.norm_usage(prepared, compared)
        effective = effective_usage(prepared, usage[prepared.entry], compared.actual)
        columns = ratio_columns(prepared, effective, compared.actual)
        return slurm_shares.assemble_sshare(
            prepared, compared, settings, norm_usage=usage, effective=effective, columns=columns
        )


def exponent(log_R_parent: FloatArray) -> FloatArray:
    """k = 1 / (1 + (5 · ln R_parent)²), 0..1, where R_parent and r_l are on different sides of 1.

    Source: Slurm: Depth-Oblivious Fair-share Factor.
    """
    k: FloatArray = 1.0 / (1.0 + (5.0 * log_R_parent) ** 2)
    return k


def effective_usage(prepared: Prepared, usage: FloatArray, actual: FloatArray) -> FloatArray:
    """UE = R · S of the competing entries, (m,) 0..1, with R = R_parent · r^k. usage: U. actual: among siblings.

    As S = S_parent · target and R_parent · S_parent = UE_parent, this is UE = UE_parent · target · r^k, with
    r = actual / target, the ratio of U/S to that of all siblings. For k = 1 it is UE_parent · actual. UE = U directly
    below the root, and where U, S, S_parent or UE_parent is 0. r^k is computed by the logarithm, because r spans 600
    decades. Source: Slurm: Depth-Oblivious Fair-share Factor.
    """
    contest, target, shares = prepared.contest, prepared.target, prepared.target_global
    effective = np.ones(contest.n_entries)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        for number, level in enumerate(contest.levels):
            here, parent = slice(level.lo, level.hi), contest.parent[level.lo : level.hi]
            U, UE_parent, S, S_parent = usage[here], effective[parent], shares[here], shares[parent]
            if number == 0:
                effective[here] = U
                continue
            log_R_parent = np.log(UE_parent) - np.log(S_parent)
            log_r = np.log(actual[here]) - np.log(target[here])
            r_to_k = np.exp(exponent(log_R_parent) * log_r)
            UE = UE_parent * target[here] * r_to_k
            is_same_side = log_R_parent * log_r >= 0
            UE = np.where(is_same_side, UE_parent * actual[here], UE)
            applies = (S > 0) & (S_parent > 0) & (UE_parent > 0) & (U > 0)
            effective[here] = np.where(applies, UE, U)
    return effective


def ratio_columns(prepared: Prepared, effective: FloatArray, actual: FloatArray) -> dict[str, Column]:
    """Terms of the formula, (n,): `local_ratio` r_l = actual / target ≥ 0, `k` 0..1, `effective_ratio` R = UE / S ≥ 0.

    k exists where the formula applies: below the first level, where S, R_parent and r_l are above 0. r_l and R exist
    where there are shares. An entry whose shares are *inherit* has none of these.
    """
    contest, target, shares = prepared.contest, prepared.target, prepared.target_global
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        ratio = effective / shares
        local = actual / target
        has_ratio, has_local = np.isfinite(ratio), np.isfinite(local)
        local[has_local & operators.on_target(target, actual)] = 1.0  # else k would depend on how sums are rounded
        R_parent = ratio[contest.parent]
        applies = has_ratio & has_local & (R_parent > 0) & (R_parent < np.inf) & (local > 0) & (contest.parent > 0)
        other_side = np.flatnonzero(applies & ((R_parent > 1) != (local > 1)) & (R_parent != 1) & (local != 1))
        k = np.ones(len(ratio))
        k[other_side] = exponent(np.log(R_parent[other_side]))
    has_ratio[0] = False

    def column(values: FloatArray, exists: BoolArray) -> Column:
        values[~exists] = 0.0
        if prepared.is_whole:
            return Column(values, exists)
        exists_of_all: BoolArray = prepared.spread(exists) & ~prepared.tree.inherits
        return Column(np.where(exists_of_all, prepared.spread(values), 0.0), exists_of_all)

    return {
        "local_ratio": column(local, has_ratio & has_local),
        "k": column(k, applies),
        "effective_ratio": column(ratio, has_ratio),
    }
