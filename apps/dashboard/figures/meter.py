"""Geometry of the meter: how much of an amount is handed out, and how much too much. Numbers in, coordinates out."""

from __future__ import annotations

from dataclasses import dataclass

WIDTH = 64
_REACH = 1.2  # the meter ends at 120 % of the limit


@dataclass(frozen=True, slots=True)
class Meter:
    """Coordinates of one meter; `more` is the part beyond the limit, None where there is none."""

    width: int
    track_width: int
    bar_width: float
    more_x: float
    more_width: float | None
    tick_x: float


def draw_meter(part: float, *, width: int = WIDTH) -> Meter:
    """part: of the limit, 1 where it is reached."""
    pixels = (width - 2) / _REACH
    within, beyond = min(max(part, 0.0), 1.0), min(max(part - 1, 0.0), _REACH - 1)
    return Meter(
        width=width,
        track_width=width - 2,
        bar_width=round(within * pixels, 1),
        more_x=round(1 + pixels, 1),
        more_width=round(max(beyond * pixels, 1.5), 1) if beyond > 0 else None,
        tick_x=round(pixels, 1),
    )
