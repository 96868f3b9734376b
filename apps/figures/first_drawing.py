"""The first drawing of a figure as SVG from the server: visible at once, without scripts, in print and in mail.

It has the margins, ranges and colours of the Plotly figure that replaces it. Lines and areas are stretched to the
page's width (coordinates in thousandths). Marks and texts are positioned by percentage and keep their size. Kinds
without axes have drawings of their own, or none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import groupby, pairwise
from typing import Any

from django.utils import formats
from django.utils.safestring import SafeString

from apps.figures.elements import WHOLE, color_attributes, element, joined
from apps.figures.figure import Figure, Trace
from apps.figures.figure import Size as SizeName
from apps.figures.first_tree_drawing import tree_drawing

# --- Sankey -----------------------------------------------------------------------------------------------------------
_PAD = 14.0  # thousandths between two nodes
_THICK = 10.0


@dataclass
class _Node:
    x: float
    top: float
    height: float
    used: float = 0.0  # part of its height covered by bands drawn so far


def sankey_bands(trace: Trace) -> Iterator[SafeString]:
    """Draw the bands and nodes, stretched with the picture (coordinates in thousandths)."""
    link, nodes, scale = trace["link"], *_nodes(trace)
    for source, target, value, color in zip(link["source"], link["target"], link["value"], link["color"], strict=True):
        a, b, height = nodes[source], nodes[target], value * scale
        left, right, middle = a.x + _THICK, b.x, (a.x + _THICK + b.x) / 2
        y0, y1 = a.top + a.used, b.top + b.used
        a.used, b.used = a.used + height, b.used + height
        path = (
            f"M{left:.1f} {y0:.1f}C{middle:.1f} {y0:.1f} {middle:.1f} {y1:.1f} {right:.1f} {y1:.1f}V{y1 + height:.1f}"
            f"C{middle:.1f} {y1 + height:.1f} {middle:.1f} {y0 + height:.1f} {left:.1f} {y0 + height:.1f}Z"
        )
        yield element("path", d=path, **color_attributes(color, "fill"))
    for node, color in zip(nodes, trace["node"]["color"], strict=True):
        box = {"x": node.x, "y": node.top, "width": _THICK, "height": node.height}
        yield element("rect", **{name: f"{one:.1f}" for name, one in box.items()}, **color_attributes(color, "fill"))


def sankey_names(trace: Trace) -> Iterator[SafeString]:
    nodes, _scale = _nodes(trace)
    for node, name in zip(nodes, trace["node"]["label"], strict=True):
        is_left = node.x < WHOLE / 2
        position = {"x": f"{(node.x + (_THICK if is_left else 0)) / WHOLE:.2%}", "dx": 6 if is_left else -6, "dy": 4}
        anchor = "start" if is_left else "end"
        yield element("text", name, y=f"{(node.top + node.height / 2) / WHOLE:.2%}", text_anchor=anchor, **position)


def _nodes(trace: Trace) -> tuple[list[_Node], float]:
    """Return nodes, sources in the left column and all others in the right one, and the scale in
    thousandths per unit.
    """
    link = trace["link"]
    n, sources = len(trace["node"]["label"]), set(link["source"])
    amounts = [
        sum(value for a, b, value in zip(link["source"], link["target"], link["value"], strict=True) if at in (a, b))
        for at in range(n)
    ]
    columns = [[at for at in range(n) if at in sources], [at for at in range(n) if at not in sources]]
    room = min(WHOLE - _PAD * (len(column) - 1) for column in columns)
    scale = room / max(sum(amounts[at] for at in columns[0]), 1e-300)
    nodes = [_Node(0.0, 0.0, amount * scale) for amount in amounts]
    for x, column in zip((0.0, WHOLE - _THICK), columns, strict=True):
        top = (WHOLE - sum(nodes[at].height for at in column) - _PAD * (len(column) - 1)) / 2
        for at in column:
            nodes[at].x, nodes[at].top = x, top
            top += nodes[at].height + _PAD
    return nodes, scale


# --- Figures ----------------------------------------------------------------------------------------------------------
HEIGHTS: dict[SizeName, int] = {"xs": 118, "s": 190, "m": 280, "l": 360, "xl": 460}  # pixels, as in figures.css
_LABEL_GAP = 17  # pixels between two labels at the right end
_LINE = 14  # pixels between the lines of a label
_DAY_TICKS = 5
Scale = Callable[[Any], float | None]


def first_drawing(figure: Figure) -> SafeString:
    """Draw `<div class="fig-first …">` with two layered pictures; empty if no trace can be drawn."""
    if figure.empty:
        return joined([])
    kind = figure.traces[0]["type"] if figure.traces else ""
    if kind in {"icicle", "treemap"}:
        return tree_drawing(figure)
    stretched, fixed = _sankey(figure) if kind == "sankey" else _on_axes(figure)
    if not (stretched or fixed):
        return joined([])
    hidden = {"aria_hidden": "true", "focusable": "false"}
    whole = {"viewBox": f"0 0 {WHOLE:g} {WHOLE:g}", "preserveAspectRatio": "none"}
    lines = element("svg", joined(stretched), **{"class": "fig-lines"}, **whole, **hidden)
    marks = element("svg", joined(fixed), **{"class": "fig-marks"}, **hidden)
    margin = figure.layout["margin"]
    positions = " ".join(f"{side}{margin[side]}" for side in "lrtb")
    if "rangeslider" in figure.layout.get("xaxis", {}):
        positions += " with-slider"
    return element("div", lines + marks, **{"class": f"fig-first {positions}"})


def _sankey(figure: Figure) -> tuple[list[SafeString], list[SafeString]]:
    return list(sankey_bands(figure.traces[0])), list(sankey_names(figure.traces[0]))


def _on_axes(figure: Figure) -> tuple[list[SafeString], list[SafeString]]:
    """Return the stretched elements, and those that keep their size."""
    layout = figure.layout
    x, y = _scale(layout["xaxis"], figure.traces, "x"), _scale(layout["yaxis"], figure.traces, "y")
    stretched = list(_stretched(figure.traces, x, y))
    fixed = [*_fixed(figure.traces, x, y), *_marks(figure, x)]
    if not (stretched or fixed):
        return [], []
    texts = [*_y_texts(layout["yaxis"], y), *_x_texts(layout["xaxis"], x), *_end_labels(figure, y)]
    return [*_grid(layout["yaxis"], y), *stretched], [*fixed, *texts]


def _scale(axis: dict[str, Any], traces: Sequence[Trace], letter: str) -> Scale:
    """Return a function from an axis value to a position 0..1 along the axis; None for values it can't show."""
    if "range" in axis and axis.get("type") != "category":
        low, high = (_number(one) for one in axis["range"])

        @cache  # rows of cells and several lines share their x values
        def along(value: Any) -> float | None:
            number = None if value is None else _number(value)
            return None if number is None or high == low else (number - low) / (high - low)

        return along
    names = list(dict.fromkeys(one for trace in traces for one in trace.get(letter, ())))
    parts = {name: (at + 0.5) / len(names) for at, name in enumerate(names)}
    return lambda value: (value + 0.5) / len(names) if isinstance(value, int | float) else parts.get(value)


