"""One panel of small multiples: an entry's share day by day beside its target. Numbers in, drawing out.

Each day takes an equal part of the width: its target and what is shaded fill that part, what was used is a point in
the middle of it. Shares are fractions 0..1; what isn't known is NaN and leaves a hole in the line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np
import numpy.typing as npt

from apps.dashboard.figures.bullet import SHARE_STEPS, Tolerance

F8 = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
WIDTH, HEIGHT = 280, 118
LEFT, RIGHT, TOP, BOTTOM = 26.0, 272.0, 6.0, 100.0
_OUTLIER = 2.5  # a panel that needs so much more than the next one gets a scale of its own
_LABELS = 3
_STRIP = 4.0  # how high the mark of days on which jobs waited is


@dataclass(frozen=True, eq=False)
class Days:
    """What is drawn of one entry, arrays (days,). marks: places of the days on which something was published."""

    actual: F8
    target: F8
    is_idle: Mask
    is_inferred: Mask
    is_starved: Mask
    is_gap: Mask
    is_before: Mask
    marks: Sequence[tuple[int, str]] = ()


@dataclass(frozen=True, slots=True)
class Span:
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Box:
    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Mark:
    x: float
    label: str


@dataclass(frozen=True, slots=True)
class Tick:
    at: float
    text: str
    anchor: str = "end"


@dataclass(frozen=True)
class Panel:
    """Everything in pixels of the view box, rounded to a tenth; `end` is where the line ends today."""

    lines: tuple[str, ...]
    dots: tuple[tuple[float, float], ...]
    targets: tuple[str, ...]
    bands: tuple[Box, ...]
    idle: tuple[Span, ...]
    inferred: tuple[Span, ...]
    starved: tuple[Span, ...]
    gaps: tuple[Span, ...]
    before: tuple[Span, ...]
    marks: tuple[Mark, ...]
    across: tuple[Tick, ...]
    along: tuple[Tick, ...]
    end: tuple[float, float] | None
    state: str


def scale_of(actual: F8, target: F8, tolerance: Tolerance) -> float:
    """The smallest step that holds all of one panel."""
    needed = [0.0]
    for value, slack in ((actual, False), (target, True)):
        known = value[np.isfinite(value)]
        if known.size:
            most = float(known.max())
            needed.append(most + tolerance.around(most) if slack else most)
    return next((step for step in SHARE_STEPS if step >= max(needed) - 1e-12), 1.0)


def shared_scales(steps: Sequence[float]) -> tuple[list[float], float]:
    """The scale of each panel of a group, and the one that is shared: a single giant doesn't flatten the others."""
    ordered = [*sorted(steps, reverse=True), 0.0]
    common = ordered[1] if 0 < _OUTLIER * ordered[1] < ordered[0] else ordered[0]
    return [step if step > common else common for step in steps], common


def draw(days: Days, *, maximum: float, state: str, tolerance: Tolerance, labels: Sequence[str]) -> Panel:
    """labels: what each day is called; the first, the middle and the last of them are written."""
    n = len(days.actual)
    step = (RIGHT - LEFT) / max(n, 1)
    runs = list(_runs(days.actual))
    points = [(_middle(i, step), _height(days.actual[i], maximum)) for i in range(n)]
    last = next((i for i in range(n - 1, -1, -1) if isfinite(days.actual[i])), None)
    return Panel(
        lines=tuple(" ".join(f"{x:g},{y:g}" for x, y in points[a:b]) for a, b in runs if b - a > 1),
        dots=tuple(points[a] for a, b in runs if b - a == 1),
        targets=tuple(_steps(days.target, step, maximum)),
        bands=tuple(_bands(days.target, step, maximum, tolerance)),
        idle=_spans(days.is_idle, step),
        inferred=_spans(days.is_inferred, step),
        starved=_spans(days.is_starved, step),
        gaps=_spans(days.is_gap, step),
        before=_spans(days.is_before, step),
        marks=tuple(Mark(_x(at, step), label) for at, label in days.marks),
        across=tuple(_across(maximum)),
        along=tuple(_along(labels, step)),
        end=points[last] if last is not None and last == n - 1 else None,
        state=state,
    )


def _x(day: float, step: float) -> float:
    return round(LEFT + day * step, 1)


def _middle(day: int, step: float) -> float:
    return _x(day + 0.5, step)


def _height(value: float, maximum: float) -> float:
    if not isfinite(value):
        return BOTTOM
    return round(BOTTOM - min(max(value, 0.0), maximum) / maximum * (BOTTOM - TOP), 1)


def _runs(values: F8) -> Iterator[tuple[int, int]]:
    """Stretches of days that are known."""
    yield from _stretches(np.isfinite(values))


def _stretches(mask: Mask) -> Iterator[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])).astype(np.int8)))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def _spans(mask: Mask, step: float) -> tuple[Span, ...]:
    return tuple(Span(_x(a, step), round(_x(b, step) - _x(a, step), 1)) for a, b in _stretches(mask))


def _levels(target: F8) -> Iterator[tuple[int, int, float]]:
    """Stretches of days with one and the same target."""
    for a, b in _runs(target):
        start = a
        for i in range(a + 1, b + 1):
            if i == b or target[i] != target[start]:
                yield start, i, float(target[start])
                start = i


def _steps(target: F8, step: float, maximum: float) -> Iterator[str]:
    path, end = "", -1
    for a, b, value in _levels(target):
        y, x = _height(value, maximum), _x(a, step)
        if a != end and path:
            yield path
            path = ""
        path += f"V{y:g}" if path else f"M{x:g} {y:g}"
        path += f"H{_x(b, step):g}"
        end = b
    if path:
        yield path


def _bands(target: F8, step: float, maximum: float, tolerance: Tolerance) -> Iterator[Box]:
    for a, b, value in _levels(target):
        slack = tolerance.around(value)
        top, low = _height(value + slack, maximum), _height(value - slack, maximum)
        x = _x(a, step)
        yield Box(x, top, round(_x(b, step) - x, 1), round(max(low - top, 1.5), 1))


def _across(maximum: float) -> Iterator[Tick]:
    """0, the half and the whole of the scale, in percent without its sign."""
    for part in (0.0, 0.5, 1.0):
        yield Tick(round(BOTTOM - part * (BOTTOM - TOP), 1), f"{part * maximum * 100:g}")


def _along(labels: Sequence[str], step: float) -> Iterator[Tick]:
    n = len(labels)
    if n == 0:
        return
    if n < _LABELS:
        yield Tick(LEFT, labels[0], "start")
        if n > 1:
            yield Tick(RIGHT, labels[-1], "end")
        return
    yield Tick(LEFT, labels[0], "start")
    yield Tick(_middle(n // 2, step), labels[n // 2], "middle")
    yield Tick(RIGHT, labels[-1], "end")
