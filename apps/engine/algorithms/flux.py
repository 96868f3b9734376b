"""`flux`: the ranking of flux-accounting's weighted tree."""

from __future__ import annotations

import numpy as np

from apps.engine import operators
from apps.engine.algorithms.base import Column, PriorityResult, finish
from apps.engine.algorithms.explanation import Explanation
from apps.engine.algorithms.inputs import Compared, Prepared
from apps.engine.arrays import BoolArray, FloatArray
from apps.engine.numerics.rulers import ToleranceRuler, balance
from apps.engine.numerics.walk_order import Manners, count_ahead
from apps.engine.parameters import Parameter, Settings

# Less usage than this is none; who has none, and shares, has the highest weight.
IDLE_BELOW = 1e-9
IDLE_WEIGHT = 2.0**64
TIE = float(np.finfo(np.float64).eps)

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
        weight = weigh(target, actual, idle)
        ahead = count_ahead(prepared.leaves, ToleranceRuler(weight, TIE), _MANNERS)
        is_leaf, n_leaves = prepared.tree.is_ranked, prepared.n_ranked
        return finish(
            prepared, compared, settings, actual=actual, priority=balance(target, np.where(idle, 0.0, actual)),
            rank=np.where(is_leaf, ahead + 1, 0), factor=np.where(is_leaf, (n_leaves - ahead) / max(n_leaves, 1), 0.0),
            has_rank=is_leaf, has_factor=is_leaf, is_ranked=is_leaf, n_ranked=n_leaves,
            columns={"weight": Column(weight)},
        )  # fmt: skip


def weigh(target: FloatArray, actual: FloatArray, idle: BoolArray) -> FloatArray:
    """target / actual, (n,) ≥ 0 and finite; 0 without shares, else 2^64 where `idle`."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        weight = target / actual
    weight[idle] = IDLE_WEIGHT
    weight[target == 0] = 0.0
    np.minimum(weight, np.finfo(np.float64).max, out=weight)
    return weight
