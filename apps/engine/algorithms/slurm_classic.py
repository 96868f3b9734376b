"""`slurm-classic`: the factor of Slurm's original share tree, with effective usage along the accounts."""

from __future__ import annotations

import numpy as np

from apps.engine import operators, sweep
from apps.engine.algorithms import base
from apps.engine.algorithms.base import Explanation, PriorityResult
from apps.engine.algorithms.inputs import Compared, Prepared
from apps.engine.arrays import FloatArray
from apps.engine.parameters import Parameter, Settings


class SlurmClassic:
    """F = 2^−(UE / S / d), where a share of what the account used counts as used by each of its members."""

    name = "slurm-classic"
    label = "Slurm: classic"
    formula = "F = 2^(−UE/S/d); UE = U + (UE_parent − U) · shares / Σ shares of the level; S, U of the whole tree"
    component = "2^(1 − effective usage / normalised shares) − 1, before damping"
    reference = "Slurm: Classic Fairshare Algorithm (priority/multifactor with NO_FAIR_TREE)"
    parameters: tuple[Parameter, ...] = (base.DAMPING_FACTOR,)
    fields: tuple[str, ...] = base.SSHARE_FIELDS
    takes_inherit = True
    explanation = Explanation("ratio", used="effective_usage", due="norm_shares")

    def properties(self, settings: Settings) -> operators.Properties:
        """Shares and usage of the whole tree decide, so a priority changes with what others use."""
        return operators.Properties(
            isolation=False, proportional_redistribution=False, scale_invariance=True, boundaries=False, sign=False
        )

    def compute(self, prepared: Prepared, compared: Compared, settings: Settings) -> PriorityResult:
        """Factors 0..1 of every entry, ranks of users; `columns` as `sshare` names them."""
        usage = base.norm_usage(prepared, compared)
        effective = effective_usage(prepared, usage[prepared.entry])
        return base.assemble_sshare(prepared, compared, settings, norm_usage=usage, effective=effective)


def effective_usage(prepared: Prepared, usage: FloatArray) -> FloatArray:
    """UE of the competing entries, (m,) 0..1, from their parts U of all usage.

    U directly below the root; U + (UE_parent − U) · target below that, and UE_parent where no entry of a level has
    shares.
    """
    contest, target = prepared.contest, prepared.target
    level_shares = sweep.sibling_sum(contest, target)
    effective = np.ones(contest.n_entries)
    for number, level in enumerate(contest.levels):
        here, above = slice(level.lo, level.hi), contest.parent[level.lo : level.hi]
        if number == 0:
            effective[here] = usage[here]
            continue
        mixed = usage[here] + (effective[above] - usage[here]) * target[here]
        effective[here] = np.where(level_shares[above] > 0, mixed, effective[above])
    return effective
