"""Scatter plot of queue time by balance: one dot per day on which own jobs started."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import QueryDict
from django.utils import formats
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.pages.my_priority.numbers.records import MyWaits, PooledWaits, WaitDay
from apps.priorities.sentences.numbers import UNKNOWN, count, number, points_phrase
from apps.web.figures import axes, traces
from apps.web.figures.figure import Column, Control, Figure, Table, Trace, period_choices, read_days

DAYS = "wait_days"  # query parameter of the page
_BY_DEFAULT_DAYS = 90  # fewer have too few started jobs for a line
_HOUR_S, _MINUTE_S = 3600.0, 60.0


@dataclass(frozen=True, slots=True)
class WaitsOptions:
    days: int


def read_waits(query: QueryDict) -> WaitsOptions:
    """Parse `?wait_days=90`. Raises Invalid, with the parameter's name, for another period."""
    return WaitsOptions(read_days(query, DAYS, by_default=_BY_DEFAULT_DAYS))


def waits_figure(waits: MyWaits, options: WaitsOptions, query: QueryDict) -> Figure:
    known = [day for day in waits.days if day.deviation is not None]
    title, controls, table = _("Queue time and balance"), _controls(options, query), _table(waits)
    if not known:
        message = _why_empty(waits, options)
        nothing = axes.empty_layout()
        return Figure(
            "waits", title, message, (), nothing, table, size="s", controls=controls, empty=message, reads=False
        )
    across = [(day.deviation or 0.0) * 100 for day in known]
    hours = [day.median_s / _HOUR_S for day in known]
    x_axis = axes.points_axis(across, most=6)
    top = max([0.1, *hours]) * 1.1
    return Figure(
        name="waits",
        title=title,
        note=_("median hours a day, by %(name)s’s points from target") % {"name": waits.level_name},
        sentence=_sentence(waits),
        traces=[traces.target([0, 0], [0, top]), _dots(known, across, hours)],
        layout={
            "margin": axes.margin(44, 12, 8, 40),
            "hovermode": "closest",
            "xaxis": {
                **x_axis,
                "showspikes": False,
                "title": {"text": _("%(name)s at the start of the day") % {"name": waits.level_name}},
            },
            "yaxis": axes.number_axis(0.0, top, suffix="\u00a0h"),
        },
        table=table,
        size="m",
        controls=controls,
        file=f"fairshare_{waits.policy_slug}_waits_{options.days}d_rev{waits.revision}",
        caption=_("%(policy)s, %(account)s, revision %(n)s")
        % {"policy": waits.policy_name, "account": waits.account, "n": waits.revision},
    )


def _dots(days: list[WaitDay], across: list[float], hours: list[float]) -> Trace:
    """One dot per day, in order of the days, as keys read them."""
    colors = [
        "$over-mark" if deviation > 0 else "$under-mark" if deviation < 0 else "$level-mark" for deviation in across
    ]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "",
        "x": axes.rounded(across, 3),
        "y": axes.rounded(hours, 4),
        "marker": {"color": colors, "size": 8},
        "customdata": [_words(day) for day in days],
        "hovertemplate": "%{customdata}<extra></extra>",
        "meta": {"read": True},
    }


def _words(day: WaitDay) -> str:
    wait = _("Median wait %(time)s") % {"time": duration(day.median_s)}
    return f"{formats.date_format(day.on, 'j M')}: {_jobs(day.n_jobs)}, {wait}, {_balance(day.deviation)}"


def _jobs(n: int) -> str:
    return ngettext("%(n)s job", "%(n)s jobs", n) % {"n": count(n)}


def _balance(deviation: float | None) -> str:
    if deviation is None:
        return UNKNOWN
    if round(deviation * 100, 1) == 0:
        return _("on target")
    words = _("%(n)s over") if deviation > 0 else _("%(n)s under")
    return words % {"n": points_phrase(deviation)}


def duration(seconds: float) -> str:
    """Format a queue time in seconds, minutes, hours or days."""
    if seconds < _MINUTE_S:
        return f"{number(seconds, 0)} s"
    if seconds < _HOUR_S:
        return f"{number(seconds / _MINUTE_S, 0)} min"
    if seconds < 48 * _HOUR_S:
        return f"{number(seconds / _HOUR_S, 1)} h"
    return _("%(n)s d") % {"n": number(seconds / (24 * _HOUR_S), 1)}


def _sentence(waits: MyWaits) -> str:
    """Describe the median wait of all jobs on either side of the target."""
    name, over, under = waits.level_name, waits.over, waits.under
    sentences = []
    if over is not None:
        sentences.append(_("With %(name)s over target, on %(over)s.") % {"name": name, "over": _side(over)})
    if under is not None:
        sentences.append(_("With %(name)s under target, on %(under)s.") % {"name": name, "under": _side(under)})
    return " ".join(sentences) or _("%(name)s was on target whenever your jobs started.") % {"name": name}


def _side(waited: PooledWaits) -> str:
    """Return e.g. "12 days, half of your jobs waited longer than 5.2 h"."""
    if waited.median_s < 1:
        text = ngettext(
            "%(n)s day, half of your jobs started at once",
            "%(n)s days, half of your jobs started at once",
            waited.n_days,
        )
    else:
        text = ngettext(
            "%(n)s day, half of your jobs waited longer than %(wait)s",
            "%(n)s days, half of your jobs waited longer than %(wait)s",
            waited.n_days,
        )
    return text % {"n": count(waited.n_days), "wait": duration(waited.median_s)}


def _why_empty(waits: MyWaits, options: WaitsOptions) -> str:
    if not waits.knows_waits:
        return _("No source reports the submit times of your jobs: waiting times are unknown.")
    if not waits.days:
        return _("None of your jobs started in the last %(n)s days.") % {"n": options.days}
    return _("The balance of past days is not calculated yet; open the convergence page to start it.")


def _table(waits: MyWaits) -> Table:
    """Newest first, including days whose balance is unknown."""
    days = waits.days[::-1]
    return Table(
        columns=(
            Column(_("Day")),
            Column(_("Jobs")),
            Column(_("Median wait")),
            Column(_("Longest wait")),
            Column(_("Balance")),
        ),
        rows=[
            [
                formats.date_format(day.on, "j M Y"),
                count(day.n_jobs),
                duration(day.median_s),
                duration(day.longest_s),
                _balance(day.deviation),
            ]
            for day in days
        ],
        raw=[
            [
                day.on.isoformat(),
                day.n_jobs,
                day.median_s,
                day.longest_s,
                None if day.deviation is None else day.deviation * 100,
            ]
            for day in days
        ],
        header=("day", "jobs", "median_wait_s", "longest_wait_s", "deviation_points"),
    )


def _controls(options: WaitsOptions, query: QueryDict) -> list[Control]:
    return [Control(_("Period"), period_choices(query, DAYS, "wait", options.days))]
