"""A chart of horizontal bars as one SVG element, for the page of a pack, which is also printed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.safestring import SafeString

from apps.priorities.sentences.numbers import UNKNOWN, number
from apps.web.figures.elements import element, joined

# Positions are in units of the drawing, which the page scales to its own width.
_WIDTH = 515.0
_LABELS = 150.0
_VALUES = 60.0
_BAR, _GAP = 9.0, 8.0
_LEGEND = 18.0
_LONGEST_LABEL = 26  # characters


@dataclass(frozen=True)
class Bars:
    """Groups of bars: a label, and core-hours for each name; None if unknown or hidden."""

    names: tuple[str, ...]
    groups: Sequence[tuple[str, tuple[float | None, ...]]]


def core_h(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    return number(value, 1 if 0 < abs(value) < 10 else 0)


def draw(bars: Bars, title: str) -> SafeString:
    """Draw the chart; colours come from the classes `bar-0` and `bar-1`, and the table below has the numbers."""
    parts = []
    for n, name in enumerate(bars.names):
        x = _LABELS + 110 * n
        parts.append(element("rect", x=f"{x:g}", y="2", width="8", height="8", **{"class": f"bar-{n}"}))
        parts.append(element("text", name, x=f"{x + 12:g}", y="10"))
    largest = max((value for _label, values in bars.groups for value in values if value is not None), default=0.0)
    y = _LEGEND
    for label, values in bars.groups:
        parts.append(element("text", _shorten(label), x="0", y=f"{y + 8:g}"))
        for n, value in enumerate(values):
            length = max((_WIDTH - _LABELS - _VALUES) * (value or 0.0) / largest, 0.0)
            size = {"width": f"{length:.2f}", "height": f"{_BAR:g}"}
            parts.append(element("rect", x=f"{_LABELS:g}", y=f"{y:g}", **size, **{"class": f"bar-{n}"}))
            parts.append(element("text", core_h(value), x=f"{_LABELS + length + 4:.2f}", y=f"{y + 8:g}"))
            y += _BAR + 1
        y += _GAP
    view = {"viewBox": f"0 0 {_WIDTH:g} {y:g}", "role": "img", "aria_label": title}
    return element("svg", joined(parts), **{"class": "pack-bars"}, **view)


def _shorten(label: str) -> str:
    """Shorten the label of a bar in the middle, which says least in a path."""
    first = _LONGEST_LABEL // 2 - 1
    return label if len(label) <= _LONGEST_LABEL else f"{label[:first]}…{label[-(_LONGEST_LABEL - first - 1) :]}"
