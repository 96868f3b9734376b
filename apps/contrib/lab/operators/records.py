"""Queries and results about operators and resolutions, for pages, REST, CSV and the command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Any, get_args, get_type_hints

from django.utils.translation import gettext as _

from apps.core.errors import FieldProblem, Invalid
from apps.core.typed_numbers import read_number
from apps.engine.analysis import job_size
from apps.engine.errors import BadParameter
from apps.engine.operators import get_operator
from apps.priorities.tried_settings import TriedVector

LONGEST_FIGURE_QUERY = 4_096
BOUNDS: Mapping[str, tuple[float, float]] = {
    "target": (0.0, 1.0),
    "bits": (2, 8),
    "resolution": (2, 2**31),
    "k": (0.0, 1.0),
    "nodes": (1, 1e9),
    "window_days": (0.01, 36_500),
    "job_h": (0.001, 1e12),
}
_WHOLE = ("bits", "resolution")
REGIONS = ("balance", "under", "over")  # figures 14, 15 and 16 of the operators paper
COUNTS = ("misplaced", "lost", "pairs")
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "reading": tuple(reading.name for reading in job_size.READINGS),
    "region": REGIONS,
    "count": COUNTS,
}
READINGS = {reading.name: reading for reading in job_size.READINGS}


@dataclass(frozen=True, slots=True)
class FigureQuery:
    """Parameters of a figure. Missing ones default to the policy's own operator, resolution, k and largest target.

    bits: of one component, in profiles and densities. nodes × window_days: the pool that job sizes relate to, by
    default the paper's 600 nodes for a year. job_h: core-hours of the job. reading: how figures 14 to 17 are read, by
    name. region, count: what their pictures show. entry: a path.
    """

    operator: str = ""
    resolution: int | None = None
    k: float | None = None
    target: float | None = None
    bits: int = 3
    nodes: float = 600.0
    window_days: float = 365.0
    job_h: float = job_size.JOB_H
    reading: str = "typical, real states"
    region: str = "balance"
    count: str = "misplaced"
    entry: str = ""

    @property
    def pool_h(self) -> float:
        """Capacity of the nodes in the window, in node-hours."""
        return self.nodes * self.window_days * 24.0

    @property
    def tried(self) -> TriedVector:
        return TriedVector(self.operator, self.resolution, self.k)


NAMES = tuple(each.name for each in fields(FigureQuery))


def read_query(parameters: Mapping[str, str]) -> FigureQuery:
    """Parse texts of an address or a command line; empty ones are ignored. Raises Invalid with each wrong field."""
    problems: list[FieldProblem] = []
    values: dict[str, Any] = {}
    for name in NAMES:
        text = parameters.get(name, "").strip()
        if not text:
            continue
        try:
            values[name] = _number(name, text) if name in BOUNDS else _word(name, text)
        except ValueError as error:
            problems.append(FieldProblem(name, str(error)))
    if problems:
        raise Invalid(" ".join(f"{problem.where}: {problem.message}." for problem in problems), fields=problems)
    return FigureQuery(**values)


def _number(name: str, text: str) -> float | int:
    low, high = BOUNDS[name]
    allowed = _("must be a number from %(low)s to %(high)s") % {"low": f"{low:,g}", "high": f"{high:,.12g}"}
    try:
        value = read_number(text)
    except ValueError:
        raise ValueError(allowed) from None
    if not low <= value <= high:
        raise ValueError(allowed)
    if name in _WHOLE:
        if not value.is_integer():
            raise ValueError(allowed)
        return int(value)
    return value


def _word(name: str, text: str) -> str:
    if name == "operator":
        try:
            return get_operator(text[:64]).name
        except BadParameter as error:
            raise ValueError(error.message) from None
    if name in _CHOICES and text not in _CHOICES[name]:
        raise ValueError(_("must be one of %(names)s") % {"names": "; ".join(_CHOICES[name])})
    if len(text) > LONGEST_FIGURE_QUERY:
        raise ValueError(_("must have at most %(n)s characters") % {"n": LONGEST_FIGURE_QUERY})
    return text


@dataclass(frozen=True, slots=True)
class ProfilePoint:
    """Figures 10 and 11: one point of an operator's curve."""

    operator: Annotated[str, "Operator"]
    target: Annotated[float, "Target, 0 to 1"]
    actual: Annotated[float, "Actual, 0 to 1"]
    priority: Annotated[float, "Priority, −1 to 1"]


@dataclass(frozen=True, slots=True)
class LocalDensity:
    """Figures 9 to 13: the width of a component at one target."""

    operator: Annotated[str, "Operator"]
    target: Annotated[float, "Target, 0 to 1"]
    component: Annotated[int, "Component, 0 is the lowest"]
    priority: Annotated[float, "Lowest priority of the component"]
    density: Annotated[float, "Fraction of all actuals on this component, 0 to 1; less is finer"]


