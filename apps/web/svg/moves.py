"""Coordinates of the figures of a change: targets of entries before and after, and a histogram of rank moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SCALES = (1, 2, 5, 10, 15, 20, 25, 30, 40, 50, 60, 75, 100)
ROW = 30
_NAME_WIDTH = 190
_VALUE_WIDTH = 84
_WIDTH = 160


@dataclass(frozen=True, slots=True)
class Row:
    """One entry. before_x and after_x are None if the entry doesn't exist then. y: the middle of the row."""

    name: str
    value: str
    y: int
    text_y: int
    before_x: float | None
    after_x: float | None
    from_x: float
    to_x: float
    gains: bool


@dataclass(frozen=True, slots=True)
class Tick:
    x: float
    label: str
    anchor: str


@dataclass(frozen=True)
class Dumbbell:
    """Coordinates for one width: its text isn't scaled, so each page width has a drawing of its own."""

    width: int
    height: int
    top: int
    ticks: tuple[Tick, ...]
    rows: tuple[Row, ...]
    value_x: int
    is_narrow: bool


def draw_dumbbell(
    lines: Sequence[tuple[str, str, float | None, float | None]], *, width: int, narrow: bool = False
) -> Dumbbell:
    """Coordinates of a dumbbell chart.

    lines: (name, value, before, after) of each entry; before and after are fractions 0..1 or None.
    narrow: names are drawn above their line instead of beside it.
    """
    most = max((value for *_, old, new in lines for value in (old, new) if value is not None), default=0.0) * 100
    maximum = next((scale for scale in SCALES if scale >= most), 100)
    left, right = (6, width - 10) if narrow else (_NAME_WIDTH, width - _VALUE_WIDTH)
    step, top = (46, 22) if narrow else (ROW, 24)

    def x(fraction: float) -> float:
        return round(left + (right - left) * min(fraction * 100 / maximum, 1.0), 1)

    rows = []
    for n, (name, value, old, new) in enumerate(lines):
        y = top + n * step + (32 if narrow else 15)
        rows.append(
            Row(
                name=name,
                value=value,
                y=y,
                text_y=y - 13 if narrow else y + 4,
                before_x=None if old is None else x(old),
                after_x=None if new is None else x(new),
                from_x=x(old or 0.0),
                to_x=x(new or 0.0),
                gains=(new or 0.0) > (old or 0.0),
            )
        )
    ticks = [
        Tick(x(part * maximum / 500), _tick(part * maximum / 5, is_last=part == 5), _anchor(part, narrow=narrow))
        for part in range(6)
    ]
    height = top + len(lines) * step + 6
    return Dumbbell(width, height, top, tuple(ticks), tuple(rows), width - 2, narrow)


def _tick(value: float, *, is_last: bool) -> str:
    return f"{value:g}" + ("\u00a0%" if is_last else "")


def _anchor(part: int, *, narrow: bool) -> str:
    if narrow and part in (0, 5):
        return "start" if part == 0 else "end"
    return "middle"


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar of the histogram. step: as in ReviewPage.histogram. width: in proportion to the most frequent step."""

    step: int
    n: int
    width: float


def draw_moves(histogram: Sequence[tuple[int, int]]) -> list[Bar]:
    """Bars of a histogram of rank moves: moves to a better rank first."""
    most = max((n for _, n in histogram), default=0)
    return [Bar(step, n, round(_WIDTH * n / most, 1) if most else 0.0) for step, n in reversed(histogram)]
