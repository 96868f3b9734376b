"""Figures of a forecast: one level's share, and the factor, in the coming days."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.http import QueryDict
from django.utils.translation import gettext as _

from apps.contrib.forecast.entry_forecast import FactorPoint
from apps.contrib.forecast.selectors import Forecast, ForecastLevel, curve_days
from apps.core.errors import FieldProblem, Invalid
from apps.engine.explain import Recovery, RecoveryRange
from apps.engine.target_state import is_on_target
from apps.priorities.projections import CurvePoint
from apps.priorities.sentences.numbers import clock_text, percent
from apps.priorities.sentences.numbers import factor as factor_text
from apps.web.figures import axes, traces
from apps.web.figures.figure import Column, EndLabel, Figure, Table, Trace
from apps.web.figures.used_and_target import used_text

LEVEL, SHARE = "forecast_level", "share"  # query parameters of the page
_FEW_DAYS = 14  # shorter curves have a point every six hours, longer ones one a day
_LONGEST_FORECAST_QUERY = 200
_STATES = {"over": "$over-mark", "under": "$under-mark", "on": "$level-mark"}


def factor_figure(forecast: Forecast) -> Figure | None:
    """Draw the forecast factor; None where levels decide the order, whose curves show the future."""
    ahead = forecast.factor_ahead
    if ahead is None:
        return None
    title, sentence = _("Factor in the next days"), ahead.sentence
    if not ahead.points:
        table = Table(_factor_columns(), (), ())
        return Figure("factor", title, sentence, (), axes.empty_layout(), table, size="m", empty=sentence, reads=False)
    first, last = ahead.points[0], ahead.points[-1]
    at = [axes.moment(point.at) for point in ahead.points]
    words = [_("factor %(factor)s") % {"factor": factor_text(point.factor)} for point in ahead.points]
    values = axes.rounded([point.factor for point in ahead.points], 6)
    return Figure(
        name="factor",
        title=title,
        note=_("1 is served first, 0 last"),
        sentence=sentence,
        traces=[
            traces.forecast(at, values, name=forecast.account, color="$accent", words=words),
            traces.end_dot(at[0], values[0] or 0.0, color="$accent"),
        ],
        layout={
            "margin": axes.margin(44, 96, 8, 24),
            "xaxis": axes.day_axis(first.at, last.at),
            "yaxis": _axis([point.factor for point in ahead.points]),
        },
        table=_factor_table(ahead.points),
        size="m",
        labels=[EndLabel(last.factor, factor_text(last.factor), color="$accent")],
        file=f"fairshare_{forecast.policy.slug}_factor_ahead_rev{forecast.snapshot.revision}",
        caption=_("%(policy)s, %(account)s, revision %(n)s")
        % {"policy": forecast.policy.name, "account": forecast.path, "n": forecast.snapshot.revision},
    )


def _axis(factors: Sequence[float]) -> dict[str, Any]:
    """Extend the range by a tenth, so that small changes look small."""
    return axes.number_axis(max(min(factors) - 0.1, 0.0), min(max(factors) + 0.1, 1.04))


def _factor_columns() -> tuple[Column, ...]:
    return (Column(_("Day")), Column(_("Days from now")), Column(_("Factor")))


def _factor_table(points: Sequence[FactorPoint]) -> Table:
    """Today first, like the curve."""
    return Table(
        columns=_factor_columns(),
        rows=[
            [
                _day(point.at),
                str(point.days),
                factor_text(point.factor),
            ]
            for point in points
        ],
        raw=[[point.at.isoformat(), point.days, point.factor] for point in points],
        header=("at", "days", "factor"),
    )


@dataclass(frozen=True, slots=True)
class ForecastOptions:
    """level: uid of the level to draw, None for the deciding one. share: 0..1, None for the recent one."""

    level: UUID | None = None
    share: float | None = None


def read_forecast(query: QueryDict) -> ForecastOptions:
    """Parse `?forecast_level=<uid>&share=12.5`, the share in percent. Raises Invalid with the parameter's name."""
    return ForecastOptions(_level(query.get(LEVEL, "")), read_share(query.get(SHARE, "")))


def read_share(text: str) -> float | None:
    """Parse percent to a fraction 0..1; None for an empty text."""
    typed = text[:_LONGEST_FORECAST_QUERY].strip()
    if not typed:
        return None
    try:
        share = float(typed.replace(",", ".", 1).removesuffix("%")) / 100
    except ValueError:
        share = math.nan
    if not 0 <= share <= 1:  # also rejects NaN
        message = _("Enter percent from 0 to 100.")
        raise Invalid(message, fields=[FieldProblem(SHARE, message)])
    return share


