"""The bars of a section as SVG, drawn by the server: the same places as in the PDF."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from django.utils.safestring import SafeString

from apps.figures.elements import element, joined
from apps.packs.layout import Bars, core_h

WIDTH = 515.0  # points, as the text of a page of the PDF
LABELS = 150.0
_VALUES = 60.0
BAR, GAP = 9.0, 8.0
LEGEND = 18.0


class Bar(NamedTuple):
    """Places in points from the top left of the drawing; label "" beside the second bar of a group."""

    series: int
    y: float
    length: float
    label: str
    value: str


def bars_of(bars: Bars) -> Iterator[Bar]:
    y = LEGEND
    for label, values in bars.groups:
        for n, value in enumerate(values):
            length = (WIDTH - LABELS - _VALUES) * (value or 0.0) / bars.most
            yield Bar(n, y, max(length, 0.0), "" if n else label, core_h(value))
            y += BAR + 1
        y += GAP


def height_of(bars: Bars) -> float:
    return LEGEND + len(bars.groups) * (len(bars.names) * (BAR + 1) + GAP)


def svg_of(bars: Bars, title: str) -> SafeString:
    """Colours come from the classes `bar-0` and `bar-1`; the table below it says the same in numbers."""
    parts = []
    for n, name in enumerate(bars.names):
        parts += [
            element("rect", x=f"{LABELS + 110 * n:g}", y="2", width="8", height="8", **{"class": f"bar-{n}"}),
            element("text", name, x=f"{LABELS + 110 * n + 12:g}", y="10"),
        ]
    for bar in bars_of(bars):
        if bar.label:
            parts.append(element("text", cut(bar.label, 26), x="0", y=f"{bar.y + 8:g}"))
        size = {"width": f"{bar.length:.2f}", "height": f"{BAR:g}"}
        parts.append(element("rect", x=f"{LABELS:g}", y=f"{bar.y:g}", **size, **{"class": f"bar-{bar.series}"}))
        parts.append(element("text", bar.value, x=f"{LABELS + bar.length + 4:.2f}", y=f"{bar.y + 8:g}"))
    view = {"viewBox": f"0 0 {WIDTH:g} {height_of(bars):g}", "role": "img", "aria_label": title}
    return element("svg", joined(parts), **{"class": "pack-bars"}, **view)


def cut(text: str, most: int) -> str:
    """The middle of a path says least."""
    first = most // 2 - 1
    return text if len(text) <= most else f"{text[:first]}…{text[-(most - first - 1) :]}"
