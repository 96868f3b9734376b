"""Coordinates of one panel of small multiples: an entry's actual share and target by day.

Each day has an equal part of the width. Target and shading fill that part; the actual share is a point in its middle.
Shares are fractions 0..1; unknown values are NaN and leave a gap in the line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite

import numpy as np
import numpy.typing as npt

from apps.dashboard.figures.bars import Tolerance

F8 = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
_LABELS = 3


@dataclass(frozen=True, slots=True)
class Frame:
    """Size of the view box and the area in it where days and shares are drawn."""

    width: int = 280
    height: int = 118
    left: float = 26.0
    top: float = 6.0

    @property
    def right(self) -> float:
        return self.width - 8.0

    @property
    def bottom(self) -> float:
        return self.height - 18.0


SMALL, LARGE = Frame(), Frame(width=920, height=180)


@dataclass(frozen=True, eq=False)
class Days:
    """Daily values of one entry, arrays (days,). marks: (index of the day, label) of each published revision."""

    actual: F8
    target: F8
    is_idle: Mask
    is_inferred: Mask
    is_starved: Mask
    is_gap: Mask
    is_before: Mask
    marks: Sequence[tuple[int, str]] = ()
    with_band: bool = True


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
    """Coordinates in pixels, rounded to a tenth. end: last point of the line, None if today's share is unknown."""

    frame: Frame
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
    share_ticks: tuple[Tick, ...]
    day_ticks: tuple[Tick, ...]
    end: tuple[float, float] | None
    state: str


def draw(
    days: Days, *, maximum: float, state: str, tolerance: Tolerance, labels: Sequence[str], frame: Frame = SMALL
) -> Panel:
    """Coordinates of a panel. labels: of each day; the first, the middle and the last are drawn."""
    n = len(days.actual)
    place = _Scale(frame, (frame.right - frame.left) / max(n, 1), maximum)
    runs = list(_stretches(np.isfinite(days.actual)))
    points = [(place.middle(i), place.y(days.actual[i])) for i in range(n)]
    is_known = n > 0 and isfinite(days.actual[-1])
    return Panel(
        frame=frame,
        lines=tuple(" ".join(f"{x:g},{y:g}" for x, y in points[a:b]) for a, b in runs if b - a > 1),
        dots=tuple(points[a] for a, b in runs if b - a == 1),
        targets=tuple(_steps(days.target, place)),
        bands=tuple(_bands(days.target, place, tolerance)) if days.with_band else (),
        idle=place.spans(days.is_idle),
        inferred=place.spans(days.is_inferred),
        starved=place.spans(days.is_starved),
        gaps=place.spans(days.is_gap),
        before=place.spans(days.is_before),
        marks=tuple(Mark(place.x(at), label) for at, label in days.marks),
        share_ticks=tuple(place.share_ticks()),
        day_ticks=tuple(place.day_ticks(labels)),
        end=points[-1] if is_known else None,
        state=state,
    )


@dataclass(frozen=True, slots=True)
class _Scale:
    """Maps days and shares to coordinates. step: width of a day in pixels."""

    frame: Frame
    step: float
    maximum: float

    def x(self, day: float) -> float:
        return round(self.frame.left + day * self.step, 1)

    def middle(self, day: int) -> float:
        return self.x(day + 0.5)

    def y(self, value: float) -> float:
        low, top = self.frame.bottom, self.frame.top
        if not isfinite(value):
            return low
        return round(low - min(max(value, 0.0), self.maximum) / self.maximum * (low - top), 1)

    def spans(self, mask: Mask) -> tuple[Span, ...]:
        return tuple(Span(self.x(a), round(self.x(b) - self.x(a), 1)) for a, b in _stretches(mask))

    def share_ticks(self) -> Iterator[Tick]:
        """Ticks at 0, half and all of the scale, in percent without the sign."""
        for part in (0.0, 0.5, 1.0):
            yield Tick(self.y(part * self.maximum), f"{part * self.maximum * 100:g}")

    def day_ticks(self, labels: Sequence[str]) -> Iterator[Tick]:
        n = len(labels)
        if n:
            yield Tick(self.frame.left, labels[0], "start")
        if n >= _LABELS:
            yield Tick(self.middle(n // 2), labels[n // 2], "middle")
        if n > 1:
            yield Tick(self.frame.right, labels[-1], "end")


def _stretches(mask: Mask) -> Iterator[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])).astype(np.int8)))
    yield from zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)


def _levels(target: F8) -> Iterator[tuple[int, int, float]]:
    """Runs of days with the same target: (first, end, target)."""
    for a, b in _stretches(np.isfinite(target)):
        start = a
        for i in range(a + 1, b + 1):
            if i == b or target[i] != target[start]:
                yield start, i, float(target[start])
                start = i


def _steps(target: F8, place: _Scale) -> Iterator[str]:
    path, end = "", -1
    for a, b, value in _levels(target):
        y = place.y(value)
        if a != end and path:
            yield path
            path = ""
        path += f"V{y:g}" if path else f"M{place.x(a):g} {y:g}"
        path += f"H{place.x(b):g}"
        end = b
    if path:
        yield path


def _bands(target: F8, place: _Scale, tolerance: Tolerance) -> Iterator[Box]:
    for a, b, value in _levels(target):
        slack = tolerance.around(value)
        top, low = place.y(value + slack), place.y(value - slack)
        x = place.x(a)
        yield Box(x, top, round(place.x(b) - x, 1), round(max(low - top, 1.5), 1))