def _number(value: Any) -> float:
    if isinstance(value, str):
        return datetime.fromisoformat(value).replace(tzinfo=UTC).timestamp()
    return float(value)


def _stretched(traces: Sequence[Trace], x: Scale, y: Scale) -> Iterator[SafeString]:
    """Draw areas, bars, cells and lines."""
    below: list[tuple[float, float]] = []
    stack: dict[Any, float] = {}
    for trace in traces:
        kind = trace["type"]
        if kind == "heatmap":
            yield from _cells(trace, x, y)
        elif kind == "bar" and "base" in trace:
            yield from _based_bars(trace, x, y)
        elif kind == "bar":
            yield from _bars(trace, x, y, stack)
        elif kind == "scatter" and "lines" in trace.get("mode", ""):
            runs = [_stepped(run, trace) for run in _runs(trace, x, y, stack)]
            yield from _areas(trace, runs, below, y)
            below = [point for run in runs for point in run]
            line = trace.get("line", {})
            if line.get("width", 1):
                pen = color_attributes(line.get("color", "$ink"), "stroke") | {
                    "stroke_width": str(line.get("width", 1.75))
                }
                if "px" in line.get("dash", ""):
                    pen["stroke_dasharray"] = line["dash"].replace("px", "")
                for run in runs:
                    yield element("polyline", fill="none", points=_points(run), **pen)


