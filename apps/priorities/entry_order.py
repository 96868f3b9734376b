"""How entries compare with each other.

The order depends on the fields that the algorithm declares. With `vector`, components are integers; with `value`, they
are unrounded deviations. Any other algorithm has its own order, and only ranks show it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from apps.engine import codecs
from apps.engine.algorithms import Explanation, explanation_of, get_algorithm
from apps.engine.algorithms.gridwide import TIE_POINTS
from apps.engine.errors import BadParameter
from apps.priorities.snapshot_values import Mask, Values

_TIE_RELATIVE = 1e-12


@dataclass(frozen=True)
class Ordering:
    """How the entries of a snapshot compare under its algorithm.

    explanation: the algorithm's own description. has_own_order: the algorithm orders leaves by rules of its own, so
    that only ranks show the order; components explain it.
    """

    decides: Literal["vector", "deviations", "ranks"]
    explanation: Explanation
    resolution: int | None = None

    @property
    def has_own_order(self) -> bool:
        return self.decides == "ranks"

    @property
    def fill(self) -> float:
        """Component of a level that an entry doesn't have."""
        return float(self.resolution // 2) if self.resolution else 0.0

    def components(self, values: Values) -> npt.NDArray[Any]:
        """The numbers by which siblings are compared, (n,): higher goes first."""
        if self.decides == "vector":
            return values.scalar
        if self.explanation.kind == "ratio":
            return values.factor
        column = values.columns.get(self.explanation.component)
        return values.priority if column is None else column.values

    def ahead(self, components: npt.NDArray[Any], own: float) -> Mask:
        """Which of `components` are ahead of `own`; components within the tolerance tie."""
        is_ahead: Mask = components > own
        return is_ahead if self.decides == "vector" else is_ahead & ~self.ties(components, own)

    def ties(self, components: npt.NDArray[Any], own: float) -> Mask:
        same: Mask = components == own  # infinity ties with infinity
        if self.decides == "vector":
            return same
        with np.errstate(invalid="ignore"):
            gap = np.abs(components - own)
        if self.decides == "deviations":
            return same | (gap <= TIE_POINTS)
        near: Mask = np.isfinite(gap) & (gap <= _TIE_RELATIVE * np.maximum(np.abs(components), abs(own)))
        return same | near

    def key(
        self, *, vector: Sequence[int] | None, priorities: Sequence[float], depth: int, rank: int | None, n_ranked: int
    ) -> str | None:
        """A sortable string: a later string goes first; None for an entry without an order, and for a possible member
        below the deepest leaf, whom no string of this depth holds.

        It holds the vector or the deviations in fixed width, with one number for deviations that tie. For an algorithm
        with its own order it is the number of leaves that aren't ahead, itself included, zero-padded.
        """
        if len(priorities) > depth:
            return None
        if self.decides == "vector" and vector is not None and self.resolution:
            return codecs.key_string(vector, depth, self.resolution)
        if self.decides == "deviations":
            return codecs.grid_key(priorities, depth)
        if rank is None:
            return None
        return f"{n_ranked - rank + 1:0{len(str(n_ranked + 1))}d}"


def ordering_of(settings: Mapping[str, Any]) -> Ordering:
    """The ordering of an algorithm; by stored ranks if its package is no longer installed."""
    try:
        fields = get_algorithm(str(settings["name"])).fields
    except (BadParameter, KeyError):
        fields = ()
    explanation, resolution = explanation_of(settings), settings.get("resolution")
    if "vector" in fields and resolution is not None:
        return Ordering("vector", explanation, int(resolution))
    return Ordering("deviations" if "value" in fields else "ranks", explanation)


def json_number(value: float | None) -> float | str | None:
    """A number for JSON: infinity as a string, None and NaN as null."""
    if value is None or value != value:
        return None
    return "Infinity" if value == inf else "-Infinity" if value == -inf else value


def own_numbers(values: Values, entry: int) -> dict[str, float | None]:
    """Numbers of one entry that only this algorithm has, by the scheduler's names; None where one doesn't exist."""
    return {
        name: float(column.values[entry]) if column.exists is None or column.exists[entry] else None
        for name, column in values.columns.items()
    }
