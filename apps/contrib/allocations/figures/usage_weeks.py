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

    weeks: CoreHourWeeks
    shown: Sequence[WeekAmounts]
    colors: dict[str, str]
    totals: Sequence[float]
    is_percent: bool

    def y(self, amounts: WeekAmounts) -> list[float]:
        if not self.is_percent:
            return [round(core_h, 2) for core_h in amounts.core_h]
        return [round(100 * n / of, 2) if of else 0.0 for n, of in zip(amounts.core_h, self.totals, strict=True)]


def usage_weeks(weeks: CoreHourWeeks, query: QueryDict) -> Figure:
    """Draw `?usage_by=site&usage_unit=percent&usage_hide=<key>`. Raises Invalid for options that can't be drawn."""
    by, unit = read_choice(query, BY, SPLITS), read_choice(query, UNIT, UNITS)
    hidden = labels.read_hidden(query, HIDE)
    series = _series(weeks, by)
    named = [amounts for amounts in series if amounts.key != "rest"]
    of_named = labels.colors_of([(0, amounts.place) for amounts in named])
    colors = {"rest": "$level-mark"} | dict(zip((amounts.key for amounts in named), of_named, strict=True))
    shown = [amounts for amounts in series if amounts.key not in hidden] or series
    controls = _controls(query, by, unit, series, colors, {amounts.key for amounts in series if amounts not in shown})
    title = _("Core-hours by week")
    if not any(amounts.total_core_h for amounts in shown):
        return labels.empty_figure("usage", title, weeks, _empty_text(weeks), controls)
    totals = [sum(week) for week in zip(*(amounts.core_h for amounts in shown), strict=True)]
    drawn = _Drawn(weeks, shown, colors, totals, unit == "percent")
    return Figure(
        name="usage",
        title=title,
        note=_note(weeks, drawn.is_percent),
        sentence=_sentence(drawn, by),
        traces=_bars(drawn),
        layout=_layout(drawn),
        table=_table(drawn),
        labels=_labels(drawn),
        controls=controls,
        file=labels.file_of(weeks, f"usage_by-{by}"),
        caption=labels.caption_of(weeks),
    )


def _series(weeks: CoreHourWeeks, by: str) -> list[WeekAmounts]:
    if by == "site":
        return list(weeks.sites)
    return [*weeks.entries, *([weeks.rest] if weeks.rest else [])]


def _bars(drawn: _Drawn) -> list[dict[str, Any]]:
    """One trace per series, the largest at the bottom."""
    # The Monday of each week, also if the period starts later in it, so that all bars have the same width.
    days = [edge.astimezone(drawn.weeks.zone).date() for edge in drawn.weeks.edges[:-1]]
    x = [axes.moment(day - timedelta(days=day.weekday())) for day in days]
    return [
        traces.bars(
            x,
            drawn.y(amounts),
            name=amounts.name,
            color=f"{drawn.colors[amounts.key]}/0.5",
            words=_words(drawn, amounts),
        )
        | {"hovertemplate": f"{amounts.name} %{{customdata}}<extra></extra>"}
        for amounts in _ordered(drawn)
    ]


def _ordered(drawn: _Drawn) -> list[WeekAmounts]:
    return sorted(drawn.shown, key=lambda amounts: (amounts.key == "rest", -amounts.total_core_h))


def _words(drawn: _Drawn, amounts: WeekAmounts) -> list[str]:
    return [
        _("%(n)s core-hours, %(part)s") % {"n": labels.hours(n), "part": percent(n / of if of else 0.0)}
        for n, of in zip(amounts.core_h, drawn.totals, strict=True)
    ]


def _layout(drawn: _Drawn) -> dict[str, Any]:
    days = [edge.astimezone(drawn.weeks.zone).date() for edge in drawn.weeks.edges[:-1]]
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
    base, end_labels = 0.0, []
    for amounts in _ordered(drawn):
        y = drawn.y(amounts)[-1]
        if y > 0:
            amount = percent(y / 100) if drawn.is_percent else axes.short_amount(float(f"{y:.3g}"))
            end_labels.append(EndLabel(base + y / 2, f"{_short(amounts.name)} {amount}", drawn.colors[amounts.key]))
        base += y
    return end_labels


def _short(name: str) -> str:
    return name if len(name) <= 20 else f"{name[:19]}…"


def _note(weeks: CoreHourWeeks, is_percent: bool) -> str:
    unit = _("percent of the core-hours shown") if is_percent else _("core-hours")
    return f"{unit}, {labels.period_text(weeks.period)}"


def _sentence(drawn: _Drawn, by: str) -> str:
    named = [amounts for amounts in drawn.shown if amounts.key != "rest" and amounts.total_core_h]
    largest = max(named or drawn.shown, key=lambda amounts: amounts.total_core_h)  # a remainder is no finding
    total = sum(drawn.totals)
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
    return f"{text} {_not_shown(drawn.weeks)}".strip() if by == "group" else text


def _not_shown(weeks: CoreHourWeeks) -> str:
    if not weeks.n_hidden:
        return ""
    return ngettext(
        "Amounts of one more entry are not shown.", "Amounts of %(n)s more entries are not shown.", weeks.n_hidden
    ) % {"n": weeks.n_hidden}


def _empty_text(weeks: CoreHourWeeks) -> str:
    if not weeks.edges:
        return _("This period has not started.")
    text = _("No visible core-hours in this period.")
    return f"{text} {_not_shown(weeks)}".strip()


def _table(drawn: _Drawn) -> Table:
    days = [edge.astimezone(drawn.weeks.zone).date() for edge in drawn.weeks.edges[:-1]]
    at = range(len(days) - 1, -1, -1)
    shown = _ordered(drawn)
    return Table(
        columns=(Column(_("Week from")), *(Column(amounts.name) for amounts in shown), Column(_("Sum"))),
        rows=[
            [
                labels.day(days[i]),
                *(labels.hours(amounts.core_h[i]) for amounts in shown),
                labels.hours(drawn.totals[i]),
            ]
            for i in at
        ],
        raw=[
            [days[i].isoformat(), *(round(amounts.core_h[i], 6) for amounts in shown), round(drawn.totals[i], 6)]
            for i in at
        ],
        header=("week_from", *(f"{amounts.name} core_h" for amounts in shown), "sum_core_h"),
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
                Choice(f"by-{split}", splits[split], with_changes(query, **{BY: split, HIDE: None}), split == by)
                for split in SPLITS
            ],
        ),
        Control(
            _("Unit"),
            [
                Choice(f"unit-{choice}", units[choice], with_changes(query, **{UNIT: choice}), choice == unit)
                for choice in UNITS
            ],
        ),
        Control(
            _("Shown"),
            labels.chips(query, HIDE, [(amounts.key, amounts.name, colors[amounts.key]) for amounts in series], hidden),
            kind="chips",
        ),
    ]
