"""Figure of core-hours by week as stacked bars: by child of an entry, or by the site that delivered them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.contrib.allocations.core_hour_weeks import CoreHourWeeks, WeekAmounts
from apps.contrib.allocations.figures import labels
from apps.priorities.sentences.numbers import percent
from apps.web.figures import axes, traces
from apps.web.figures.figure import Choice, Column, Control, EndLabel, Figure, Table, read_choice, with_changes

BY, UNIT, HIDE = "usage_by", "usage_unit", "usage_hide"  # query parameters of the page
SPLITS = ("group", "site")
UNITS = ("core-hours", "percent")


@dataclass(frozen=True)
class _Drawn:
    """Data of the picture. shown: series that aren't hidden."""

    found: CoreHourWeeks
    shown: Sequence[WeekAmounts]
    colors: dict[str, str]
    totals: Sequence[float]
    is_percent: bool

    def y(self, one: WeekAmounts) -> list[float]:
        if not self.is_percent:
            return [round(core_h, 2) for core_h in one.core_h]
        return [round(100 * n / of, 2) if of else 0.0 for n, of in zip(one.core_h, self.totals, strict=True)]


def usage_weeks(found: CoreHourWeeks, query: QueryDict) -> Figure:
    """Draw `?usage_by=site&usage_unit=percent&usage_hide=<key>`. Raises Invalid for options that can't be drawn."""
    by, unit = read_choice(query, BY, SPLITS), read_choice(query, UNIT, UNITS)
    hidden = labels.read_hidden(query, HIDE)
    series = _series(found, by)
    named = [one for one in series if one.key != "rest"]
    of_named = labels.colors_of([(0, one.place) for one in named])
    colors = {"rest": "$level-mark"} | dict(zip((one.key for one in named), of_named, strict=True))
    shown = [one for one in series if one.key not in hidden] or series
    controls = _controls(query, by, unit, series, colors, {one.key for one in series if one not in shown})
    title = _("Core-hours by week")
    if not any(one.total_core_h for one in shown):
        return labels.empty_figure("usage", title, found, _empty_text(found), controls)
    totals = [sum(week) for week in zip(*(one.core_h for one in shown), strict=True)]
    drawn = _Drawn(found, shown, colors, totals, unit == "percent")
    return Figure(
        name="usage",
        title=title,
        note=_note(found, drawn.is_percent),
        sentence=_sentence(drawn, by),
        traces=_bars(drawn),
        layout=_layout(drawn),
        table=_table(drawn),
        labels=_labels(drawn),
        controls=controls,
        file=labels.file_of(found, f"usage_by-{by}"),
        caption=labels.caption_of(found),
    )


def _series(found: CoreHourWeeks, by: str) -> list[WeekAmounts]:
    if by == "site":
        return list(found.sites)
    return [*found.entries, *([found.rest] if found.rest else [])]


def _bars(drawn: _Drawn) -> list[dict[str, Any]]:
    """One trace per series, the largest at the bottom."""
    # The Monday of each week, also if the period starts later in it, so that all bars have the same width.
    days = [edge.astimezone(drawn.found.zone).date() for edge in drawn.found.edges[:-1]]
    x = [axes.moment(day - timedelta(days=day.weekday())) for day in days]
    return [
        traces.bars(x, drawn.y(one), name=one.name, color=f"{drawn.colors[one.key]}/0.5", words=_words(drawn, one))
        | {"hovertemplate": f"{one.name} %{{customdata}}<extra></extra>"}
        for one in _ordered(drawn)
    ]


def _ordered(drawn: _Drawn) -> list[WeekAmounts]:
    return sorted(drawn.shown, key=lambda one: (one.key == "rest", -one.total_core_h))


def _words(drawn: _Drawn, one: WeekAmounts) -> list[str]:
    return [
        _("%(n)s core-hours, %(part)s") % {"n": labels.hours(n), "part": percent(n / of if of else 0.0)}
        for n, of in zip(one.core_h, drawn.totals, strict=True)
    ]


