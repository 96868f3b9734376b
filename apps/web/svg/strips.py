"""Coordinates of charts along days: coverage of usage sources."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from apps.usage.quality.coverage import Coverage, Day
from apps.web.texts.shortened import shortened

WIDE, BESIDE, NARROW = 940, 740, 340
WIDE_DAYS, NARROW_DAYS = 60, 28
TICK_EVERY = 14
_LABELS = 150
_TOP = 22
_ROW = 24
_GAP = 2.0
_LONGEST_STRIP_NAME = 22


@dataclass(frozen=True, slots=True)
class Cell:
    x: str
    kind: Coverage


@dataclass(frozen=True, slots=True)
class Strip:
    name: str
    text_y: int
    y: int
    half_y: int
    line_y: int
    cells: Sequence[Cell]


@dataclass(frozen=True, slots=True)
class CoverageFigure:
    """Coordinates in pixels of the view box; strings, so that no locale writes a decimal comma into SVG."""

    width: int
    height: int
    cell_width: str
    hole_width: str
    ticks: Sequence[tuple[str, str]]
    strips: Sequence[Strip]


def coverage_figure(
    rows: Sequence[tuple[str, Sequence[Day]]], *, width: int, n_days: int, labels: dict[int, str]
) -> CoverageFigure:
    """Coordinates of the coverage strips. A single row has no name and takes the whole width.

    rows: (name, days), of which the last `n_days` are drawn. labels: headings of days, by index from the left.
    """
    left = _LABELS if len(rows) > 1 else 0
    step = (width - left) / n_days
    return CoverageFigure(
        width=width,
        height=_TOP + _ROW * len(rows),
        cell_width=_px(step - _GAP),
        hole_width=_px(step - _GAP - 1.5),
        ticks=[(_px(left + index * step), text) for index, text in labels.items()],
        strips=[_strip(name, days[-n_days:], row, left, step) for row, (name, days) in enumerate(rows)],
    )


def _strip(name: str, days: Sequence[Day], row: int, left: int, step: float) -> Strip:
    y = _TOP + row * _ROW
    shown = shortened(name, _LONGEST_STRIP_NAME)
    cells = [
        Cell(_px(left + index * step + (0.75 if day.state is Coverage.HOLE else 0)), day.state)
        for index, day in enumerate(days)
    ]
    return Strip(shown if left else "", y + 14, y, y + 9, y + 8, cells)


def _px(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
