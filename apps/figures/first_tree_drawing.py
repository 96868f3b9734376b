"""The first drawing of an icicle or a treemap: fields as links, with the tiling of plotly.js.

Drawn for two widths, one of which the stylesheet shows; positions are percentages of the picture. A field too small for
its name has it in its title, as all fields do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from django.utils.safestring import SafeString

from apps.figures.elements import color_attributes, element, joined
from apps.figures.figure import Figure

_WIDTHS = (("wide", 814.0, 460.0, 5), ("narrow", 332.0, 400.0, 3))  # pixels; levels of an icicle
_SMALLEST = 3.0  # pixels: smaller fields are left out
_NAME_HEIGHT, _NAME_WIDTH, _TWO_LINES = 15.0, 34.0, 36.0
_GAP = 0.75  # pixels around each field


@dataclass
class _Node:
    at: int
    size: float
    children: list[_Node] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Box:
    """Rectangle of one field in pixels. at: index of the field."""

    at: int
    x: float
    y: float
    width: float
    height: float
    is_parent: bool


def tree_drawing(figure: Figure) -> SafeString:
    """Draw `<div class="fig-first whole">` with one picture per width."""
    return element("div", joined([_picture(figure, *one) for one in _WIDTHS]), **{"class": "fig-first whole"})


def _picture(figure: Figure, name: str, width: float, height: float, levels: int) -> SafeString:
    boxes = list(tree_boxes(figure, width, height, levels))
    cells = joined([_cell(figure, box, width, height) for box in boxes])
    return element("svg", cells, **{"class": f"fig-fields {name}"})


def tree_boxes(figure: Figure, width: float, height: float, levels: int) -> Iterator[Box]:
    """Yield the fields visible in a picture of this size, parents first."""
    trace = figure.traces[0]
    root = _nested(trace["ids"], trace["parents"], [one["size"] for one in figure.extra["fields"]])
    if trace["type"] == "icicle":
        depth = min(_depth(root), levels)
        return _columns(root, width / depth, depth, 0.0, 0.0, height)
    return _tiles(root, trace["marker"]["pad"], 0.0, 0.0, width, height)


def _nested(ids: list[str], parents: list[str], sizes: list[float]) -> _Node:
    """Build the tree; parents precede their children."""
    nodes = {one: _Node(at, sizes[at]) for at, one in enumerate(ids)}
    for one, parent in zip(ids, parents, strict=True):
        if parent:
            nodes[parent].children.append(nodes[one])
    return nodes[ids[0]]


def _depth(node: _Node) -> int:
    return 1 + max((_depth(child) for child in node.children), default=0)


def _columns(node: _Node, width: float, levels: int, x: float, y: float, height: float) -> Iterator[Box]:
    if height < _SMALLEST or levels < 1:
        return
    yield Box(node.at, x, y, width, height, bool(node.children))
    whole = max(sum(child.size for child in node.children), node.size) or 1.0
    for child in node.children:
        tall = height * child.size / whole
        yield from _columns(child, width, levels - 1, x + width, y, tall)
        y += tall


def _tiles(node: _Node, pad: dict[str, float], x: float, y: float, width: float, height: float) -> Iterator[Box]:
    if width < _SMALLEST or height < _SMALLEST:
        return
    yield Box(node.at, x, y, width, height, bool(node.children))
    left, top = x + pad["l"], y + pad["t"]
    right, bottom = x + width - pad["r"], y + height - pad["b"]
    if not node.children or right <= left or bottom <= top:
        return
    rest = max(node.size - sum(child.size for child in node.children), 0.0)
    sizes = [child.size for child in node.children]
    rectangles = squarify(sizes, sum(sizes) + rest, left, top, right, bottom)
    for child, (x0, y0, x1, y1) in zip(node.children, rectangles, strict=True):
        yield from _tiles(child, pad, x0, y0, x1 - x0, y1 - y0)


def squarify(
    sizes: list[float], whole: float, x0: float, y0: float, x1: float, y1: float
) -> list[tuple[float, float, float, float]]:
    """Return boxes in proportion to the sizes, as square as possible in the given order.

    Bruls, Huizing, van Wijk, "Squarified treemaps" (2000), row by row as d3-hierarchy does with a ratio of 1.
    """
    found: list[tuple[float, float, float, float]] = []
    while len(found) < len(sizes):
        wide, tall = x1 - x0, y1 - y0
        row = _row(sizes[len(found) :], whole, wide, tall)
        total = sum(row)
        part = total / whole if whole > 0 else 1.0
        across = wide < tall
        edge = y0 + tall * part if across else x0 + wide * part
        at = x0 if across else y0
        for size in row:
            step = (wide if across else tall) * (size / total if total > 0 else 0.0)
            found.append((at, y0, at + step, edge) if across else (x0, at, edge, at + step))
            at += step
        if across:
            y0 = edge
        else:
            x0 = edge
        whole -= total
    return found


def _row(sizes: list[float], whole: float, wide: float, tall: float) -> list[float]:
    """Return as many sizes as don't worsen the largest side ratio of the row."""
    if wide <= 0 or tall <= 0 or whole <= 0:
        return sizes
    alpha = max(tall / wide, wide / tall) / whole
    row, best = [sizes[0]], _worst([sizes[0]], alpha)
    for size in sizes[1:]:
        ratio = _worst([*row, size], alpha)
        if ratio > best:
            break
        row.append(size)
        best = ratio
    return row