def _runs(trace: Trace, x: Scale, y: Scale, stack: dict[Any, float]) -> list[list[tuple[float, float]]]:
    """Split into runs without gaps, in thousandths; a stacked trace is shifted above those drawn before."""
    found: list[tuple[float, float] | None] = []
    for at, value in zip(trace["x"], trace["y"], strict=True):
        if "stackgroup" in trace and value is not None:
            value = stack[at] = stack.get(at, 0.0) + value
        left, up = x(at), y(value)
        found.append(None if left is None or up is None else (left * WHOLE, (1 - up) * WHOLE))
    return [[p for p in run if p] for is_known, run in groupby(found, key=lambda p: p is not None) if is_known]


def _stepped(run: list[tuple[float, float]], trace: Trace) -> list[tuple[float, float]]:
    if trace.get("line", {}).get("shape") != "hv":
        return run
    return [run[0], *(point for (_, y0), (x1, y1) in pairwise(run) for point in ((x1, y0), (x1, y1)))]


def _areas(
    trace: Trace, runs: list[list[tuple[float, float]]], below: list[tuple[float, float]], y: Scale
) -> Iterator[SafeString]:
    fill, hatch = trace.get("fill"), trace.get("fillpattern")
    paint = color_attributes("$line-strong/0.12" if hatch else trace.get("fillcolor", "none"), "fill")
    if "stackgroup" in trace or fill == "tozeroy":
        floor = (1 - (y(0) or 0.0)) * WHOLE
        for run in runs:
            under = below[::-1] if "stackgroup" in trace and below else [(run[-1][0], floor), (run[0][0], floor)]
            yield element("polygon", points=_points([*run, *under]), **paint)
    elif fill == "tonexty" and below:
        yield element("polygon", points=_points([*(p for run in runs for p in run), *below[::-1]]), **paint)
    elif fill == "toself":
        yield from (element("polygon", points=_points(run), **paint) for run in runs)


def _bars(trace: Trace, x: Scale, y: Scale, stack: dict[Any, float]) -> Iterator[SafeString]:
    positions = [x(at) for at in trace["x"]]
    known = sorted({one for one in positions if one is not None})
    width = 0.72 * min((b - a for a, b in pairwise(known)), default=0.5)
    widths = _widths(trace, x, width)
    colors = trace["marker"]["color"]
    for at, (where, key, value) in enumerate(zip(positions, trace["x"], trace["y"], strict=True)):
        if where is None or value is None:
            continue
        start, stack[key] = stack.get(key, 0.0), stack.get(key, 0.0) + value
        top, low = y(stack[key]) or 0.0, y(start) or 0.0
        paint = color_attributes(colors if isinstance(colors, str) else colors[at], "fill")
        yield _box(paint, where - widths[at] / 2, 1 - max(top, low), widths[at], abs(top - low))


def _widths(trace: Trace, x: Scale, default: float) -> list[float]:
    """Widths of bars as fractions of the axis: from the trace, in its unit, else the default."""
    unit = (x(1.0) or 0.0) - (x(0.0) or 0.0) if "width" in trace else 0.0
    return [one * unit for one in trace["width"]] if "width" in trace else [default] * len(trace["x"])


