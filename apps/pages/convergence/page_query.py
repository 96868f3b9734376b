"""Query string of a convergence page (period, method, overlays): reading it, and the same with one change."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest
from django.utils.translation import gettext as _

from apps.core.errors import Invalid
from apps.pages.convergence.figures.options import ALL, HOUR, TODAY, is_by_hour, read_page_period, read_share_method_of
from apps.pages.convergence.figures.options import NAMES as FOCUS_NAMES
from apps.series.convergence.query import (
    DEFAULT_DAYS,
    DEFAULT_WINDOW_DAYS,
    PARENT,
    TOTAL,
    WINDOWED,
    Period,
    ShareMethod,
    default_period,
    reject_windowed,
    today_of,
)
from apps.series.daily_series import SeriesState

OVERLAYS = ("band", "changes", "demand", "gaps")


@dataclass(frozen=True)
class PageQuery:
    """The requested view. last: the chosen preset, or "" for two dates.

    problem: why the default period is shown instead; problem_at: the parameter that it is about.
    """

    period: Period
    method: ShareMethod
    last: str
    overlays: tuple[str, ...]
    problem: str = ""
    problem_at: str = ""
    against_today: bool = False
    by_hour: bool = False
    kept: tuple[tuple[str, str], ...] = ()  # query of the comparison figure, unchanged by other choices

    def shows(self, overlay: str) -> bool:
        return overlay in self.overlays

    def query(self, **changes: Any) -> str:
        """Query string of this view with `changes`; default values are left out."""
        method = replace(self.method, **{name: changes[name] for name in ("view", "of") if name in changes})
        last = changes.get("last", self.last)
        params: dict[str, Any] = {}
        if changes.get("by_hour", self.by_hour and "last" not in changes):
            params["step"] = HOUR
        elif last:
            params |= {} if last == str(DEFAULT_DAYS) else {"days": last}
        else:
            params |= {"from": self.period.from_on.isoformat(), "to": self.period.to_on.isoformat()}
        usual = ShareMethod()
        params |= {} if method.view == usual.view else {"view": method.view}
        params |= {} if method.of == usual.of else {"of": method.of}
        if method.view == WINDOWED and method.window_days != DEFAULT_WINDOW_DAYS:
            params["window"] = method.window_days
        if set(self.overlays) != set(OVERLAYS):
            params["overlay"] = list(self.overlays) or ["none"]
        if changes.get("against_today", self.against_today):
            params["measure"] = TODAY
        if "page" in changes:
            params["page"] = changes["page"]
        return urlencode([*params.items(), *self.kept], doseq=True)


def read_page_query(request: HttpRequest, state: SeriesState, now: datetime) -> PageQuery:
    """The requested view; the default view and a problem if the query string can't be read."""
    here, params = today_of(now), request.GET
    chosen = tuple(params.getlist("overlay"))
    overlays = tuple(name for name in OVERLAYS if name in chosen) if chosen else OVERLAYS
    by_hour = is_by_hour(params, state)
    kept = tuple((name, value) for name in FOCUS_NAMES for value in params.getlist(name))
    try:
        method = read_share_method_of(params)
        if by_hour:
            reject_windowed(method)
        period, last = read_page_period(params, state, here)
    except Invalid as problem:
        usual = default_period(state, here)
        where = problem.fields[0].where if problem.fields else ""
        return PageQuery(
            usual, ShareMethod(), str(DEFAULT_DAYS), overlays, problem.message, where, by_hour=by_hour, kept=kept
        )
    is_today = params.get("measure") == TODAY and not by_hour
    return PageQuery(period, method, last, overlays, against_today=is_today, by_hour=by_hour, kept=kept)


@dataclass(frozen=True, slots=True)
class Choice:
    label: str
    query: str
    is_chosen: bool


def periods(requested: PageQuery) -> list[Choice]:
    labels = {"7": _("7 d"), "30": _("30 d"), "90": _("90 d"), "365": _("1 y"), ALL: _("all")}
    by_hour = Choice(_("7 d by hour"), requested.query(by_hour=True), requested.by_hour)
    days = [
        Choice(label, requested.query(last=last), requested.last == last and not requested.by_hour)
        for last, label in labels.items()
    ]
    return [by_hour, *days]


def method_choices(requested: PageQuery) -> list[Choice]:
    labels = {"decayed": _("Decayed"), "windowed": _("Windowed"), "raw": _("Raw")}
    if requested.by_hour:
        del labels[WINDOWED]
    return [Choice(label, requested.query(view=view), requested.method.view == view) for view, label in labels.items()]


def total_choices(requested: PageQuery) -> list[Choice]:
    labels = {PARENT: _("of parent"), TOTAL: _("of total")}
    return [Choice(label, requested.query(of=of), requested.method.of == of) for of, label in labels.items()]


def overlay_choices(requested: PageQuery) -> list[tuple[str, str, bool]]:
    labels = {
        "band": _("Tolerance"),
        "changes": _("Published changes"),
        "demand": _("Demand"),
        "gaps": _("Missing data"),
    }
    return [(name, label, requested.shows(name)) for name, label in labels.items()]
