"""Figure of one day: minutes from the usage to the scheduler, pass by pass, beside the limit that freezes the agent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.contrib.schedulers.lag import HOURS, PassLag
from apps.contrib.schedulers.models import Scheduler
from apps.contrib.schedulers.selectors import SILENT_INTERVALS
from apps.contrib.schedulers.waiting import FROZEN
from apps.priorities.sentences import numbers
from apps.web.figures import axes, traces
from apps.web.figures.figure import Column, EndLabel, Figure, Table
from apps.web.shell import presentation

_MOST_LAG_POINTS = 360  # drawn; of more, the longest of each stretch
_FEW = 60  # points that are also dots


def lag_figure(scheduler: Scheduler, passes: Sequence[PassLag], at: datetime) -> Figure:
    """Passes of the last day, oldest first; a gap where three intervals passed without one."""
    known = [each for each in passes if each.lag_s is not None]
    empty = "" if known else _("No pass has read a snapshot in the last 24 hours.")
    limit_min = scheduler.snapshot_age_s / 60
    drawn = list(_with_gaps(_thinned(passes), timedelta(seconds=SILENT_INTERVALS * scheduler.every_s)))
    points: dict[str, Any] = {"mode": "lines+markers", "marker": {"size": 4}} if len(drawn) <= _FEW else {}
    begins_at = at - timedelta(hours=HOURS)
    last = known[-1] if known else None
    top = max([limit_min, *((each.lag_s or 0.0) / 60 for each in known)])
    return Figure(
        name="lag",
        title=_("Lag, last 24 hours"),
        note=_("minutes from usage to the scheduler"),
        sentence=_sentence(known, scheduler.snapshot_age_s, at) if known else empty,
        traces=[
            traces.target([axes.moment(begins_at), axes.moment(at)], [limit_min, limit_min]),
            traces.line(
                [axes.moment(when) for when, _each in drawn],
                axes.rounded(
                    [None if each is None or each.lag_s is None else each.lag_s / 60 for _w, each in drawn], 3
                ),
                name=_("Lag"),
                color=traces.series_color(0),
                words=[_words(each) for _when, each in drawn],
                **points,
            ),
        ]
        if known
        else [],
        layout={
            "margin": axes.margin(44, 92),
            "xaxis": axes.day_axis(begins_at, at),
            "yaxis": axes.number_axis(0.0, top * 1.08, most=4),
        }
        if known
        else axes.empty_layout(),
        table=_table(passes),
        size="s" if known else "xs",
        labels=(
            EndLabel(limit_min, _("limit %(n)s") % {"n": presentation.duration(scheduler.snapshot_age_s)}),
            EndLabel((last.lag_s or 0.0) / 60, presentation.age(last.lag_s or 0.0), traces.series_color(0)),
        )
        if last
        else (),
        file=f"fairshare_lag_{scheduler.name}",
        caption=f"{scheduler.name}, {scheduler.policy.slug}",
        empty=empty,
        reads=bool(known),
    )


def _thinned(passes: Sequence[PassLag]) -> list[PassLag]:
    """At most so many passes as the picture has room for: of each stretch the one with the longest lag."""
    step = -(-len(passes) // _MOST_LAG_POINTS) or 1
    stretches = (passes[i : i + step] for i in range(0, len(passes), step))
    return [max(stretch, key=lambda each: each.lag_s or 0.0) for stretch in stretches]


def _with_gaps(passes: Sequence[PassLag], most: timedelta) -> Iterator[tuple[datetime, PassLag | None]]:
    before: datetime | None = None
    for each in passes:
        if before is not None and each.ended_at - before > most:
            yield before + most, None
        yield each.ended_at, each
        before = each.ended_at


def _words(each: PassLag | None) -> str:
    if each is None or each.lag_s is None:
        return "–"
    problem = FROZEN.get(each.frozen_code)
    return presentation.age(each.lag_s) + (f": {problem}" if problem else "")


def _sentence(known: Sequence[PassLag], limit_s: float, now: datetime) -> str:
    lags = [each.lag_s or 0.0 for each in known]
    low, high = presentation.age(min(lags)), presentation.age(max(lags))
    over = [each for each in known if (each.lag_s or 0.0) > limit_s]
    values = {"low": low, "high": high, "limit": presentation.duration(limit_s), "n": numbers.count(len(over))}
    if not over:
        if low == high:
            return _("The lag was %(high)s, within the limit of %(limit)s.") % values
        return _("The lag was %(low)s to %(high)s, within the limit of %(limit)s.") % values
    text = ngettext(
        "%(n)s pass was over the limit of %(limit)s, last at %(at)s.",
        "%(n)s passes were over the limit of %(limit)s, last at %(at)s.",
        len(over),
    )
    return text % {**values, "at": presentation.clock_time(over[-1].ended_at, now)}


def _table(passes: Sequence[PassLag]) -> Table:
    newest = list(passes)[::-1]
    return Table(
        columns=(Column(_("Time"), is_number=False), Column(_("Lag")), Column(_("Problem"), is_number=False)),
        rows=[
            [
                numbers.clock_text(each.ended_at),
                "–" if each.lag_s is None else presentation.age(each.lag_s),
                str(FROZEN.get(each.frozen_code, "")) or (_("values were refused") if each.failed else "–"),
            ]
            for each in newest
        ],
        raw=[[each.ended_at.isoformat(), each.lag_s, each.frozen_code, each.failed] for each in newest],
        header=("ended_at", "lag_s", "frozen", "failed"),
    )
