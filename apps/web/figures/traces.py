"""Traces with a fixed meaning in every figure: target, tolerance, forecast, no demand, steps of balance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.utils.translation import gettext as _

from apps.web.figures.figure import Swatch, Trace

BALANCE = ("$ice-u3", "$ice-u2", "$ice-u1", "$surface-3", "$ice-o1", "$ice-o2", "$ice-o3")
ON_TARGET = 3
_SMALL, _LARGE = 5.0, 12.0  # borders between the steps, in points
NO_HOVER = {"hoverinfo": "skip"}
MOST_SERIES_COLORS = 8
_MARKS = {ord("&"): "&amp;", ord("<"): "&lt;", ord(">"): "&gt;", ord("$"): "&#36;", ord("{"): "&#123;"}
Values = Sequence[float | None]
Positions = Sequence[Any]


def balance_step(off_points: float) -> int:
    """Return the index in `BALANCE` of a deviation from target; over is positive."""
    size = 1 if abs(off_points) <= _SMALL else 2 if abs(off_points) < _LARGE else 3
    return ON_TARGET + (size if off_points > 0 else -size)


def balance_legend() -> list[Swatch]:
    """Return the steps from far under to far over."""
    words = (
        _("12 or more points under"),
        _("5 to 12 under"),
        _("up to 5 under"),
        _("on target"),
        _("up to 5 over"),
        _("5 to 12 over"),
        _("12 or more points over"),
    )
    return [Swatch(color, text) for color, text in zip(BALANCE, words, strict=True)]


def plotly_text(text: str) -> str:
    """Escape text for plotly.js, which interprets some tags, entities and `%{…}`; `$` would start a design token."""
    return text.translate(_MARKS)


def series_color(number: int) -> str:
    """Return the token of series 0..7; a picture has at most eight."""
    return f"$series-{number % MOST_SERIES_COLORS + 1}"


def line(
    x: Positions, y: Values, *, name: str, color: str, words: Sequence[str], width: float = 1.75, **more: Any
) -> Trace:
    """A measured line. words: a text per point, for hover, keyboard and screen readers; a gap is None in y."""
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": list(x),
        "y": list(y),
        "line": {"color": color, "width": width},
        "customdata": list(words),
        "hovertemplate": f"{plotly_text(name)} %{{customdata}}<extra></extra>",
        "meta": {"read": True},
        "connectgaps": False,
        **more,
    }


def target(x: Positions, y: Values) -> Trace:
    """Dashed steps in ink, for targets, even paces, limits and simulated variants."""
    dashed = {"color": "$ink", "width": 1.25, "dash": "4px,3px", "shape": "hv"}
    return {"type": "scatter", "mode": "lines", "x": list(x), "y": list(y), "line": dashed, **NO_HOVER}


def tolerance(x: Positions, low: Values, high: Values) -> list[Trace]:
    """The band around a target, for pictures of one entry."""
    edge = {"type": "scatter", "mode": "lines", "x": list(x), "line": {"width": 0, "shape": "hv"}, **NO_HOVER}
    return [edge | {"y": list(high)}, edge | {"y": list(low), "fill": "tonexty", "fillcolor": "$band/0.55"}]


def fan(x: Positions, low: Values, high: Values, *, is_half: bool = False) -> list[Trace]:
    """The range of nine of ten forecast outcomes, or of half of them."""
    edge = {"type": "scatter", "mode": "lines", "x": list(x), "line": {"width": 0}, **NO_HOVER}
    fill = f"$fan/{0.22 if is_half else 0.16}"
    return [edge | {"y": list(high)}, edge | {"y": list(low), "fill": "tonexty", "fillcolor": fill}]


def forecast(x: Positions, y: Values, *, name: str, color: str, words: Sequence[str]) -> Trace:
    drawn = line(x, y, name=name, color=color, words=words)
    return drawn | {"line": {"color": color, "width": 1.75, "dash": "5px,3px"}}


def end_dot(x: Any, y: float, *, color: str) -> Trace:
    """A dot at the last value of a line."""
    return {"type": "scatter", "mode": "markers", "x": [x], "y": [y], "marker": {"color": color, "size": 7}, **NO_HOVER}


def hollow_dots(positions: Sequence[tuple[Any, Any]]) -> Trace:
    """Hollow dots for cells without demand."""
    pen = {"symbol": "circle-open", "size": 4, "color": "$line-strong", "line": {"color": "$line-strong", "width": 1}}
    x, y = ([position[axis] for position in positions] for axis in (0, 1))
    return {"type": "scatter", "mode": "markers", "x": x, "y": y, "marker": pen, **NO_HOVER}


def no_demand(begins: Any, ends: Any, top: float) -> Trace:
    """A hatched area over the whole height for a period without demand."""
    pattern = {"shape": "/", "size": 6, "solidity": 0.12, "fgcolor": "$line-strong", "bgcolor": "rgba(0,0,0,0)"}
    return shade(begins, ends, top, fillpattern=pattern)


def shade(begins: Any, ends: Any, top: float, **fill: Any) -> Trace:
    """A filled area from the axis to `top`. fill: `fillcolor` or `fillpattern`."""
    return {
        "type": "scatter",
        "mode": "lines",
        "line": {"width": 0},
        "fill": "toself",
        **fill,
        "x": [begins, begins, ends, ends, begins],
        "y": [0, top, top, 0, 0],
        **NO_HOVER,
    }


def bars(x: Positions, y: Values, *, name: str, color: str, words: Sequence[str]) -> Trace:
    return {
        "type": "bar",
        "name": name,
        "x": list(x),
        "y": list(y),
        "marker": {"color": color},
        "customdata": list(words),
        "hovertemplate": "%{customdata}<extra></extra>",
        "meta": {"read": True},
    }


def cells(
    step: Sequence[Sequence[int | None]],
    words: Sequence[Sequence[str]],
    colors: Sequence[str],
    *,
    gap: float = 0.06,
) -> Trace:
    """A few cells of steps, drawn as bars, because plotly.js draws heat maps as images, which the page's content policy
    blocks.

    step: (rows, columns), index of a cell's colour, None is a gap; the first row is the lowest. Cell (i, j) is centred
    at x = j, y = i, so that the axes have the ranges −0.5..n − 0.5. gap: between two cells, in cells.
    """
    known = [(i, j, at) for i, row in enumerate(step) for j, at in enumerate(row) if at is not None]
    side = 1.0 - gap
    return {
        "type": "bar",
        "x": [j for _, j, _ in known],
        "y": [side] * len(known),
        "base": [i - side / 2 for i, _, _ in known],
        "width": side,
        "marker": {"color": [colors[at] for _, _, at in known], "line": {"width": 0}},
        "customdata": [words[i][j] for i, j, _ in known],
        "hovertemplate": "%{customdata}<extra></extra>",
        "textposition": "none",
    }
