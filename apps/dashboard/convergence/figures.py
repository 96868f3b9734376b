"""The figures on top of a convergence page, in words."""

from __future__ import annotations

from dataclasses import dataclass
from math import isinf

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.analytics.convergence.records import Convergence
from apps.dashboard.shell import presentation


@dataclass(frozen=True, slots=True)
class Kpi:
    label: str
    value: str
    note: str


def kpis(found: Convergence) -> list[Kpi]:
    """Mean deviation, time inside the band, half-time to target after the last change, share given away."""
    figures = found.figures
    mean = presentation.UNKNOWN if figures.mean_deviation is None else presentation.points(figures.mean_deviation)
    n_days = found.n_over
    last = ngettext("of the last day", "of the last %(n)s days", n_days) % {"n": presentation.count(n_days)}
    return [
        Kpi(_("Mean deviation"), mean, _("pts, share-weighted")),
        Kpi(_("Time within tolerance"), presentation.percent(figures.inside, 0), last),
        Kpi(_("Half-life of the deviation"), *_half_time(found)),
        Kpi(_("Idle share redistributed"), presentation.percent(figures.idle_given), _given_of(found)),
    ]


def _half_time(found: Convergence) -> tuple[str, str]:
    days, number = found.figures.half_time_days, found.figures.half_time_revision
    if days is None:
        return presentation.UNKNOWN, _("nothing changed in this period")
    after = _("after revision %(n)s") % {"n": number}
    if isinf(days):
        return _("not yet"), after
    return ngettext("%(n)s day", "%(n)s days", 1 if days == 1 else 2) % {"n": f"{days:.3g}"}, after


def _given_of(found: Convergence) -> str:
    return _("of the policy") if not found.way else _("of %(name)s") % {"name": found.entry.name}
