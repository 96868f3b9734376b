"""Past days under a draft beside the current policy: a picture of the distance from the target, and small ones of an
entry.

All are hidden from screen readers: numbers stand beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from math import isfinite

from django.utils.safestring import SafeString

from apps.web.figures import scales
from apps.web.figures.elements import element, joined

_WIDTH, _HEIGHT = 104, 34  # of a small picture, in pixels
_EDGE = 3.0
_UNIT = 1000  # of the view box of the large one
_N_INTERVALS = 2
_WIDE, _NARROW = 720, 284  # inner widths in pixels for which days are labelled
Values = Sequence[float]  # by day, oldest first; NaN where unknown


def draw_share(actual: Values, target: Values, target_was: Values) -> SafeString:
    """The share of an entry, 0..1, with both targets, on a scale from 0."""
    top = max((value for row in (actual, target, target_was) for value in row if isfinite(value)), default=0.0) or 1.0
    return _small((("was", target_was), ("target", target), ("line", actual)), 0.0, top)


def draw_ranks(rank: Values, rank_was: Values) -> SafeString:
    """Ranks under the draft and by the current policy: the better one is higher up."""
    known = [value for row in (rank, rank_was) for value in row if isfinite(value)]
    least, most = min(known, default=1.0), max(known, default=1.0)
    room = max((most - least) / 8, 0.5)
    return _small((("was", rank_was), ("draft", rank)), most + room, least - room)


def _small(rows: Sequence[tuple[str, Values]], bottom: float, top: float) -> SafeString:
    step = (_WIDTH - 2 * _EDGE) / max(len(rows[0][1]), 1)

    def line(values: Values) -> str:
        """Each day is as wide as its value holds."""
        path, is_down = [], False
        for day, value in enumerate(values):
            if not isfinite(value):
                is_down = False
                continue
            left, y = _EDGE + day * step, _HEIGHT - _EDGE - (value - bottom) / (top - bottom) * (_HEIGHT - 2 * _EDGE)
            path.append(f"{'L' if is_down else 'M'}{left:.1f} {y:.1f}H{left + step:.1f}")
            is_down = True
        return "".join(path)

    parts = [element("path", "", **{"class": css}, d=path) for css, values in rows if (path := line(values))]
    return element(
        "svg",
        joined(parts),
        **{"class": "under-draft"},
        width=_WIDTH,
        height=_HEIGHT,
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        aria_hidden="true",
        focusable="false",
    )


def draw_deviation(days: Sequence[date], deviation: Values, deviation_was: Values) -> SafeString:
    """Distances from the target by day, 0..1, drawn in points; it fills its box, as courses of entries do."""
    top = scales.top_of(value * 100 for row in (deviation, deviation_was) for value in row)
    first, last = float(days[0].toordinal()), float(days[-1].toordinal()) + 1.0  # a day is as wide as a step

    def x(at: float) -> float:
        return (at - first) / (last - first)

    def line(values: Values) -> str:
        path, is_down = [], False
        for day, value in zip(days, values, strict=True):
            if not isfinite(value):
                is_down = False
                continue
            left, right = (x(day.toordinal() + end) * _UNIT for end in (0, 1))
            path.append(f"{'L' if is_down else 'M'}{left:.1f} {(1 - value * 100 / top) * _UNIT:.1f}H{right:.1f}")
            is_down = True
        return "".join(path)

    ticks = [(top * at / _N_INTERVALS, f"{top * at / _N_INTERVALS:g}") for at in range(_N_INTERVALS + 1)]
    grid = "".join(f"M0 {(1 - value / top) * _UNIT:.1f}H{_UNIT}" for value, _text in ticks[1:])
    lines = [element("path", "", **{"class": "grid"}, d=grid)]
    lines += [
        element("path", "", **{"class": css}, d=path)
        for css, values in (("was", deviation_was), ("draft", deviation))
        if (path := line(values))
    ]
    box = {"width": "100%", "preserveAspectRatio": "none"}
    parts = [
        element("svg", joined(lines), height="100%", viewBox=f"0 0 {_UNIT} {_UNIT}", **box),
        element(
            "svg",
            element("path", "", **{"class": "axis"}, d=f"M0 0H{_UNIT}"),
            **{"class": "on-axis"},
            y="100%",
            height="4",
            viewBox=f"0 0 {_UNIT} 4",
            **box,
        ),
    ]
    parts += [
        element("text", text, x="-6", y=f"{(1 - value / top) * 100:.2f}%", dy="4", text_anchor="end")
        for value, text in ticks
    ]
    for width, css in ((_WIDE, "wide"), (_NARROW, "narrow")):
        labels = [
            element("text", scales.day_text(day), x=f"{x(day.toordinal() + 0.5) * 100:.2f}%", y="100%", dy="17")
            for day in scales.day_ticks(first, last, width, room=0.8)
        ]
        parts.append(element("g", joined(labels), **{"class": f"days {css}"}))
    return element("svg", joined(parts), **{"class": "chart course under-draft"}, aria_hidden="true", focusable="false")
