"""Meter of an age against the age from which it counts as late; all meters have that tick at the same position."""

from __future__ import annotations

from dataclasses import dataclass

_WIDTH = 74.0
_LEAST_BAR_WIDTH = 1.5  # a bar that can be seen


@dataclass(frozen=True, slots=True)
class AgeMeter:
    """bar: its width in pixels, as SVG has it."""

    bar: str
    is_late: bool


def draw_age_meter(part: float, *, tick: float) -> AgeMeter:
    """part: the age divided by the allowed one. tick: position of the allowed age, in pixels."""
    return AgeMeter(f"{max(_LEAST_BAR_WIDTH, min(part * tick, _WIDTH)):.1f}", is_late=part > 1)
