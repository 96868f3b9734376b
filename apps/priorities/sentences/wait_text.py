"""Waits as texts."""

from __future__ import annotations

from apps.priorities.sentences.numbers import MINUS, NBSP, UNKNOWN, count

_DAY_S, _HOUR_S, _MINUTE_S = 86_400, 3_600, 60
_UNITS_S = ((_DAY_S, "d", _HOUR_S, "h"), (_HOUR_S, "h", _MINUTE_S, "min"))


def wait_text(seconds: float | None) -> str:
    """A wait in its two largest units: 40 s, 12 min, 2 h 10 min, 3 d 4 h."""
    if seconds is None:
        return UNKNOWN
    whole = round(seconds)
    if whole < _MINUTE_S:
        return f"{whole}{NBSP}s"
    for size_s, unit, next_s, next_unit in _UNITS_S:
        rounded = round(whole / next_s) * next_s
        if rounded >= size_s:
            rest = rounded % size_s // next_s
            first = f"{count(rounded // size_s)}{NBSP}{unit}"
            return f"{first} {rest}{NBSP}{next_unit}" if rest else first
    return f"{round(whole / _MINUTE_S)}{NBSP}min"


def wait_change(seconds: float | None, seconds_was: float | None) -> str:
    """+12 min, −2 h; "±0" below a second; empty where one is unknown."""
    if seconds is None or seconds_was is None:
        return ""
    change = round(seconds - seconds_was)
    return f"{'+' if change > 0 else MINUS}{wait_text(abs(change))}" if change else "±0"
