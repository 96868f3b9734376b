"""The query of a figure: one record that page, REST and command fill, with the bounds of each number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import isfinite
from typing import Any

from django.utils.translation import gettext as _

from apps.core.errors import FieldProblem, Invalid
from apps.engine.analysis import figure_17, job_size
from apps.engine.errors import BadParameter
from apps.engine.operators import get_operator

_LONGEST = 4_096
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
REGIONS = ("balance", "under", "over")  # figures 14, 15, 16
COUNTS = ("misplaced", "lost", "pairs")
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "reading": tuple(reading.name for reading in figure_17.READINGS),
    "region": REGIONS,
    "count": COUNTS,
}
READINGS = {reading.name: reading for reading in figure_17.READINGS}


@dataclass(frozen=True, slots=True)
class FigureQuery:
    """What is left out is the policy's own: operator, resolution, k, the target of its largest entry.

    bits: of one component in profiles and densities. nodes × window_days: the pool of the job sizes, by default the
    paper's 600 nodes for a year. job_h: core-hours of the job. reading: of figures 14 to 17, by its
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
    reading: str = "typical"
    region: str = "balance"
    count: str = "misplaced"
    entry: str = ""

    @property
    def pool_h(self) -> float:
        """What the nodes deliver in the window, in hours of a node."""
        return self.nodes * self.window_days * 24.0


NAMES = tuple(each.name for each in fields(FigureQuery))


def read_query(given: Mapping[str, str]) -> FigureQuery:
    """Texts as addresses and command lines have them; empty ones are left out. Raises Invalid, naming each field."""
    problems: list[FieldProblem] = []
    values: dict[str, Any] = {}
    for name in NAMES:
        text = given.get(name, "").strip()
        if not text:
            continue
        try:
            values[name] = _number(name, text) if name in BOUNDS else _word(name, text)
        except ValueError as error:
            problems.append(FieldProblem(name, str(error)))
    if problems:
        raise Invalid(" ".join(f"{one.where}: {one.message}." for one in problems), fields=problems)
    return FigureQuery(**values)


def _number(name: str, text: str) -> float | int:
    low, high = BOUNDS[name]
    allowed = _("must be a number from %(low)s to %(high)s") % {"low": f"{low:,g}", "high": f"{high:,.12g}"}
    plain = text.replace("\u00a0", "").replace(" ", "")
    if plain.count(",") == 1 and "." not in plain:
        plain = plain.replace(",", ".")
    try:
        value = float(plain) if len(plain) <= 64 and plain.isascii() and "_" not in plain else float("nan")
    except ValueError:
        raise ValueError(allowed) from None
    if not isfinite(value) or not low <= value <= high:
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
    if len(text) > _LONGEST:
        raise ValueError(_("must have at most %(n)s characters") % {"n": _LONGEST})
    return text