def _level(text: str) -> UUID | None:
    try:
        return UUID(text) if text else None
    except ValueError:
        message = _("“%(text)s” is not a level of this account.") % {"text": text[:40]}
        raise Invalid(message, fields=[FieldProblem(LEVEL, message)]) from None


def chosen_level(forecast: Forecast, options: ForecastOptions) -> ForecastLevel | None:
    """Return the requested level, else the deciding one, else the deepest known one."""
    if options.level is not None:
        for level in forecast.levels:
            if level.uid == options.level:
                return level
        message = _("This level is not one of %(account)s.") % {"account": forecast.account}
        raise Invalid(message, fields=[FieldProblem(LEVEL, message)])
    return forecast.shown


def forecast_figure(forecast: Forecast, options: ForecastOptions) -> Figure:
    shown = chosen_level(forecast, options)
    title = _("Forecast") if shown is None else _("Forecast of %(name)s") % {"name": shown.name}
    if shown is None or shown.outlook is None or shown.target is None or shown.actual is None:
        message = _("No data for this account yet.") if shown is None else shown.sentence
        nothing = axes.empty_layout()
        table = Table(_columns(), (), ())
        return Figure("forecast", title, message, (), nothing, table, size="s", empty=message, reads=False)
    past, ahead = _past(forecast, shown), _ahead(forecast, shown)
    first = past[0][0] if past else forecast.as_of
    target = shown.target * 100
    return Figure(
        name="forecast",
        title=title,
        note=_("%% of %(parent)s") % {"parent": shown.parent_name},
        sentence=shown.sentence,
        traces=_traces(forecast, shown, past, ahead),
        layout={
            "margin": axes.margin(44, 96, 8, 24),
            "xaxis": axes.day_axis(first, ahead[-1].at),
            "yaxis": axes.share_axis(
                [target, *(point.most * 100 for point in ahead), *(part * 100 for _at, part in past)]
            ),
            "shapes": [_now(forecast.as_of)],
        },
        table=_table(forecast, shown, past, ahead),
        size="s",
        labels=[
            EndLabel(target, _("target %(target)s") % {"target": percent(shown.target)}, color="$ink"),
            EndLabel(ahead[-1].likely * 100, _("likely %(part)s") % {"part": percent(ahead[-1].likely)}),
        ],
        file=f"fairshare_{forecast.policy.slug}_forecast_{shown.name}_rev{forecast.snapshot.revision}",
        caption=_("%(policy)s, %(account)s, revision %(n)s")
        % {"policy": forecast.policy.name, "account": shown.path, "n": forecast.snapshot.revision},
    )


def _past(forecast: Forecast, shown: ForecastLevel) -> list[tuple[datetime, float]]:
    """Past shares over as many days as the curve ahead, at least 7 and at most 28."""
    back = timedelta(days=min(max(curve_days(shown), 7.0), 28.0))
    return [(at, part) for at, part in shown.past_shares if forecast.as_of - back <= at < forecast.as_of]


def _ahead(forecast: Forecast, shown: ForecastLevel) -> Sequence[CurvePoint]:
    days = math.ceil(curve_days(shown))
    n_points = days * (4 if days <= _FEW_DAYS else 1) + 1
    return shown.curve(forecast.as_of, days, n_points)


def _traces(
    forecast: Forecast, shown: ForecastLevel, past: Sequence[tuple[datetime, float]], ahead: Sequence[CurvePoint]
) -> list[Trace]:
    """Every line with a read-out has all instants, so that keys move from the past into the forecast."""
    target, now = float(shown.target or 0.0), float(shown.actual or 0.0)
    slack = 0.0 if shown.outlook is None else shown.outlook.state.slack
    at = [axes.moment(moment) for moment, _part in past] + [axes.moment(point.at) for point in ahead]
    whole = [at[0], at[-1]]
    x = [axes.moment(point.at) for point in ahead]
    past_percent = [part * 100 for _at, part in past] + [now * 100] + [None] * (len(ahead) - 1)
    likely = [None] * len(past) + [point.likely * 100 for point in ahead]
    known = [_balance(shown.name, part, target, slack) for _at, part in [*past, (forecast.as_of, now)]]
    forecast_text = [""] * (len(past) + 1) + [_forecast_text(point) for point in ahead[1:]]
    lines = [
        traces.forecast(at, axes.rounded(likely, 3), name="", color="$level-mark", words=forecast_text),
        traces.line(
            at,
            axes.rounded(past_percent, 3),
            name="",
            color=_STATES[state_of(shown)],
            words=known + [""] * (len(ahead) - 1),
            width=2,
        ),
    ]
    return [
        *traces.tolerance(whole, [max(target - slack, 0.0) * 100] * 2, [min(target + slack, 1.0) * 100] * 2),
        *traces.fan(x, [point.least * 100 for point in ahead], [point.most * 100 for point in ahead]),
        *traces.fan(x, [point.p25 * 100 for point in ahead], [point.p75 * 100 for point in ahead], is_half=True),
        traces.target(whole, [target * 100] * 2),
        *(line | {"hovertemplate": "%{customdata}<extra></extra>"} for line in lines),
        traces.end_dot(axes.moment(forecast.as_of), now * 100, color=_STATES[state_of(shown)]),
        *_recovery_marks(forecast, shown),
    ]


