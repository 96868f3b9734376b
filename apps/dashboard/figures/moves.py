"""A change in pictures: before and after of entries, and how many leaves move how far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

# --- Before and after -------------------------------------------------------------------------------------------------
SCALES = (1, 2, 5, 10, 15, 20, 25, 30, 40, 50, 60, 75, 100)
ROW = 30
_NAME_WIDTH = 190
_VALUE_WIDTH = 84


@dataclass(frozen=True, slots=True)
class Row:
    """One entry; an end that isn't there has no dot. `y` is the middle of the row."""

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
    """A drawing for one width; text is written at its own size, so it is drawn for the width it gets."""

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
    """lines: (name, value, before, after), fractions 0..1 or None. Narrow: names stand above their line."""
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


# --- Moves of ranks ---------------------------------------------------------------------------------------------------
_WIDTH = 160


@dataclass(frozen=True, slots=True)
class Bar:
    """`step` as in ReviewPage.histogram; the width is of the most frequent one's."""

    step: int
    n: int
    width: float


def draw_moves(histogram: Sequence[tuple[int, int]]) -> list[Bar]:
    """Forward first, as a rank list reads."""
    most = max((n for _, n in histogram), default=0)
    return [Bar(step, n, round(_WIDTH * n / most, 1) if most else 0.0) for step, n in reversed(histogram)]
