"""The factor on the days to come, where one number of the whole path decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.utils import formats, timezone
from django.utils.translation import gettext as _

from apps.analytics.forecast import FactorPoint, Forecast
from apps.figures import axes, traces
from apps.figures.figure import Column, EndLabel, Figure, Table
from apps.priorities.sentences import text_of
from apps.priorities.sentences.numbers import factor as factor_words


def factor_figure(found: Forecast) -> Figure | None:
    """None where levels decide the order: their curves show what comes."""
    ahead = found.factor_ahead()
    if ahead is None:
        return None
    title, sentence = _("Factor in the next days"), text_of(list(ahead.said))
    if not ahead.points:
        nothing = {"margin": axes.margin(), "xaxis": {"range": [0, 1]}, "yaxis": {"range": [0, 1]}}
        table = Table(_columns(), (), ())
        return Figure("factor", title, sentence, (), nothing, table, size="m", empty=sentence, reads=False)
    first, last = ahead.points[0], ahead.points[-1]
    at = [axes.moment(timezone.localtime(point.at)) for point in ahead.points]
    words = [_("factor %(factor)s") % {"factor": factor_words(point.factor)} for point in ahead.points]
    values = axes.rounded([point.factor for point in ahead.points], 6)
    return Figure(
        name="factor",
        title=title,
        note=_("1 is served first, 0 last"),
        sentence=sentence,
        traces=[
            traces.forecast(at, values, name=found.account, color="$accent", words=words),
            traces.end_dot(at[0], values[0] or 0.0, color="$accent"),
        ],
        layout={
            "margin": axes.margin(44, 96, 8, 24),
            "xaxis": axes.day_axis(timezone.localtime(first.at), timezone.localtime(last.at)),
            "yaxis": _axis([point.factor for point in ahead.points]),
        },
        table=_table(ahead.points),
        size="m",
        labels=[EndLabel(last.factor, factor_words(last.factor), color="$accent")],
        file=f"fairshare_{found.policy.slug}_factor_ahead_rev{found.snapshot.revision}",
        caption=_("%(policy)s, %(path)s, revision %(n)s")
        % {"policy": found.policy.name, "path": found.entry_path, "n": found.snapshot.revision},
    )


def _axis(factors: Sequence[float]) -> dict[str, Any]:
    """A tenth beyond the values, so that what changes little is seen to change."""
    return axes.number_axis(max(min(factors) - 0.1, 0.0), min(max(factors) + 0.1, 1.04))


def _columns() -> tuple[Column, ...]:
    return (Column(_("Day")), Column(_("Days from now")), Column(_("Factor")))


def _table(points: Sequence[FactorPoint]) -> Table:
    """Today first, as the curve is read."""
    return Table(
        columns=_columns(),
        rows=[
            [
                formats.date_format(timezone.localtime(point.at), "j M, H:i"),
                str(point.days),
                factor_words(point.factor),
            ]
            for point in points
        ],
        raw=[[point.at.isoformat(), point.days, point.factor] for point in points],
        header=("at", "days", "factor"),
    )
