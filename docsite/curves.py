"""Small drawings for the page of algorithms: SVG files from the engine's own functions, in colours of both themes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from django.utils.safestring import SafeString

from apps.engine.arrays import FloatArray
from apps.engine.decay import Window, weights
from apps.engine.decay_functions import DECAY_FUNCTIONS
from apps.engine.operators import Operator, all_operators
from apps.web.figures.elements import element, joined

WIDTH, HEIGHT = 300, 150  # pixels
LEFT, RIGHT, TOP, BOTTOM = 34, 10, 10, 22
TARGET = 0.3
DAYS = 30
DAY_S = 86_400
AS_OF_S = DAY_S / 2  # between two instants of those that decay at fixed ones
_N_POINTS = 121
_PEN, _RULE, _TEXT = "#2a78d6", "#8a8f98", "#6b7280"
# Where the scheduler's default would leave nothing to see within 30 days, or there is none.
_SETTINGS: dict[str, dict[str, float]] = {
    "exponential": {"half_life_s": 7 * DAY_S},
    "linear": {"length_s": 21 * DAY_S},
    "step": {"granularity_s": 7 * DAY_S, "factor": 0.5},
    "lsf": {"hist_hours": 120},
}


def drawings() -> Iterator[tuple[str, str]]:
    """Path below docs/pictures and SVG of each operator and decay function."""
    for operator in all_operators():
        yield f"operators/{operator.name}.svg", operator_curve(operator)
    for name in DECAY_FUNCTIONS:
        yield f"decay/{name}.svg", decay_curve(name)


def operator_curve(operator: Operator) -> str:
    """Priority −1..1 over the actual share 0..1 at a target of 30 %."""
    actual = np.linspace(0.0, 1.0, _N_POINTS)
    priority = operator(np.full(_N_POINTS, TARGET), actual)
    x_ticks = [(0.0, "0 %"), (TARGET, "target"), (1.0, "100 %")]
    return _drawing(
        f"Operator {operator.name}", actual, (priority + 1) / 2, x_ticks, [(0.0, "−1"), (0.5, "0"), (1.0, "1")]
    )


def decay_window(name: str) -> Window:
    """The window that the drawing of a decay function shows: its defaults, else the numbers above."""
    return Window.of(name, **_SETTINGS.get(name, {}))


def decay_curve(name: str) -> str:
    """Weight 0..1 of usage over its age, 0 to 30 days."""
    age_days = np.linspace(0.0, DAYS, _N_POINTS)
    weight = np.asarray(weights(age_days * DAY_S, decay_window(name), AS_OF_S))
    x_ticks = [(day / DAYS, f"{day} d") for day in (0, 10, 20, 30)]
    return _drawing(f"Decay {name}", age_days / DAYS, weight, x_ticks, [(0.0, "0"), (0.5, "½"), (1.0, "1")])


def _drawing(
    title: str, x: FloatArray, y: FloatArray, x_ticks: Sequence[tuple[float, str]], y_ticks: Sequence[tuple[float, str]]
) -> str:
    """A line in a frame; all places are parts 0..1 of the frame."""
    marks = [
        element("path", d=f"M{LEFT} {_down(at):.1f}H{WIDTH - RIGHT}", stroke=_RULE, stroke_opacity=0.35)
        for at, _ in y_ticks
    ]
    texts = [_text(text, LEFT - 6, _down(at) + 4, "end") for at, text in y_ticks]
    texts += [
        _text(text, _right(at), HEIGHT - 6, "middle" if 0 < at < 1 else "start" if at == 0 else "end")
        for at, text in x_ticks
    ]
    points = " ".join(f"{_right(a):.1f},{_down(b):.1f}" for a, b in zip(x.tolist(), y.tolist(), strict=True))
    line = element("polyline", points=points, fill="none", stroke=_PEN, stroke_width=2)
    frame = {"xmlns": "http://www.w3.org/2000/svg", "viewBox": f"0 0 {WIDTH} {HEIGHT}", "role": "img"}
    inner = joined([element("title", title), *marks, line, *texts])
    return str(element("svg", inner, **frame, width=WIDTH, height=HEIGHT)) + "\n"


def _right(part: float) -> float:
    return LEFT + part * (WIDTH - LEFT - RIGHT)


def _down(part: float) -> float:
    return TOP + (1 - part) * (HEIGHT - TOP - BOTTOM)


def _text(text: str, x: float, y: float, anchor: str) -> SafeString:
    return element(
        "text", text, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor, fill=_TEXT, font_size=11, font_family="sans-serif"
    )