@dataclass(frozen=True, slots=True)
class InputDensity:
    """Figures 7 and 8: the fraction of all inputs on a component."""

    operator: Annotated[str, "Operator"]
    component: Annotated[int, "Component, 0 is the lowest"]
    priority: Annotated[float, "Lowest priority of the component"]
    density: Annotated[float, "Fraction of all pairs of target and actual on this component, 0 to 1; less is finer"]


@dataclass(frozen=True, slots=True)
class Step:
    """Figure 6: the component of one pair of target and actual."""

    operator: Annotated[str, "Operator"]
    target: Annotated[float, "Target, 0 to 1"]
    actual: Annotated[float, "Actual, 0 to 1"]
    component: Annotated[int, "Component, 0 is the lowest"]
    priority: Annotated[float, "Lowest priority of the component"]


@dataclass(frozen=True, slots=True)
class JobSize:
    """Figures 14 to 16: the smallest job that changes a component."""

    operator: Annotated[str, "Operator"]
    region: Annotated[str, "balance, under or over"]
    bits: Annotated[int, "Bits of one component"]
    job_h: Annotated[float | None, "The job in node-hours; empty if the region has no component"]


@dataclass(frozen=True, slots=True)
class BitsNeeded:
    """Figure 17: the bits from which a job is visible."""

    operator: Annotated[str, "Operator"]
    region: Annotated[str, "balance, over, under or overall"]
    bits: Annotated[int | None, "Fewest bits of a component; empty if 20 are not enough"]
    published: Annotated[int | None, "In the paper, for 600 nodes, one year and a job of 2,000 h"]


@dataclass(frozen=True, slots=True)
class ResolutionEffect:
    """Effect of one operator at one resolution on the order of this tree's leaves."""

    operator: Annotated[str, "Operator"]
    resolution: Annotated[int, "Values of one component"]
    n_leaves: Annotated[int, "Ranked leaves that you may see"]
    n_misplaced: Annotated[int, "Leaves with another rank than by exact numbers"]
    n_lost: Annotated[int, "Leaves that share a vector with one whose exact numbers differ"]
    n_tied_pairs: Annotated[int, "Pairs of leaves that tie only by rounding"]
    n_turned_pairs: Annotated[int, "Pairs of leaves whose order is reversed by rounding"]


@dataclass(frozen=True, slots=True)
class LeafJob:
    """The smallest visible job of one leaf. It is a bound: any larger job changes the vector."""

    entry: Annotated[str, "Path of the leaf"]
    any_level_h: Annotated[float | None, "Hours of the metric that change the vector; empty if no job does"]
    every_level_h: Annotated[float | None, "Hours of the metric that are visible on every level; empty if no job is"]


@dataclass(frozen=True, slots=True)
class ExponentPoint:
    """The depth-oblivious exponent k: a point of the curve, or an entry on it."""

    parent_ratio: Annotated[float, "R of the parent, used / shares; 1 is on target"]
    k: Annotated[float, "Exponent of the entry's own ratio where both are on different sides of 1, 0 to 1"]
    entry: Annotated[str | None, "Path of the entry; empty for the curve"]
    local_ratio: Annotated[float | None, "r_l of the entry: its usage over its share, within its group"]
    effective_ratio: Annotated[float | None, "R of the entry"]


Row = (
    ProfilePoint
    | LocalDensity
    | InputDensity
    | Step
    | JobSize
    | BitsNeeded
    | ResolutionEffect
    | LeafJob
    | ExponentPoint
)


@dataclass(frozen=True, slots=True)
class Column:
    """One field of a record, with its description."""

    name: str
    text: Annotated[str, "Its description"]


@cache
def columns_of(record: type) -> tuple[Column, ...]:
    """Return the fields of a record in order, each with its description."""
    hints = get_type_hints(record, include_extras=True)
    return tuple(Column(each.name, str(get_args(hints[each.name])[1])) for each in fields(record))


def as_json(record: Any) -> dict[str, Any]:
    """Return a record as the JSON object of the REST interface and the command."""
    kind: type = type(record)
    return {column.name: getattr(record, column.name) for column in columns_of(kind)}


@dataclass(frozen=True)
class FigureTable:
    """One figure as numbers."""

    name: str
    title: str
    unit: str
    reference: str
    sentence: str
    record: type
    rows: Sequence[Row]

    @property
    def columns(self) -> tuple[Column, ...]:
        return columns_of(self.record)

    def json(self) -> dict[str, Any]:
        return {
            "figure": self.name,
            "title": self.title,
            "unit": self.unit,
            "reference": self.reference,
            "sentence": self.sentence,
            "columns": [{"name": column.name, "text": column.text} for column in self.columns],
            "rows": [as_json(row) for row in self.rows],
        }
