"""`aequus`: an operator compares each entry with its target; vectors of integers are ordered lexicographically."""

from __future__ import annotations

import numpy as np

from apps.engine import codecs, operators
from apps.engine.algorithms.base import LEVELS, PriorityResult, assemble
from apps.engine.algorithms.inputs import Compared, Prepared
from apps.engine.arrays import FloatArray, IntArray
from apps.engine.numerics import vector_ranks
from apps.engine.parameters import Parameter, Settings, choice, integer, number

# Component 0 is reserved for zero shares; entries over target need another one below the balance r//2.
_LEAST_WITH_LAST = 4


def _read_operator(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError
    operators.get_operator(value)
    return value


def operator_of(settings: Settings) -> operators.Operator:
    """The operator these settings name."""
    return operators.get_operator(settings["operator"], k=settings.get("k", operators.DEFAULT_K))


def measure(settings: Settings, target: FloatArray, actual: FloatArray) -> tuple[FloatArray, IntArray]:
    """Priorities p = F(target, actual) and components of entries, both of the shape of `target`.

    With `zero_shares: last` an entry without shares has the lowest of both, and others have at least component 1.
    """
    priority = operator_of(settings)(target, actual)
    scalar = codecs.scalar(priority, settings["resolution"])
    if puts_zero_shares_last(settings):
        priority[target == 0] = -1.0
        scalar = np.where(target == 0, 0, np.maximum(scalar, 1))
    return priority, scalar


def puts_zero_shares_last(settings: Settings) -> bool:
    """Whether entries with zero shares are ordered after all siblings with shares, even without usage."""
    return settings.get("zero_shares") == "last"


class Aequus:
    """priority = F(target, actual); vector of `min(r − 1, floor((p + 1)/2 · r))`; padded with r//2 for comparison."""

    name = "aequus"
    label = "Aequus: priority vectors"
    formula = "rank by (F(t₁, s₁), F(t₂, s₂), …) as integers at resolution r; factor = 1 − (rank − 1)/N"
    component = "F(target, actual) of the operator"
    reference = operators.PAPER
    parameters: tuple[Parameter, ...] = (
        Parameter(
            "operator",
            "Operator",
            "relative",
            f"one of {', '.join(operators.NAMES)}",
            _read_operator,
            choices=operators.NAMES,
        ),
        integer("resolution", "Resolution", codecs.DEFAULT_RESOLUTION, codecs.MIN_RESOLUTION, codecs.MAX_RESOLUTION),
        number(
            "k",
            "Part of absolute",
            operators.DEFAULT_K,
            0,
            1,
            applies=lambda settings: settings["operator"] == "combined",
            condition="to the operator 'combined'",
        ),
        choice(
            "factor_from",
            "Factor from",
            "rank",
            ("rank", "key"),
            note="rank: evenly spaced, 1 − (rank − 1)/N; key: Σ vᵢ/rⁱ of the vector v, so distances stay as the "
            "operator makes them, upper levels first",
        ),
        choice(
            "zero_shares",
            "Zero shares",
            "operator",
            ("operator", "last"),
            applies=lambda settings: settings["resolution"] >= _LEAST_WITH_LAST,
            condition=f"to a resolution of {_LEAST_WITH_LAST} or more",
            note="operator: without shares and usage an entry is on target; last: behind all siblings with shares",
            is_optional=True,
        ),
    )
    fields: tuple[str, ...] = ("target", "actual", "priority", "vector", "rank", "factor")
    takes_inherit = True
    explanation = LEVELS

    def properties(self, settings: Settings) -> operators.Properties:
        """The properties that the operator declares."""
        return operator_of(settings).properties

    def compute(self, prepared: Prepared, compared: Compared, settings: Settings) -> PriorityResult:
        """Priorities −1..1, components 0..r − 1, ranks and factors of every entry."""
        contest, resolution = prepared.contest, settings["resolution"]
        priority, scalar = measure(settings, prepared.target, compared.actual)
        priority[0], scalar[0] = 0.0, -1
        ahead = vector_ranks.count_ahead(contest, vector_ranks.classes_of_scalars(scalar, resolution), prepared.ends)
        key_factor = None
        if settings["factor_from"] == "key":
            key_factor = codecs.factor_from_key(contest, scalar, prepared.depth, resolution)
        return assemble(
            prepared, compared, settings, priority=priority, scalar=scalar, ahead=ahead, key_factor=key_factor
        )
