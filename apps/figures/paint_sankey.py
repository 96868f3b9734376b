"""The first drawing of a Sankey diagram of two columns: bands as wide as their amounts, names beside the nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.utils.safestring import SafeString

from apps.figures.elements import WHOLE, element, ink
from apps.figures.figure import Trace

_PAD = 14.0  # thousandths between two nodes
_THICK = 10.0


@dataclass
class _Node:
    x: float
    top: float
    height: float
    used: float = 0.0  # of its height, by bands that have been drawn


def sankey_bands(trace: Trace) -> Iterator[SafeString]:
    """Stretched with the picture: places in thousandths."""
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
        yield element("path", d=path, **ink(color, "fill"))
    for node, color in zip(nodes, trace["node"]["color"], strict=True):
        box = {"x": node.x, "y": node.top, "width": _THICK, "height": node.height}
        yield element("rect", **{name: f"{one:.1f}" for name, one in box.items()}, **ink(color, "fill"))


def sankey_names(trace: Trace) -> Iterator[SafeString]:
    nodes, _scale = _nodes(trace)
    for node, name in zip(nodes, trace["node"]["label"], strict=True):
        is_left = node.x < WHOLE / 2
        place = {"x": f"{(node.x + (_THICK if is_left else 0)) / WHOLE:.2%}", "dx": 6 if is_left else -6, "dy": 4}
        anchor = "start" if is_left else "end"
        yield element("text", name, y=f"{(node.top + node.height / 2) / WHOLE:.2%}", text_anchor=anchor, **place)


def _nodes(trace: Trace) -> tuple[list[_Node], float]:
    """Sources in the left column, the others in the right one; thousandths a unit."""
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
