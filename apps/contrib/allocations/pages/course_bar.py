"""Coordinates of the bar of one allocation: used, held by open jobs, due by now, and where it ends if use continues.

All amounts are fractions of the allocation, which is 1 and has a line of its own; the scale ends at 125 %. What is
beyond it is cut, and an arrow shows so. Templates write the numbers into SVG attributes.
"""

from __future__ import annotations

from dataclasses import dataclass

WIDTH, REACH = 300, 1.25
_LEAST_USED_WIDTH = 1.5


@dataclass(frozen=True, slots=True)
class CourseBar:
    """Rounded to a tenth of a pixel; None for parts that aren't drawn. css: of the state, as in a bullet."""

    css: str
    width: int
    whole_x: float
    used_width: float | None
    held_x: float | None
    held_width: float | None
    forecast_x: float | None
    forecast_width: float | None
    end_x: float | None
    due_x: float | None
    arrow: str


def draw_course(
    *, css: str, allocated: float, used: float | None, held: float | None, due: float | None, at_end: float | None
) -> CourseBar:
    """An allocation of 0 has no scale: nothing is drawn in it."""
    pixels = (WIDTH - 2) / REACH

    def x(amount: float) -> float:
        return 1 + min(max(amount / allocated, 0.0), REACH) * pixels

    if allocated <= 0:
        return CourseBar(css, WIDTH, round(1 + pixels, 1), None, None, None, None, None, None, None, "")
    used_x = None if used is None else x(used)
    held_x = None if used_x is None or not held else used_x
    held_end = None if held_x is None else x((used or 0.0) + (held or 0.0))
    end_x = None if used_x is None or at_end is None else x(at_end)
    furthest = max(used or 0.0, at_end or 0.0)
    is_cut = furthest > allocated * REACH * (1 + 1e-9)
    return CourseBar(
        css=css,
        width=WIDTH,
        whole_x=round(1 + pixels, 1),
        used_width=None if used_x is None else round(max(used_x - 1, _LEAST_USED_WIDTH if used else 0.0), 1),
        held_x=None if held_x is None else round(held_x, 1),
        held_width=None if held_x is None or held_end is None else round(max(held_end - held_x, _LEAST_USED_WIDTH), 1),
        forecast_x=None if end_x is None or used_x is None else round(used_x, 1),
        forecast_width=None if end_x is None or used_x is None else round(end_x - used_x, 1),
        end_x=None if end_x is None or is_cut else round(end_x, 1),
        due_x=None if due is None else round(x(due), 1),
        arrow=f"M{WIDTH - 7} 5L{WIDTH} 11L{WIDTH - 7} 17Z" if is_cut else "",
    )