def _worst(row: list[float], alpha: float) -> float:
    beta = sum(row) ** 2 * alpha
    return max(max(row) / beta, beta / min(row)) if beta > 0 and min(row) > 0 else float("inf")


def _cell(figure: Figure, box: Box, width: float, height: float) -> SafeString:
    """Draw a field with the texts that fit; the stylesheet shortens long names."""
    trace, words = figure.traces[0], figure.extra["fields"][box.at]
    marker = trace["marker"]
    paint = color_attributes(marker["colors"][box.at], "fill") | {
        "stroke": f"var(--{marker['line']['color'][box.at][1:]})"
    }
    hatch = element("rect", width="100%", height="100%", **{"class": "idle"})
    inner = [
        element("title", ". ".join(words["lines"])),
        element("rect", width="100%", height="100%", **paint),
        *([hatch] if marker["pattern"]["shape"][box.at] else []),
        *_texts(box, words, trace["textfont"]["color"][box.at], is_treemap=trace["type"] == "treemap"),
    ]
    position: dict[str, Any] = {
        "x": f"{(box.x + _GAP) / width:.3%}",
        "y": f"{(box.y + _GAP) / height:.3%}",
        "width": f"{max(box.width - 2 * _GAP, 1) / width:.3%}",
        "height": f"{max(box.height - 2 * _GAP, 1) / height:.3%}",
    }
    cell = element("svg", joined(inner), **{"class": "cell"}, **position)
    href = words["url"] or (None if words["query"] is None else f"?{words['query']}")
    return element("a", cell, href=href) if href else cell


def _texts(box: Box, words: dict[str, Any], color: str, *, is_treemap: bool) -> Iterator[SafeString]:
    if box.height < _NAME_HEIGHT or box.width < _NAME_WIDTH:
        return
    is_header = is_treemap and box.is_parent
    has_two = box.height >= _TWO_LINES and not is_header and bool(words["short"])
    lines = [words["name"], words["short"]] if has_two else ["  ".join(filter(None, (words["name"], words["short"])))]
    inner = joined([element("span", line) for line in lines])
    kind = "top" if is_treemap else "middle"
    yield element(
        "foreignObject",
        element("div", inner, **{"class": f"cell-text {kind}"}),
        width="100%",
        height="100%",
        **color_attributes(color, "color"),
    )