def _recovery_marks(forecast: Forecast, shown: ForecastLevel) -> list[Trace]:
    """Mark where the band around the target is reached, and a line from the earliest to the latest instant."""
    marked = marked_recovery(shown)
    if marked is None or marked[1].middle.in_s is None:
        return []
    part, times = marked[0] * 100, marked[1]
    drawn = [traces.end_dot(_instant(forecast, times.middle), part, color="$accent")]
    if times.soonest.in_s is not None and times.latest.in_s is not None:
        ends = [_instant(forecast, times.soonest), _instant(forecast, times.latest)]
        line = {"color": "$accent", "width": 3}
        drawn.append(
            {"type": "scatter", "mode": "lines", "x": ends, "y": [part, part], "line": line, **traces.NO_HOVER}
        )
    return drawn


def _instant(forecast: Forecast, recovery: Recovery) -> str:
    return axes.moment(forecast.as_of + timedelta(seconds=recovery.in_s or 0.0))


def marked_recovery(shown: ForecastLevel) -> tuple[float, RecoveryRange] | None:
    """Return the edge of the band around the target that the share reaches, and when; None if it doesn't."""
    outlook = shown.outlook
    if outlook is None or outlook.state.edge is None or not outlook.to_target.middle.in_s:
        return None
    return outlook.state.edge, outlook.to_target


def state_of(shown: ForecastLevel) -> str:
    """Return whether the level is now over, under or on its target."""
    if shown.outlook is None or shown.outlook.state.edge is None:
        return "on"
    return "over" if shown.outlook.state.actual > shown.outlook.state.target else "under"


def _balance(name: str, part: float, target: float, slack: float) -> str:
    state = "on" if is_on_target(part, target, slack) else "off"
    return f"{name}: {used_text(part, target, state, slack)}"


def _forecast_text(point: CurvePoint) -> str:
    return _("most likely %(likely)s, middle half %(half)s, full range %(all)s") % {
        "likely": percent(point.likely),
        "half": _range(point.p25, point.p75),
        "all": _range(point.least, point.most),
    }


def _range(low: float, high: float) -> str:
    first, other = percent(low), percent(high)
    return first if first == other else _("%(first)s to %(last)s") % {"first": first, "last": other}


def _now(as_of: datetime) -> dict[str, Any]:
    at = axes.moment(as_of)
    line = {"color": "$line-strong", "width": 1}
    return {"type": "line", "x0": at, "x1": at, "yref": "paper", "y0": 0, "y1": 1, "layer": "below", "line": line}


def _columns() -> tuple[Column, ...]:
    return (
        Column(_("Day")),
        Column(_("So far")),
        Column(_("Most likely")),
        Column(_("Middle 50 %")),
        Column(_("Full range")),
    )


def _table(
    forecast: Forecast, shown: ForecastLevel, past: Sequence[tuple[datetime, float]], ahead: Sequence[CurvePoint]
) -> Table:
    """Oldest first, like the curve; the present is the last past instant."""
    known = [*past, (forecast.as_of, float(shown.actual or 0.0))]
    rows = [[_day(at), percent(part), "", "", ""] for at, part in known]
    rows += [
        [_day(point.at), "", percent(point.likely), _range(point.p25, point.p75), _range(point.least, point.most)]
        for point in ahead[1:]
    ]
    raw: list[Sequence[Any]] = [[at.isoformat(), part, *[None] * 5, shown.target] for at, part in known]
    raw += [
        [point.at.isoformat(), None, point.likely, point.p25, point.p75, point.least, point.most, shown.target]
        for point in ahead[1:]
    ]
    header = ("at", "so_far", "likely", "quartile_low", "quartile_high", "least", "most", "target")
    return Table(_columns(), rows, raw, header)


def _day(at: datetime) -> str:
    return clock_text(at, "j M, H:i")
