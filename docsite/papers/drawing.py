"""Small SVG drawings of the papers' figures, in colours that both themes show: curves with names, and heat maps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.utils.safestring import SafeString

from apps.web.figures.elements import element, joined

PENS = ("#2a78d6", "#d9730d", "#2f9e63", "#b5479b", "#8a6d1f", "#7a5fd3", "#c2413a")
RULE, TEXT = "#8a8f98", "#6b7280"
WIDTH, HEIGHT = 480, 220  # pixels
LEFT, RIGHT, TOP, BOTTOM = 40, 96, 10, 24
_LINE = 13  # pixels between two names
_CELL = 16
_NAMES = 76
Tick = tuple[float, str]


@dataclass(frozen=True, slots=True)
class Axis:
    """Range and labelled values of one side."""

    low: float
    high: float
    ticks: Sequence[Tick]

    def part(self, value: float) -> float:
        return (value - self.low) / (self.high - self.low)


def curves(title: str, by_name: Mapping[str, Sequence[tuple[float, float | None]]], x: Axis, y: Axis) -> str:
    """One line for each name, with its name at the end; a point without a value is left out."""
    parts = list(_frame(x, y))
    ends = []
    for pen, (name, points) in zip(PENS, by_name.items(), strict=False):
        drawn = [(_right(x.part(a)), _down(y.part(b))) for a, b in points if b is not None]
        places = " ".join(f"{a:.1f},{b:.1f}" for a, b in drawn)
        parts.append(element("polyline", points=places, fill="none", stroke=pen, stroke_width=1.8))
        if drawn:
            ends.append((drawn[-1][1], name, pen))
    parts += [_text(name, WIDTH - RIGHT + 6, down + 4, "start", pen) for down, name, pen in _apart(sorted(ends))]
    return _svg(title, WIDTH, HEIGHT, parts)


def heat_map(title: str, rows: Mapping[str, Sequence[float | None]], ticks: Mapping[int, str]) -> str:
    """Rows of cells, darker for larger values; a cell without a value stays empty. ticks: labels by column."""
    values = [value for row in rows.values() for value in row if value is not None]
    low, high = min(values), max(values)
    parts = []
    for number, (name, row) in enumerate(rows.items()):
        down = 4 + number * _CELL
        parts.append(_text(name, _NAMES - 6, down + 12, "end"))
        for column, value in enumerate(row):
            if value is not None:
                strength = 0.06 + 0.94 * ((value - low) / (high - low) if high > low else 0.0)
                parts.append(_cell(_NAMES + column * _CELL, down, strength))
    bottom = 4 + len(rows) * _CELL
    parts += [_text(text, _NAMES + (column + 0.5) * _CELL, bottom + 12, "middle") for column, text in ticks.items()]
    columns = max(map(len, rows.values()))
    return _svg(title, _NAMES + columns * _CELL + 24, bottom + 20, parts)


def _cell(x: int, y: int, strength: float) -> SafeString:
    side = _CELL - 1
    return element("rect", x=x, y=y, width=side, height=side, fill=PENS[0], fill_opacity=f"{strength:.2f}")


def _frame(x: Axis, y: Axis) -> Iterator[SafeString]:
    for value, text in y.ticks:
        down = _down(y.part(value))
        yield element("path", d=f"M{LEFT} {down:.1f}H{WIDTH - RIGHT}", stroke=RULE, stroke_opacity=0.35)
        yield _text(text, LEFT - 6, down + 4, "end")
    for value, text in x.ticks:
        yield _text(text, _right(x.part(value)), HEIGHT - 6, "middle")


def _apart(ends: Sequence[tuple[float, str, str]]) -> Iterator[tuple[float, str, str]]:
    """Names moved down where they would overlap, and all up where the last would leave the picture."""
    places: list[float] = []
    for down, _, _ in ends:
        places.append(max(down, places[-1] + _LINE) if places else down)
    excess = max(0.0, places[-1] - (HEIGHT - BOTTOM)) if places else 0.0
    for place, (_, name, pen) in zip(places, ends, strict=True):
        yield place - excess, name, pen


def _right(part: float) -> float:
    return LEFT + part * (WIDTH - LEFT - RIGHT)


def _down(part: float) -> float:
    return TOP + (1 - part) * (HEIGHT - TOP - BOTTOM)


def _text(text: str, x: float, y: float, anchor: str, fill: str = TEXT) -> SafeString:
    place = {"x": f"{x:.1f}", "y": f"{y:.1f}", "text_anchor": anchor}
    return element("text", text, **place, fill=fill, font_size=11, font_family="sans-serif")


def _svg(title: str, width: int, height: int, parts: Sequence[SafeString]) -> str:
    frame = {"xmlns": "http://www.w3.org/2000/svg", "viewBox": f"0 0 {width} {height}", "role": "img"}
    return str(element("svg", joined([element("title", title), *parts]), **frame, width=width, height=height)) + "\n"
