"""`slurm-classic`: the factor of Slurm's original share tree, with effective usage along the accounts."""

from __future__ import annotations

import numpy as np

from apps.engine import operators, sweep
from apps.engine.algorithms import slurm_shares
from apps.engine.algorithms.base import Explanation, PriorityResult
from apps.engine.algorithms.inputs import Compared, Prepared
from apps.engine.arrays import FloatArray
from apps.engine.parameters import Parameter, Settings


class SlurmClassic:
    """F = 2^−(UE / S / d); part of an account's usage counts as usage of each of its members."""

    name = "slurm-classic"
    label = "Slurm: classic"
    formula = "F = 2^(−UE/S/d); UE = U + (UE_parent − U) · shares / Σ shares of the level; S, U of the whole tree"
    component = "2^(1 − effective usage / normalised shares) − 1, before damping"
    reference = "Slurm: Classic Fairshare Algorithm (priority/multifactor with NO_FAIR_TREE)"
    parameters: tuple[Parameter, ...] = (slurm_shares.DAMPING_FACTOR,)
    fields: tuple[str, ...] = slurm_shares.SSHARE_FIELDS
    takes_inherit = True
    explanation = Explanation("ratio", used="effective_usage", due="norm_shares", only_adds=True)

    def properties(self, settings: Settings) -> operators.Properties:
        """A priority depends on shares and usage of the whole tree, so it changes with the usage of others."""
        return operators.Properties(
            isolation=False, proportional_redistribution=False, scale_invariance=True, boundaries=False, sign=False
        )

    def compute(self, prepared: Prepared, compared: Compared, settings: Settings) -> PriorityResult:
        """Factors 0..1 of every entry and ranks of users; `columns` has the names of `sshare`."""
        usage = slurm_shares.norm_usage(prepared, compared)
        effective = effective_usage(prepared, usage[prepared.entry])
        return slurm_shares.assemble_sshare(prepared, compared, settings, norm_usage=usage, effective=effective)


def effective_usage(prepared: Prepared, usage: FloatArray) -> FloatArray:
    """UE of the competing entries, (m,) 0..1, from their normalised usage U.

    UE = U directly below the root, below that UE = U + (UE_parent − U) · target, or UE_parent where no sibling has
    shares. Source: Slurm: Classic Fairshare Algorithm.
    """
    contest, target = prepared.contest, prepared.target
    level_shares = sweep.sibling_sum(contest, target)
    effective = np.ones(contest.n_entries)
    for number, level in enumerate(contest.levels):
        here, parent = slice(level.lo, level.hi), contest.parent[level.lo : level.hi]
        U, UE_parent = usage[here], effective[parent]
        if number == 0:
            effective[here] = U
            continue
        UE = U + (UE_parent - U) * target[here]
        effective[here] = np.where(level_shares[parent] > 0, UE, UE_parent)
    return effective
