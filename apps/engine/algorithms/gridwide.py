"""`gridwide`: entries are ordered by their deviations in points, level by level; a base-200 number is exported."""

from __future__ import annotations

import numpy as np

from apps.engine import operators
from apps.engine.algorithms.base import LEVELS, PriorityResult, assemble
from apps.engine.algorithms.inputs import Compared, Prepared
from apps.engine.arrays import FloatArray
from apps.engine.numerics import vector_ranks
from apps.engine.parameters import Parameter, Settings, choice

# Deviations of siblings within 1e-9 points tie; the margin covers the rounding of a gap of exactly that size.
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
        """The properties of the absolute operator, because deviations are differences."""
        return operators.get_operator("absolute").properties

    def compute(self, prepared: Prepared, compared: Compared, settings: Settings) -> PriorityResult:
        """Deviations, ranks and factors of every entry; `grid_value` of the result returns the base-200 numbers."""
        target, actual = prepared.target, compared.actual
        deviation = (target - actual) * 100.0  # Elmroth, Gardfjäll, §4
        deviation[operators.on_target(target, actual)] = 0.0
        deviation[0] = 0.0
        classify = vector_ranks.classes_of_numbers(deviation, TIE_POINTS, is_root_listed=prepared.is_root_listed)
        ahead = vector_ranks.count_ahead(prepared.contest, classify, prepared.ends)
        scalar = np.full(prepared.contest.n_entries, -1, dtype=np.int64)
        return assemble(prepared, compared, settings, priority=deviation, scalar=scalar, ahead=ahead, key_factor=None)


def class_deviations(prepared: Prepared, deviation: FloatArray) -> FloatArray:
    """One deviation for all entries that tie, (n,), from the deviations of all entries, (n,).

    Compared exactly level by level, they order entries as the rank does.
    """
    of_competing, is_root_listed = deviation[prepared.entry], prepared.is_root_listed
    heads = vector_ranks.class_heads(
        prepared.contest, of_competing, TIE_POINTS, prepared.ends, is_root_listed=is_root_listed
    )
    spread: FloatArray = prepared.spread(heads)
    return spread
