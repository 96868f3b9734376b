"""Numbers of simulations as texts: waits, times until usage stays fair, distances in points, estimates."""

from __future__ import annotations

from django.utils.translation import gettext as _

from apps.contrib.lab.experiments.records import Estimate, Headline
from apps.core.counts import counted
from apps.priorities.sentences.numbers import UNKNOWN, number
from apps.priorities.sentences.wait_text import wait_text

_HOUR_S = 3_600


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
        return _("never")
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
