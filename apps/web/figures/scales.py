"""Scales that every drawing of a share over time has in common: round tops, days on the axis, margins.

What the server draws and what plotly.js draws take them from here, so that one can replace the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, timedelta
from functools import lru_cache
from math import isfinite

from django.utils import formats
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

LEFT, RIGHT, TOP, BOTTOM = 44, 12, 10, 22  # margins in pixels
LEFT_OF_WORDS = 58  # margin beside ticks such as "10 over"
TOPS = (0.4, 0.8, 1.2, 2, 4, 6, 8, 10, 12, 16, 20, 24, 28, 32, 40, 48, 60, 80, 100)  # a quarter of each is short
_HOURS = (1, 2, 3, 6, 12, 24)
_LEAST_APART = 62  # pixels between two days with a label
_EDGE = (6, 8)  # pixels at the left and the right end without a label
_WEEK = 7
_FIRST_MONDAY = date(2026, 1, 5).toordinal()
_MONTHS = ((30, 1), (61, 2), (92, 3), (183, 6), (366, 12))  # least days, months apart


def top_of(values: Iterable[float | None]) -> float:
    """The smallest round top of an axis from 0 that has room for all values; they and it are in percent or points."""
    most = max((value for value in values if value is not None and isfinite(value)), default=0.0)
    return next((top for top in TOPS if top >= most - 1e-9), TOPS[-1])


def share_ticks(top: float, n: int) -> list[tuple[float, str]]:
    """Values and labels of `n` intervals from 0; the last label has the unit."""
    marks = [top * at / n for at in range(n + 1)]
    return [(mark, f"{round(mark, 2):g}" + ("\u00a0%" if at == n else "")) for at, mark in enumerate(marks)]


def point_ticks(most: float, n: int) -> list[tuple[float, str]]:
    """Values and labels of `n` intervals from `most` points under the target to as many over it."""
    return [(mark, points_text(mark)) for mark in (most * (2 * at / n - 1) for at in range(n + 1))]


def points_text(value: float) -> str:
    if abs(value) < 1e-9:
        return _("target")
    return (_("%(n)s over") if value > 0 else _("%(n)s under")) % {"n": f"{round(abs(value), 2):g}"}


@lru_cache(maxsize=256)
def day_ticks(first: float, last: float, width: int, *, room: float = 1.0) -> Sequence[date]:
    """Days with a label between two ordinals, on `width` pixels. room: part of the width that labels may take.

    Steps are 1 and 2 days, Mondays, every other Monday, and months.
    """
    if not last > first:
        return ()
    px = width / (last - first)
    least_days = _LEAST_APART / (px * room)
    lowest, highest = first + _EDGE[0] / px, last - _EDGE[1] / px
    begins = date.fromordinal(int(first))
    days = [begins + timedelta(days=n) for n in range(int(last) - int(first) + 1)]
    step = next((step for step in (1, 2, _WEEK, 2 * _WEEK) if step >= least_days), 0)
    if step >= _WEEK:
        days = [day for day in days if (day.toordinal() - _FIRST_MONDAY) % step == 0]
    elif step:
        days = days[::step]
    else:
        months = next(
            (months for least, months in _MONTHS if least >= least_days), 12 * max(1, round(least_days / 365))
        )
        days = [day for day in days if day.day == 1 and (day.year * 12 + day.month - 1) % months == 0]
    return tuple(day for day in days if lowest <= day.toordinal() <= highest)


def hour_ticks(first: float, last: float, width: int, *, room: float = 1.0) -> Sequence[float]:
    """Ordinals of full hours with a label between two ordinals; none where only days have room. As `day_ticks`.

    Steps divide the day, so that each midnight is among them.
    """
    if not last > first:
        return ()
    px = width / (last - first)
    widest = next((hours for hours in _HOURS if hours / 24 >= _LEAST_APART / (px * room)), 0)
    lowest, highest = first + _EDGE[0] / px, last - _EDGE[1] / px
    for step in reversed([hours for hours in _HOURS if hours <= widest]):  # smaller where the only ones are at an edge
        every = range(int(first * 24 / step), int(last * 24 / step) + 1)
        if shown := tuple(n * step / 24 for n in every if lowest <= n * step / 24 <= highest):
            return shown
    return ()


def day_text(day: date) -> str:
    return formats.date_format(day, pgettext("a day in a chart", "j M"))
