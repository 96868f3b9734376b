"""The share-weighted deviation of a policy by day, on its first day by hour, with its publications marked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import pairwise

from django.utils import formats
from django.utils.translation import gettext as _

from apps.priorities.sentences.numbers import UNKNOWN, count, points, points_phrase
from apps.web.figures import axes, traces
from apps.web.figures.figure import Column, EndLabel, Figure, Mark, Table

NAME = "deviation"
_LEAST_DAYS_OF_LINE = 2


@dataclass(frozen=True)
class DeviationDay:
    """One day, or one hour: then `on` is the instant at which it starts.

    deviation: share-weighted |actual − target| as a fraction; None if it can't be shown.
    """

    on: date
    deviation: float | None
    revision: int
    n_compared: int


def is_line(days: Sequence[DeviationDay]) -> bool:
    """Whether enough of them are known for a line."""
    return sum(day.deviation is not None for day in days) >= _LEAST_DAYS_OF_LINE


def deviation_figure(
    days: Sequence[DeviationDay],
    *,
    policy: str,
    sees_part: bool,
    why_empty: str,
    revision_url: Callable[[int], str],
) -> Figure:
    """Draw the line. sees_part: only entries visible to the reader are compared. why_empty: text without a line."""
    known = [day for day in days if day.deviation is not None]
    by_hour = _is_by_hour(days)
    title = _("Deviation, first hours") if by_hour else _("Deviation, last 30 days")
    if not is_line(days):
        nothing = axes.empty_layout()
        return Figure(NAME, title, why_empty, (), nothing, _table(days), size="xs", empty=why_empty, reads=False)
    x = [axes.moment(day.on) for day in days]
    y = axes.rounded([None if day.deviation is None else day.deviation * 100 for day in days], 3)
    words = [_points(day.deviation) for day in days]
    area = {"fill": "tozeroy", "fillcolor": "$accent/0.1"}
    last = known[-1]
    end = (last.deviation or 0.0) * 100
    return Figure(
        name=NAME,
        title=title,
        note=_("share-weighted |actual − target|, points"),
        sentence=_sentence(known, by_hour=by_hour, sees_part=sees_part),
        traces=[
            traces.line(x, y, name=_("Deviation"), color="$accent", words=words) | area,
            traces.end_dot(axes.moment(last.on), end, color="$accent"),
        ],
        layout={
            "margin": axes.margin(44, 96, 26),
            "xaxis": axes.day_axis(days[0].on, days[-1].on),
            "yaxis": axes.number_axis(0.0, max(1.0, *(value for value in y if value is not None)) * 1.06, most=4),
        },
        table=_table(days),
        size="s",
        file=f"deviation-{policy}",
        caption=policy,
        labels=[EndLabel(end, _points(last.deviation), color="$ink")],
        marks=[
            Mark(
                at=axes.moment(day.on),
                label=_("Rev %(n)s") % {"n": day.revision},
                text=_("Revision %(n)s, %(day)s") % {"n": day.revision, "day": formats.date_format(day.on, "j M")},
                url=revision_url(day.revision),
            )
            for before, day in pairwise(days)
            if day.revision != before.revision
        ],
    )


def _points(deviation: float | None) -> str:
    return UNKNOWN if deviation is None else points_phrase(deviation)


def _is_by_hour(days: Sequence[DeviationDay]) -> bool:
    return any(isinstance(day.on, datetime) for day in days)


def _sentence(known: Sequence[DeviationDay], *, by_hour: bool, sees_part: bool) -> str:
    if sees_part and by_hour:
        text = _(
            "The share-weighted deviation of the entries visible to you went from %(first)s to %(last)s points "
            "over complete hours."
        )
    elif sees_part:
        text = _(
            "The share-weighted deviation of the entries visible to you went from %(first)s to %(last)s points "
            "over complete days."
        )
    elif by_hour:
        text = _("The share-weighted deviation went from %(first)s to %(last)s points over complete hours.")
    else:
        text = _("The share-weighted deviation went from %(first)s to %(last)s points over complete days.")
    return text % {"first": points(known[0].deviation or 0.0), "last": points(known[-1].deviation or 0.0)}


def _table(days: Sequence[DeviationDay]) -> Table:
    """One row per day or hour, the first one first."""
    by_hour = _is_by_hour(days)
    return Table(
        columns=(
            Column(_("Hour") if by_hour else _("Day"), is_number=False),
            Column(_("Deviation")),
            Column(_("Revision")),
            Column(_("Entries compared")),
        ),
        rows=[
            [
                formats.date_format(day.on, "j M Y, H:i" if by_hour else "j M Y"),
                UNKNOWN if day.deviation is None else points(day.deviation),
                str(day.revision),
                count(day.n_compared),
            ]
            for day in days
        ],
        raw=[
            [day.on.isoformat(), day.revision, "" if day.deviation is None else day.deviation * 100, day.n_compared]
            for day in days
        ],
        header=("hour" if by_hour else "day", "revision", "share_weighted_deviation_points", "entries_compared"),
    )
