"""How the entries of a snapshot compare: component by component or by rank alone, with which tolerance, by which key.

The algorithm's registry entry decides: one that gives a `vector` compares its integers, one that gives a `value`
unrounded deviations, and any other has an order of its own, which only its ranks show.
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
from apps.priorities.snapshots.storage import Values

Mask = npt.NDArray[np.bool_]
_TIE_RELATIVE = 1e-12


@dataclass(frozen=True)
class Ordering:
    """What decides under one algorithm, and how.

    explanation: what the algorithm declares about it. has_own_order: the algorithm orders leaves by rules of its own;
    components show why, ranks show the order.
    """

    decides: Literal["vector", "deviations", "ranks"]
    explanation: Explanation
    resolution: int | None = None

    @property
    def has_own_order(self) -> bool:
        return self.decides == "ranks"

    @property
    def fill(self) -> float:
        """What a level counts as that an entry doesn't have."""
        return float(self.resolution // 2) if self.resolution else 0.0

    def components(self, values: Values) -> npt.NDArray[Any]:
        """What siblings are compared by, (n,): higher is sooner."""
        if self.decides == "vector":
            return values.scalar
        if self.explanation.kind == "ratio":
            return values.factor
        column = values.columns.get(self.explanation.component)
        return values.priority if column is None else column.values

    def ahead(self, theirs: npt.NDArray[Any], ours: float) -> Mask:
        """Which components are ahead of one of ours; neighbours within the tolerance tie."""
        found: Mask = theirs > ours
        return found if self.decides == "vector" else found & ~self.ties(theirs, ours)

    def ties(self, theirs: npt.NDArray[Any], ours: float) -> Mask:
        same: Mask = theirs == ours  # infinity ties with infinity
        if self.decides == "vector":
            return same
        with np.errstate(invalid="ignore"):
            gap = np.abs(theirs - ours)
        if self.decides == "deviations":
            return same | (gap <= TIE_POINTS)
        near: Mask = np.isfinite(gap) & (gap <= _TIE_RELATIVE * np.maximum(np.abs(theirs), abs(ours)))
        return same | near

    def key(
        self, *, vector: Sequence[int] | None, priorities: Sequence[float], depth: int, rank: int | None, n_ranked: int
    ) -> str | None:
        """A string in which higher sorts later; None for an unordered entry.

        The vector in fixed width; deviations in fixed width, one number for those that tie; or the leaves that are
        not ahead, itself counted, zero-padded: one key for each different rank.
        """
        if self.decides == "vector" and vector is not None and self.resolution:
            return codecs.key_string(vector, depth, self.resolution)
        if self.decides == "deviations":
            return codecs.grid_key(priorities, max(depth, len(priorities)))
        if rank is None:
            return None
        return f"{n_ranked - rank + 1:0{len(str(n_ranked + 1))}d}"


def ordering_of(settings: Mapping[str, Any]) -> Ordering:
    """Of an algorithm with its parameters; one whose package is gone leaves the ranks that were stored."""
    try:
        fields = get_algorithm(str(settings["name"])).fields
    except (BadParameter, KeyError):
        fields = ()
    explanation, resolution = explanation_of(settings), settings.get("resolution")
    if "vector" in fields and resolution is not None:
        return Ordering("vector", explanation, int(resolution))
    return Ordering("deviations" if "value" in fields else "ranks", explanation)


def json_number(value: float | None) -> float | str | None:
    """As JSON can carry it: infinity by name, nothing for what doesn't exist."""
    if value is None or value != value:
        return None
    return "Infinity" if value == inf else "-Infinity" if value == -inf else value


def own_numbers(values: Values, entry: int) -> dict[str, float | None]:
    """The algorithm's own columns of one entry, by the names its scheduler uses; None where there is no such number."""
    return {
        name: float(column.values[entry]) if column.exists is None or column.exists[entry] else None
        for name, column in values.columns.items()
    }


State = Literal["over", "under", "on", "idle", "unknown"]
F8 = npt.NDArray[np.float64]
_EDGE = 1 + 1e-9  # a difference of exactly the tolerance is within it, whatever the last bit says


def state_of(
    *, target: float | None, actual: float | None, has_usage: bool, has_demand: bool, tolerance: Mapping[str, Any]
) -> State:
    """Within max(relative · target, points) is on target; idle: has a target, no usage and no demand."""
    if target is None or actual is None:
        return "unknown"
    if not has_usage and not has_demand and target > 0:
        return "idle"
    if abs(actual - target) <= max(tolerance["relative"] * target, tolerance["points"] / 100) * _EDGE:
        return "on"
    return "over" if actual > target else "under"


def out_of_tolerance(target: F8, actual: F8, *, is_idle: Mask, tolerance: Mapping[str, Any]) -> Mask:
    """Which of many entries are over or under."""
    allowed = np.maximum(tolerance["relative"] * target, tolerance["points"] / 100)
    outside: Mask = ~is_idle & (np.abs(actual - target) > allowed * _EDGE)
    return outside
