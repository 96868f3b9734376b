"""A statement computed slowly: one day after the other, in plain numbers. What the product says must agree with it."""

from __future__ import annotations

import calendar
from datetime import date

from apps.series.daily_series import DailySeries


def slow_statement(series: DailySeries, row: int, year: int, month: int) -> dict[str, float]:
    found = dict.fromkeys(("entitled", "used", "lent", "missed", "unclear", "borrowed"), 0.0)
    for day in range(1, calendar.monthrange(year, month)[1] + 1):
        on = date(year, month, day)
        if on not in series.days.on:
            continue
        at = series.days.on.index(on)
        if not (series.exists[row, at] and series.competes[row, at]):
            continue
        entitled = float(series.target[row, at]) * float(series.peers_used[row, at])
        used = float(series.used[row, at])
        found["entitled"] += entitled
        found["used"] += used
        if used > entitled:
            found["borrowed"] += used - entitled
        elif series.waited_core_s[row, at] > 0:
            found["missed"] += entitled - used
        elif not series.knows_waiting[row, at] and used > 0:
            found["unclear"] += entitled - used
        else:
            found["lent"] += entitled - used
    return found