def _based_bars(trace: Trace, x: Scale, y: Scale) -> Iterator[SafeString]:
    """Draw bars with a base and a width, in units of the axes (milliseconds for days), one path per colour."""
    is_time = any(isinstance(at, str) for at in trace["x"][:1])
    half, colors = trace["width"] / (2000 if is_time else 2), trace["marker"]["color"]
    outline = trace["marker"].get("line", {})
    edges = outline["color"] if isinstance(outline.get("color"), list) else [""] * len(trace["x"])
    drawn: dict[tuple[str, str], list[str]] = {}
    bars = zip(trace["x"], trace["base"], trace["y"], colors, edges, strict=True)
    for at, base, high, color, edge in bars:
        middle = _number(at)
        left, right, low, top = x(middle - half), x(middle + half), y(base), y(base + high)
        if left is not None and right is not None and low is not None and top is not None:
            drawn.setdefault((color, edge), []).append(_cell(left, 1 - top, right - left, top - low))
    for (color, edge), cells in drawn.items():
        paint = color_attributes(color, "fill")
        if edge.startswith("$"):
            paint |= color_attributes(edge, "stroke") | {"stroke_width": "1.5", "vector_effect": "non-scaling-stroke"}
        yield element("path", d="".join(cells), **paint)


def _cell(left: float, top: float, width: float, height: float) -> str:
    """Return a rectangle as part of a path, from fractions of the axes."""
    across = width * WHOLE
    return f"M{left * WHOLE:.1f} {top * WHOLE:.1f}h{across:.1f}v{height * WHOLE:.1f}h{-across:.1f}z"


def _cells(trace: Trace, x: Scale, y: Scale) -> Iterator[SafeString]:
    """Draw a heat map, one path per colour, because it has thousands of cells."""
    colors = [color for _, color in trace["colorscale"][::2]]
    columns = [x(at) for at in trace["x"]]
    known = [one for one in columns if one is not None]
    width = min((b - a for a, b in pairwise(known)), default=1.0)
    height = 0.92 / max(len(trace["y"]), 1)
    lefts = [None if one is None else f"M{(one - width / 2) * WHOLE:.1f} " for one in columns]
    wide = width * 0.94 * WHOLE
    drawn: list[list[str]] = [[] for _ in colors]
    for name, cells in zip(trace["y"], trace["z"], strict=True):
        top = (1 - (y(name) or 0.0) - height / 2) * WHOLE
        rest = f"{top:.1f}h{wide:.1f}v{height * WHOLE:.1f}h{-wide:.1f}z"
        for left, step in zip(lefts, cells, strict=True):
            if left is not None and step is not None:
                drawn[min(int(step), len(colors) - 1)].append(left + rest)
    for color, boxes in zip(colors, drawn, strict=True):
        if boxes:
            yield element("path", d="".join(boxes), **color_attributes(color, "fill"))


def _box(paint: dict[str, str], left: float, top: float, width: float, height: float) -> SafeString:
    positions = {"x": left, "y": top, "width": width, "height": height}
    return element("rect", **paint, **{name: f"{value * WHOLE:.1f}" for name, value in positions.items()})


def _fixed(traces: Sequence[Trace], x: Scale, y: Scale) -> Iterator[SafeString]:
    """Draw dots, which keep their shape."""
    for trace in traces:
        if trace["type"] != "scatter" or "markers" not in trace.get("mode", ""):
            continue
        marker = trace.get("marker", {})
        colors, radius = marker.get("color", "$level-mark"), marker.get("size", 6) / 2
        is_hollow = marker.get("symbol") == "circle-open"
        dots: dict[str, list[SafeString]] = {}  # grouped by colour
        for at, (left, up) in enumerate(zip(map(x, trace["x"]), map(y, trace["y"]), strict=True)):
            if left is not None and up is not None and 0 <= left <= 1:
                dot = element("circle", cx=f"{left:.2%}", cy=f"{1 - up:.2%}", r=f"{radius:g}")
                dots.setdefault(colors if isinstance(colors, str) else colors[at], []).append(dot)
        for color, circles in dots.items():
            paint = color_attributes(color, "stroke" if is_hollow else "fill") | ({"fill": "none"} if is_hollow else {})
            yield element("g", joined(circles), **paint)


