"""Coordinates of bars: the bullet bar of an entry (actual, target, tolerance) and the meter of an allocated amount.

Templates write them into SVG attributes. A bar of width W maps v to x(v) = 1 + v·(W − 2)/max, clipped to 0..max.
Shares are fractions 0..1; `presentation` formats them as text.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from apps.engine.target_state import slack_of

TREE_WIDTH = 120
PANEL_WIDTH = 288
AGAINST_TARGET = 1.6
SHARE_STEPS = (0.01, 0.02, 0.05, 0.10, 0.15, 0.20, 0.25, 0.30, 0.40, 0.50, 0.60, 0.75, 1.0)
_MIN_BAR = 1.5
_MIN_BAND = 2.0
WIDTH = 64
_REACH = 1.2  # the meter's scale ends at 120 % of the limit


class State(StrEnum):
    """State of an entry compared with its target; the value is the CSS class of its bar."""

    ON = "on"
    OVER = "over"
    UNDER = "under"
    IDLE = "idle"
    NO_DATA = "nodata"


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Half the width of the tolerance band around a target.

    relative: fraction of the target. floor: smallest half-width, as a share of the siblings' total.
    leaves: tolerance of entries without children; None if it is the same.
    """

    relative: float = 0.10
    floor: float = 0.005
    leaves: Tolerance | None = None

    def at(self, is_leaf: bool) -> Tolerance:
        return (is_leaf and self.leaves) or self

    def around(self, target: float) -> float:
        return slack_of(target, {"relative": self.relative, "points": self.floor * 100})

    @property
    def stated(self) -> dict[str, float]:
        """As a policy's settings have it, with percentage points."""
        return {"relative": self.relative, "points": self.floor * 100}


USUAL_TOLERANCE = Tolerance()


@dataclass(frozen=True, slots=True)
class Bullet:
    """Coordinates of one bullet bar, rounded to a tenth of a pixel; None for parts that are not drawn."""

    state: State
    width: int
    track_width: float
    band_x: float | None
    band_width: float | None
    bar_width: float | None
    over_path: str | None
    was_x: float | None
    tick_x: float | None


def share_scale(pairs: Iterable[tuple[float, float]], tolerance: Tolerance = USUAL_TOLERANCE) -> float:
    """Smallest step of SHARE_STEPS that holds every actual and every target + tolerance of these siblings.

    pairs: (actual, target) of each.
    """
    return scale_for(max((max(actual, target + tolerance.around(target)) for actual, target in pairs), default=1.0))


def scale_for(needed: float) -> float:
    """Smallest step of SHARE_STEPS that is at least `needed`, a fraction of 1."""
    return next((step for step in SHARE_STEPS if step >= needed - 1e-12), 1.0)


def differ_tenfold(targets: Iterable[float]) -> bool:
    """Whether the largest target is more than ten times the smallest, so that a common scale would hide small bars."""
    positive = [target for target in targets if target > 0]
    return len(positive) > 1 and max(positive) > 10 * min(positive)


def against_target(target: float) -> float:
    """Maximum of a scale that ends at 160 % of the target, so that all targets are drawn at the same x."""
    return AGAINST_TARGET * target if target > 0 else SHARE_STEPS[0]


def draw(
    *,
    actual: float | None,
    target: float | None,
    maximum: float,
    state: State,
    width: int = TREE_WIDTH,
    before: float | None = None,
    tolerance: Tolerance = USUAL_TOLERANCE,
) -> Bullet:
    """Coordinates of one bar. before: the target in the revision that a draft is based on, drawn as a second tick."""
    pixels = (width - 2) / maximum

    def x(value: float) -> float:
        return 1 + min(max(value, 0.0), maximum) * pixels

    band_x = band_width = tick_x = bar_width = over_path = None
    if target is not None:
        slack = tolerance.around(target)
        left, right = x(target - slack), x(target + slack)
        band_width = round(max(right - left, _MIN_BAND), 1)
        band_x = min(round(left, 1), round(width - 1 - band_width, 1))
        tick_x = round(x(target) - 1, 1)
    if actual is not None and state is not State.NO_DATA:
        bar_width = round(max(x(actual) - 1, _MIN_BAR), 1)
        if actual > maximum * (1 + 1e-9):
            over_path = f"M{width - 6} 2L{width} 8L{width - 6} 14Z"
    was_x = round(x(before) - 1, 1) if before is not None else None
    return Bullet(state, width, width - 2, band_x, band_width, bar_width, over_path, was_x, tick_x)


@dataclass(frozen=True, slots=True)
class Meter:
    """Coordinates of one meter. more_width: of the part beyond the limit, None if the limit isn't exceeded."""

    width: int
    track_width: int
    bar_width: float
    more_x: float
    more_width: float | None
    tick_x: float


def draw_meter(part: float) -> Meter:
    """Coordinates of a meter. part: amount divided by its limit; 1 is the limit."""
    pixels = (WIDTH - 2) / _REACH
    within, beyond = min(max(part, 0.0), 1.0), min(max(part - 1, 0.0), _REACH - 1)
    return Meter(
        width=WIDTH,
        track_width=WIDTH - 2,
        bar_width=round(within * pixels, 1),
        more_x=round(1 + pixels, 1),
        more_width=round(max(beyond * pixels, 1.5), 1) if beyond > 0 else None,
        tick_x=round(pixels, 1),
    )
