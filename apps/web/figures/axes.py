"""Axes of figures as plotly.js layouts: ranges that fit the data, a few round ticks, and words instead of signs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from math import ceil, floor, isfinite, log10
from typing import Any

import numpy as np
import numpy.typing as npt
from django.utils import timezone
from django.utils.translation import gettext as _

from apps.priorities.sentences.numbers import NBSP

_FEW_DAYS = 3
_DAY = "%-d %b"  # of D3: 6 Nov
_NEAR_TIE = 1e-6  # distance from a rounding tie below which a value is rounded exactly
_MOST_SCALED = 1e9  # up to here the rounding error of value × 10^digits is far below _NEAR_TIE


def margin(left: int = 44, right: int = 12, top: int = 8, bottom: int = 24) -> dict[str, int]:
    """Return the margins around the picture in pixels."""
    return {"l": left, "r": right, "t": top, "b": bottom}


def ticks(low: float, high: float, most: int) -> list[float]:
    """Return round values within low..high, at most `most` + 1 of them, in steps of 1, 2 or 5 times a power of ten."""
    span = high - low
    if not span > 0:
        return [low]
    power = 10.0 ** floor(log10(span / most))
    step = next(power * factor for factor in (1, 2, 5, 10) if span / (power * factor) <= most)
    n_first, n_last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
    return [round(n * step, 12) + 0.0 for n in range(n_first, n_last + 1)]


def share_axis(values: Iterable[float | None], *, whole: bool = False) -> dict[str, Any]:
    """Axis of percents from zero. whole: up to 100."""
    high = 100.0 if whole else max([1.0, *_known(values)]) * 1.06
    marks = ticks(0.0, min(high, 100.0), 5)
    texts = [f"{mark:g}" for mark in marks[:-1]] + [f"{marks[-1]:g}\u00a0%"]
    return {"range": [0, high], "tickvals": marks, "ticktext": texts}


def points_axis(values: Iterable[float | None], *, most: int = 5) -> dict[str, Any]:
    """Axis of points from target, with "over" and "under" in words."""
    known = [0.0, *_known(values)]
    low, high = min(known), max(known)
    pad = max((high - low) * 0.06, 0.5)
    low, high = low - pad, high + pad
    marks = ticks(low, high, most)
    return {"range": [low, high], "tickvals": marks, "ticktext": [points_text(mark) for mark in marks]}


def points_text(value: float) -> str:
    if value == 0:
        return _("target")
    return (_("%(n)s over") if value > 0 else _("%(n)s under")) % {"n": f"{abs(value):g}"}


def amount_axis(values: Iterable[float | None], *, most: int = 5) -> dict[str, Any]:
    """Axis of amounts from zero, with ticks such as 390 k and 1.7 M."""
    high = max([1.0, *_known(values)]) * 1.06
    marks = ticks(0.0, high, most)
    return {"range": [0, high], "tickvals": marks, "ticktext": [short_amount(mark) for mark in marks]}


def short_amount(value: float) -> str:
    for size, sign in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}\u00a0{sign}"
    return f"{value:g}"


def number_axis(low: float, high: float, *, most: int = 5, suffix: str = "") -> dict[str, Any]:
    marks = ticks(low, high, most)
    return {"range": [low, high], "tickvals": marks, "ticktext": [f"{mark:g}{suffix}" for mark in marks]}


def day_axis(first: date, last: date, *, few: bool = False) -> dict[str, Any]:
    """Axis of days or hours, with one more step at the right so that the last point is clear of the edge.

    A few days have at most one tick each, and hours of a few days are clock times: otherwise dates would be repeated.
    Clock times have their zone: the last tick, and the head of the read-out.
    """
    n_days, usual = (last - first).days, 4 if few else 7
    if not isinstance(first, datetime) or not isinstance(last, datetime):
        return {
            "type": "date",
            "range": [moment(first), moment(last + timedelta(days=1))],
            "tickformat": _DAY,
            "hoverformat": f"%a {_DAY} %Y",
            "nticks": min(usual, n_days + 1),
        }
    zone, are_ticks_times = zone_text(first, last), n_days < _FEW_DAYS
    return {
        "type": "date",
        "range": [moment(first), moment(last + timedelta(hours=1))],
        "tickformat": "%H:%M" if are_ticks_times else _DAY,
        "hoverformat": f"%a {_DAY} %Y, %H:%M",
        "unifiedhovertitle": {"text": f"%{{x|%a {_DAY} %Y, %H:%M}}{NBSP}{zone}"},
        "nticks": usual,
        **({"ticksuffix": NBSP + zone, "showticksuffix": "last"} if are_ticks_times else {}),
    }


def zone_text(first: datetime, last: datetime) -> str:
    """The zone of the page at two instants: CET, or CEST/CET where clocks are put back between them."""
    return "/".join(dict.fromkeys(f"{timezone.localtime(at):%Z}" for at in (first, last)))


def moment(at: date) -> str:
    """Format a value of a time axis for plotly.js: a day, or an instant in the zone of the page."""
    if not isinstance(at, datetime):
        return at.isoformat()
    return (timezone.localtime(at) if timezone.is_aware(at) else at).strftime("%Y-%m-%d %H:%M")


def rounded(values: Sequence[float | None] | npt.NDArray[np.float64], digits: int) -> list[float | None]:
    """Round as `round` does; unknown values become None, a gap in the line."""
    exact = np.asarray(values, np.float64)
    known = np.isfinite(exact)
    scaled = np.where(known, exact, 0.0) * 10.0**digits
    numbers: list[float | None] = (np.rint(scaled) / 10.0**digits).tolist()
    ties = np.abs(np.abs(scaled - np.rint(scaled)) - 0.5) < _NEAR_TIE
    for at in np.flatnonzero(known & (ties | (np.abs(scaled) > _MOST_SCALED))):
        numbers[at] = round(float(exact[at]), digits)  # from the unscaled value, which has all digits
    for at in np.flatnonzero(~known):
        numbers[at] = None
    return numbers


def empty_layout() -> dict[str, Any]:
    """Layout of a figure without data."""
    return {"margin": margin(), "xaxis": {"range": [0, 1]}, "yaxis": {"range": [0, 1]}}


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None and isfinite(value)]
