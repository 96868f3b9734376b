"""Where the circles of the fair line are: how large each is, on which height, and beside which its words have room.

Places along the axis are given; only heights are chosen. They stay the same while days pass, so that circles move along
the axis alone. Pixels are those of a picture as wide as `Room` says; other widths keep the heights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import pi, sqrt

import numpy as np
import numpy.typing as npt

from apps.series.daily_series import F8

PAD = 0.045  # of the width, at both ends of the axis: circles at an end are seen whole
_LEAST_RADIUS = 3.0  # in pixels; a target of 0 has it, too
_MOST_FILLED = 0.15  # of the picture, by all circles together
_APART = 2.0  # pixels between circles
_HALF_LINE = 9.0  # half the height of words
_STEP = 2.0  # pixels between the heights that are tried
_BESIDE = 8.0  # pixels between a circle and its words
_LETTER = 6.7  # pixels of a letter, on average
_MOST_SPREAD = 2.2
_FACTOR_FROM = 18.0  # radius from which the factor has room in its circle


@dataclass(frozen=True, slots=True)
class Room:
    """Pixels of the picture. most_radius: of its largest circle; most_letters: of a name beside a circle."""

    width: float
    height: float
    most_radius: float
    most_letters: int

    def x(self, place: float) -> float:
        """Pixels of a place on the axis, 0..1."""
        return part_of(place) * self.width


WIDE = Room(1080, 420, 34, 26)
NARROW = Room(326, 420, 20, 14)
ROOMS = (WIDE, NARROW)
SMALL_ROOMS = (Room(700, 240, 24, 22), Room(326, 240, 15, 14))  # on the home of a group


@dataclass(frozen=True, slots=True)
class Spot:
    """One circle: height of its middle and radius in pixels. has_words: whether its words have room beside it.

    is_left: words are at its left.
    """

    y: float
    radius: float
    has_words: bool
    is_left: bool

    @property
    def has_factor(self) -> bool:
        return self.radius >= _FACTOR_FROM


def part_of(place: float) -> float:
    """The part of the picture's width, 0..1, of a place on the axis, 0..1."""
    return PAD + place * (1 - 2 * PAD)


def pixels_of_root(target: F8, room: Room) -> float:
    """k in radius = k · √target, so that areas are as targets. target: the largest of each circle, 0..1.

    Limited by the largest circle and by the area of all; without any target 0.
    """
    known = np.nan_to_num(target)
    if not known.size or float(known.max()) <= 0:
        return 0.0
    filled = sqrt(_MOST_FILLED * room.width * room.height / (pi * float(known.sum())))
    return float(min(filled, room.most_radius / sqrt(float(known.max()))))


def radius_of(target: float, root_px: float) -> float:
    """root_px: as from `pixels_of_root`. An unknown target and one of 0 have the smallest circle."""
    return max(root_px * sqrt(target), _LEAST_RADIUS) if target > 0 else _LEAST_RADIUS


def is_at_left(place: float) -> bool:
    """Words are on the side that leads away from the middle of the axis, unless they would leave the picture there."""
    return 0.2 < place < 0.5


def lay_out(
    places: F8, target: F8, root_px: float, words: Sequence[str], order: Sequence[int], room: Room
) -> list[Spot]:
    """Heights of circles without overlap, as far as there is room. In order, those with words come first from the top,
    the others gather below the middle.

    places: on the axis, 0..1, NaN where unknown. words: beside each circle; "" without.
    """
    n = len(places)
    x = np.array([room.x(0.5 if not np.isfinite(place) else float(place)) for place in places])
    radius = np.array([radius_of(float(size), root_px) for size in target])
    left = np.array([is_at_left(float(place)) for place in places], np.bool_)
    width = np.array([len(text) * _LETTER + _BESIDE if text else 0.0 for text in words])
    first = np.where(left, x - radius - width, x + radius)
    last = first + width
    y = np.full(n, np.nan)
    has_words = np.zeros(n, np.bool_)
    placed: list[int] = []
    middle = room.height * (0.66 if any(words) else 0.5)
    for i in order:
        margin = max(float(radius[i]), _HALF_LINE) + _APART
        rows = np.arange(margin, max(room.height - margin, margin) + _STEP, _STEP)
        rows = rows if words[i] else rows[np.argsort(np.abs(rows - middle), kind="stable")]
        others = np.array(placed, np.int64)
        needed = _needed(i, others, x, radius, first, last, has_words, bool(words[i]))
        clear = np.abs(rows[:, None] - y[others][None, :]) - needed[None, :] if others.size else np.ones((len(rows), 1))
        fits = (clear >= 0).all(axis=1)
        at = int(np.argmax(fits)) if fits.any() else int(np.argmax(clear.min(axis=1)))
        y[i] = rows[at]
        has_words[i] = bool(words[i]) and bool(fits.any())
        placed.append(i)
    y = _spread(y, np.maximum(radius, _HALF_LINE) + _APART, room.height)
    columns = zip(y.tolist(), radius.tolist(), has_words.tolist(), left.tolist(), strict=True)
    return [Spot(round(height, 1), round(size, 1), *sides) for height, size, *sides in columns]


def _spread(y: F8, margin: F8, height: float) -> F8:
    """Heights around the middle of the picture, apart by up to `_MOST_SPREAD` times of what they need."""
    if not y.size:
        return y
    middle = float((y - margin).min() + (y + margin).max()) / 2
    away = np.abs(y - middle)
    room = np.divide(height / 2 - margin, away, out=np.full_like(y, _MOST_SPREAD), where=away > 0)
    spread: F8 = height / 2 + (y - middle) * min(max(float(room.min()), 1.0), _MOST_SPREAD)
    return spread


def _needed(
    i: int,
    others: npt.NDArray[np.int64],
    x: F8,
    radius: F8,
    first: F8,
    last: F8,
    has_words: npt.NDArray[np.bool_],
    with_words: bool,
) -> F8:
    """Pixels between the heights of circle i and of each other one, so that neither circles nor words touch."""
    apart = radius[i] + radius[others] + _APART
    needed = np.sqrt(np.maximum(apart**2 - (x[others] - x[i]) ** 2, 0.0))
    own = (x[i] - radius[i], x[i] + radius[i])
    meets = has_words[others] & (first[others] < own[1] + _APART) & (last[others] > own[0] - _APART)
    needed = np.maximum(needed, np.where(meets, radius[i] + _HALF_LINE, 0.0))
    if with_words:
        circles = (x[others] - radius[others] < last[i]) & (x[others] + radius[others] > first[i])
        needed = np.maximum(needed, np.where(circles, radius[others] + _HALF_LINE, 0.0))
        lines = has_words[others] & (first[others] < last[i]) & (last[others] > first[i])
        needed = np.maximum(needed, np.where(lines, 2 * _HALF_LINE, 0.0))
    result: F8 = needed
    return result