def _layout(drawn: _Drawn) -> dict[str, Any]:
    days = [edge.astimezone(drawn.found.zone).date() for edge in drawn.found.edges[:-1]]
    first, last = (day - timedelta(days=day.weekday()) for day in (days[0], days[-1]))
    x = axes.day_axis(first - timedelta(days=4), last + timedelta(days=3))
    y = axes.share_axis([100.0], whole=True) if drawn.is_percent else axes.amount_axis(drawn.totals)
    return {
        "margin": axes.margin(44, 206, 8, 24),
        "barmode": "stack",
        "bargap": 0.22,
        "xaxis": {**x, "showspikes": False, "unifiedhovertitle": {"text": _("Week of %{x|%-d %b %Y}")}},
        "yaxis": y,
    }


def _labels(drawn: _Drawn) -> list[EndLabel]:
    """Labels at the middle of each segment of the last bar; none for empty segments."""
    base, found = 0.0, []
    for one in _ordered(drawn):
        y = drawn.y(one)[-1]
        if y > 0:
            amount = percent(y / 100) if drawn.is_percent else axes.short_amount(float(f"{y:.3g}"))
            found.append(EndLabel(base + y / 2, f"{_short(one.name)} {amount}", drawn.colors[one.key]))
        base += y
    return found


def _short(name: str) -> str:
    return name if len(name) <= 20 else f"{name[:19]}…"


def _note(found: CoreHourWeeks, is_percent: bool) -> str:
    unit = _("percent of the core-hours shown") if is_percent else _("core-hours")
    return f"{unit}, {labels.period_text(found.period)}"


def _sentence(drawn: _Drawn, by: str) -> str:
    largest, total = max(drawn.shown, key=lambda one: one.total_core_h), sum(drawn.totals)
    n = len(drawn.totals)
    text = ngettext(
        "%(name)s %(did)s the most: %(n)s of the %(total)s core-hours shown, in %(weeks)s week (%(part)s).",
        "%(name)s %(did)s the most: %(n)s of the %(total)s core-hours shown, in %(weeks)s weeks (%(part)s).",
        n,
    ) % {
        "name": largest.name,
        "did": _("delivered") if by == "site" else _("used"),
        "n": labels.hours(largest.total_core_h),
        "total": labels.hours(total),
        "weeks": n,
        "part": percent(largest.total_core_h / total),
    }
    return f"{text} {_not_shown(drawn.found)}".strip() if by == "group" else text


def _not_shown(found: CoreHourWeeks) -> str:
    if not found.n_hidden:
        return ""
    return ngettext(
        "Amounts of one more entry are not shown.", "Amounts of %(n)s more entries are not shown.", found.n_hidden
    ) % {"n": found.n_hidden}


def _empty_text(found: CoreHourWeeks) -> str:
    if not found.edges:
        return _("This period has not started.")
    text = _("No visible core-hours in this period.")
    return f"{text} {_not_shown(found)}".strip()


def _table(drawn: _Drawn) -> Table:
    days = [edge.astimezone(drawn.found.zone).date() for edge in drawn.found.edges[:-1]]
    at = range(len(days) - 1, -1, -1)
    shown = _ordered(drawn)
    return Table(
        columns=(Column(_("Week from")), *(Column(one.name) for one in shown), Column(_("Sum"))),
        rows=[
            [labels.day(days[i]), *(labels.hours(one.core_h[i]) for one in shown), labels.hours(drawn.totals[i])]
            for i in at
        ],
        raw=[[days[i].isoformat(), *(round(one.core_h[i], 6) for one in shown), round(drawn.totals[i], 6)] for i in at],
        header=("week_from", *(f"{one.name} core_h" for one in shown), "sum_core_h"),
    )


def _controls(
    query: QueryDict, by: str, unit: str, series: Sequence[WeekAmounts], colors: dict[str, str], hidden: set[str]
) -> list[Control]:
    splits = {"group": _("By group"), "site": _("By site")}
    units = {"core-hours": _("Core-hours"), "percent": _("Percent")}
    return [
        Control(
            _("Split"),
            [
                Choice(f"by-{one}", splits[one], with_changes(query, **{BY: one, HIDE: None}), one == by)
                for one in SPLITS
            ],
        ),
        Control(
            _("Unit"),
            [Choice(f"unit-{one}", units[one], with_changes(query, **{UNIT: one}), one == unit) for one in UNITS],
        ),
        Control(
            _("Shown"),
            labels.chips(query, HIDE, [(one.key, one.name, colors[one.key]) for one in series], hidden),
            kind="chips",
        ),
    ]
