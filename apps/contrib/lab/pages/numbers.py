"""Numbers of simulations as texts: waits, times until usage stays fair, distances in points, estimates."""

from __future__ import annotations

from django.utils.translation import gettext as _

from apps.contrib.lab.experiments.records import Estimate, Headline
from apps.core.counts import counted
from apps.priorities.sentences.numbers import MINUS, NBSP, UNKNOWN, count, number

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


def points_text(points: float | None) -> str:
    """A distance from targets in points: 4.2."""
    return UNKNOWN if points is None else number(points, 1)


def exact_points_text(points: float | None) -> str:
    """A distance of one group, in which two settings may differ by a hundredth: 0.03."""
    return UNKNOWN if points is None else number(points, 2)


def settled_text(headline: Headline) -> str:
    """When the groups stay at fair use: after 3 d, not by the end."""
    return settled_after(headline.settled_h, headline.is_settled)


def settled_after(settled_h: float | None, is_settled: bool | None) -> str:
    if is_settled is False:
        return _("not by the end")
    return UNKNOWN if settled_h is None else _("after %(time)s") % {"time": wait_text(settled_h * _HOUR_S)}


def hours_text(core_hours: float) -> str:
    return number(core_hours, 1 if 0 < core_hours < 10 else 0)


def estimate_text(estimate: Estimate) -> str:
    """What an experiment would need, in one sentence."""
    values = {
        "jobs": counted(estimate.n_jobs, "job"),
        "sites": counted(estimate.n_sites, "site"),
        "runs": counted(estimate.n_runs, "simulation"),
        "time": wait_text(max(1.0, estimate.seconds)),
    }
    return _("About %(jobs)s on %(sites)s, in %(runs)s: %(time)s of processor time.") % values
