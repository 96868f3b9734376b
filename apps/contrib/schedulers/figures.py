"""Agreement between a scheduler's order of its users and the computed one over time: Kendall, Spearman, top overlap."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.contrib.schedulers.agreement import pairs_in_order
from apps.contrib.schedulers.records import AgreementDays, AgreementPoint
from apps.priorities.sentences.numbers import clock_text
from apps.web.figures import axes, traces
from apps.web.figures.figure import Column, Control, EndLabel, Figure, Table, Trace, period_choices, read_days

DAYS = "agreement_days"  # query parameter of the page
_MEASURES = ("kendall", "spearman", "top_overlap")
_AGREES = 0.95  # of tau


def agreement_figure(agreement: AgreementDays, query: QueryDict) -> Figure:
    """Draw one line per measure; 1 means the same order."""
    n_days = read_days(query, DAYS)
    points = agreement.points
    empty = "" if points else _("The agent has listed no scheduler values in this period.")
    return Figure(
        name="agreement",
        title=_("Rank agreement"),
        note=_("1: same order; 0: unrelated"),
        sentence=_sentence(points) if points else empty,
        traces=[_line(points, number) for number in range(len(_MEASURES))] if points else [],
        layout=_layout(points) if points else {"margin": axes.margin(44, 158)},
        table=_table(points),
        size="s" if points else "xs",
        labels=_labels(points) if points else (),
        controls=[Control(_("Period"), period_choices(query, DAYS, "days", n_days))],
        file=f"fairshare_agreement_{agreement.scheduler}_{n_days}d",
        caption=f"{agreement.scheduler}, {agreement.policy}",
        empty=empty,
        reads=bool(points),
    )


def _words(measure: str) -> str:
    return {
        "kendall": _("Kendall’s tau"),
        "spearman": _("Spearman’s rho"),
        "top_overlap": _("first tenth"),
    }[measure]


def _values(points: Sequence[AgreementPoint], measure: str) -> list[float | None]:
    return axes.rounded([getattr(point, measure) for point in points], 4)


def _line(points: Sequence[AgreementPoint], number: int) -> Trace:
    measure = _MEASURES[number]
    x = [axes.moment(point.at) for point in points]
    y = _values(points, measure)
    texts = ["–" if value is None else f"{value:.3f}" for value in y]
    color = traces.series_color(number)
    mode: dict[str, Any] = {"mode": "markers", "marker": {"color": color, "size": 6}} if len(points) == 1 else {}
    return traces.line(x, y, name=_words(measure), color=color, words=texts, **mode)


def _layout(points: Sequence[AgreementPoint]) -> dict[str, object]:
    lowest = min(
        (value for measure in _MEASURES for value in _values(points, measure) if value is not None), default=0.0
    )
    low = -1.0 if lowest < 0 else 0.0
    around = timedelta(minutes=30) if points[0].at == points[-1].at else timedelta(0)
    return {
        "margin": axes.margin(44, 158),
        "xaxis": axes.day_axis(points[0].at - around, points[-1].at + around),
        "yaxis": axes.number_axis(low - 0.02, 1.04, most=4),
    }


def _labels(points: Sequence[AgreementPoint]) -> list[EndLabel]:
    """Labels at the last defined value of each line."""
    labels = []
    for number, measure in enumerate(_MEASURES):
        known = [value for value in _values(points, measure) if value is not None]
        if known:
            text = f"{_words(measure)} {known[-1]:.2f}"
            labels.append(EndLabel(known[-1], text, traces.series_color(number)))
    return labels


def _sentence(points: Sequence[AgreementPoint]) -> str:
    """The last value, and when it was below the limit most recently."""
    last = points[-1]
    if last.kendall is None:
        return _("The last order can’t be compared: all users are alike on one side.")
    text = ngettext(
        "%(pairs)s of 100 pairs of %(n)s user have the same order.",
        "%(pairs)s of 100 pairs of %(n)s users have the same order.",
        last.compared,
    ) % {"pairs": pairs_in_order(last.kendall), "n": last.compared}
    low = [point for point in points if point.kendall is not None and point.kendall < _AGREES]
    limit = pairs_in_order(_AGREES)
    if not low:
        return f"{text} {_('At least %(limit)s all the time.') % {'limit': limit}}"
    if low[-1] is last:
        return text
    words = {"limit": limit, "at": clock_text(low[-1].at)}
    return f"{text} {_('Fewer than %(limit)s last at %(at)s.') % words}"


def _table(points: Sequence[AgreementPoint]) -> Table:
    newest = list(points)[::-1]
    return Table(
        columns=(
            Column(_("Time"), is_number=False),
            Column(_("Users")),
            *(Column(_words(measure)) for measure in _MEASURES),
        ),
        rows=[
            [clock_text(point.at), str(point.compared), *(_cell(getattr(point, measure)) for measure in _MEASURES)]
            for point in newest
        ],
        raw=[
            [point.at.isoformat(), point.compared, point.kendall, point.spearman, point.top_overlap] for point in newest
        ],
        header=("at", "users", "kendall", "spearman", "top_overlap"),
    )


def _cell(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
