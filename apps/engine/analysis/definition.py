"""Does an operator keep the definition of a priority operator, and what does it give at the boundaries?"""

from __future__ import annotations

import numpy as np

from apps.engine.arrays import FloatArray
from apps.engine.operator_trial import Definition, check_definition
from apps.engine.operators import Operator

__all__ = ["Definition", "check_definition", "without_target", "without_usage"]


def without_target(operator: Operator, actual: FloatArray) -> FloatArray:
    """F(0, s): what entries without shares get. Table 1, first column."""
    return operator(np.zeros_like(actual), actual)


def without_usage(operator: Operator, target: FloatArray) -> FloatArray:
    """F(t, 0): what entries that used nothing get. Table 1, second column."""
    return operator(target, np.zeros_like(target))
