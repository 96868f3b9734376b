"""`slurm-depth-oblivious`: Slurm's factor whose range doesn't narrow with the depth of the tree."""

from __future__ import annotations

import numpy as np

from apps.engine import operators
from apps.engine.algorithms import sshare
from apps.engine.algorithms.base import PriorityResult
from apps.engine.algorithms.inputs import Compared, Prepared
from apps.engine.arrays import FloatArray
from apps.engine.parameters import Parameter, Settings


class SlurmDepthOblivious:
    """F = 2^−(R / d), where the ratio R of an account bends its members' own ratios towards itself."""

    name = "slurm-depth-oblivious"
    label = "Slurm: depth-oblivious"
    formula = (
        "F = 2^(−R/d); R = R_parent · r^k, r = (U/S) / (Σ U of the siblings / S_parent); "
        "k = 1 where R_parent and r lie on the same side of 1, else 1 / (1 + (5 ln R_parent)²)"
    )
    component = "2^(1 − R) − 1 with the ratio R of effective usage to normalised shares, before damping"
    reference = "Slurm: Depth-Oblivious Fair-share Factor (priority/multifactor with DEPTH_OBLIVIOUS)"
    parameters: tuple[Parameter, ...] = (sshare.DAMPING_FACTOR,)
    fields: tuple[str, ...] = sshare.FIELDS
    takes_inherit = True

    def properties(self, settings: Settings) -> operators.Properties:
        """An account's ratio reaches its members, so a priority changes with what others use, but not their order."""
        return operators.Properties(
            isolation=False, proportional_redistribution=True, scale_invariance=True, boundaries=True, sign=False
        )

    def compute(self, prepared: Prepared, compared: Compared, settings: Settings) -> PriorityResult:
        """Factors 0..1 of every entry, ranks of users; `columns` as `sshare` names them."""
        usage = sshare.norm_usage(prepared, compared)
        effective = effective_usage(prepared, usage[prepared.entry], compared.actual)
        return sshare.assemble(prepared, compared, settings, norm_usage=usage, effective=effective)


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