def _grid(axis: dict[str, Any], y: Scale) -> Iterator[SafeString]:
    if axis.get("showgrid", True):
        for value in axis.get("tickvals", ()):
            at = y(value)
            if at is not None and 0 <= at <= 1:
                yield element("path", d=f"M0 {(1 - at) * WHOLE:.1f}H{WHOLE:g}", **{"class": "grid"})


def _marks(figure: Figure, x: Scale) -> Iterator[SafeString]:
    for mark in figure.marks:
        at = x(mark.at)
        if at is not None and 0 <= at <= 1:
            yield element("line", **{"class": "rev"}, x1=f"{at:.2%}", x2=f"{at:.2%}", y1="0", y2="100%")
            yield element("circle", **{"class": "rev"}, cx=f"{at:.2%}", r="3")


def _y_texts(axis: dict[str, Any], y: Scale) -> Iterator[SafeString]:
    for value, text in zip(axis.get("tickvals", ()), axis.get("ticktext", ()), strict=True):
        at = y(value)
        if at is not None and 0 <= at <= 1:
            yield element("text", text, x="-4", y=f"{1 - at:.2%}", dy="4", text_anchor="end")


def _x_texts(axis: dict[str, Any], x: Scale) -> Iterator[SafeString]:
    for value, text in _x_ticks(axis):
        at = x(value)
        if at is not None and 0 <= at <= 1:
            for row, line in enumerate(text.split("<br>")):
                yield element("text", line, x=f"{at:.2%}", y="100%", dy=f"{16 + row * 14}", text_anchor="middle")


def _x_ticks(axis: dict[str, Any]) -> list[tuple[Any, str]]:
    if "tickvals" in axis:
        return list(zip(axis["tickvals"], axis["ticktext"], strict=True))
    if axis.get("type") != "date":
        return []
    low, high = (_number(one) for one in axis["range"])
    days = [datetime.fromtimestamp(low + (high - low) * n / _DAY_TICKS, UTC) for n in range(_DAY_TICKS)]
    known = dict.fromkeys((day.strftime("%Y-%m-%d"), formats.date_format(day, "j M")) for day in days)
    return list(known)


def _end_labels(figure: Figure, y: Scale) -> Iterator[SafeString]:
    """Draw the labels, moved apart from top to bottom so that none overlaps another."""
    margin = figure.layout["margin"]
    inner = HEIGHTS[figure.size] - margin["t"] - margin["b"]
    labels, positions = sorted(figure.labels, key=lambda one: -one.at), list[float]()
    lines = max((one.text.count("<br>") for one in labels), default=0)
    gap = min(_LABEL_GAP + lines * _LINE, inner / max(len(labels), 1))
    for label in labels:
        positions.append(max(inner * (1 - (y(label.at) or 0.0)), positions[-1] + gap if positions else 0.0))
    below = max(positions[-1] - inner, 0.0) if positions else 0.0
    for label, last in zip(labels, (position - below for position in positions), strict=True):
        if label.swatch:
            swatch = element(
                "rect", x="8", y=f"{last - 1.5:.1f}", width="12", height="3", **color_attributes(label.swatch, "fill")
            )
            yield element("svg", swatch, **{"class": "fig-end"}, x="100%", overflow="visible")
        texts = label.text.split("<br>")
        for row, text in enumerate(texts):
            top = last + (row - (len(texts) - 1) / 2) * _LINE
            position: dict[str, str | float] = {
                "x": "100%",
                "y": f"{top:.1f}",
                "dx": 26 if label.swatch else 8,
                "dy": 4,
            }
            yield element("text", text, **{"class": "fig-end"}, **position, **color_attributes(label.color, "fill"))


def _points(run: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{left:.1f},{top:.1f}" for left, top in run)
