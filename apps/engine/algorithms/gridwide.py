"""`gridwide`: unrounded deviations in points decide level by level; their base-200 number is exported beside."""

from __future__ import annotations

import numpy as np

from apps.engine import operators, sweep
from apps.engine.algorithms.base import LEVELS, PriorityResult, assemble
from apps.engine.algorithms.inputs import Compared, Prepared
from apps.engine.parameters import Parameter, Settings, choice

# Deviations of siblings within 1e-9 points tie; the margin is what rounding may add to a gap of exactly so much.
TIE_POINTS = 1e-9 + 1e-12


class Gridwide:
    """priority = target − actual in points, −100..100; missing levels count as 0; neighbours within 1e-9 points tie."""

    name = "gridwide"
    label = "Grid-wide: deviations by level"
    formula = "rank by (t₁ − s₁, t₂ − s₂, …) in points; value = Σ (d_i + 100) · 200^(D − i), d in whole points"
    component = "target − actual in points"
    reference = (
        "Elmroth, Gardfjäll: Design and Evaluation of a Decentralized System for Grid-wide Fairshare Scheduling, §4"
    )
    parameters: tuple[Parameter, ...] = (choice("factor_from", "Factor from", "rank", ("rank",)),)
    fields: tuple[str, ...] = ("target", "actual", "priority", "rank", "factor", "value")
    takes_inherit = True
    explanation = LEVELS

    def properties(self, settings: Settings) -> operators.Properties:
        """Those of the absolute operator: deviations are differences."""
        return operators.get_operator("absolute").properties

    def compute(self, prepared: Prepared, compared: Compared, settings: Settings) -> PriorityResult:
        """Deviations, ranks and factors of every entry; `grid_value` of the result gives the numbers."""
        target, actual = prepared.target, compared.actual
        deviation = (target - actual) * 100.0
        deviation[operators.on_target(target, actual)] = 0.0
        deviation[0] = 0.0
        classify = sweep.classes_of_numbers(deviation, TIE_POINTS, is_root_listed=prepared.is_root_listed)
        ahead = sweep.count_ahead(prepared.contest, classify, prepared.ends)
        scalar = np.full(prepared.contest.n_entries, -1, dtype=np.int64)
        return assemble(prepared, compared, settings, priority=deviation, scalar=scalar, ahead=ahead, key_factor=None)
