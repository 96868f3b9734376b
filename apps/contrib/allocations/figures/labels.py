"""Texts and controls shared by the figures of core-hours."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date, datetime
from typing import Any

from django.http import QueryDict
from django.utils import formats
from django.utils.translation import gettext as _

from apps.contrib.allocations.core_hour_weeks import CoreHourWeeks
from apps.contrib.allocations.periods import Period
from apps.core.errors import FieldProblem, Invalid
from apps.priorities.sentences.numbers import number
from apps.web.figures import axes
from apps.web.figures.figure import Choice, Figure, Table, with_changes
from apps.web.figures.traces import MOST_SERIES, series_color

_MOST_HIDDEN = 16  # values of the parameter


def hours(core_h: float) -> str:
    """Format core-hours, e.g. 1,728,000; one decimal below ten."""
    size = abs(core_h)
    text = "<0.1" if 0 < size < 0.05 else number(size, 1 if 0 < size < 10 else 0)
    return f"\u2212{text}" if core_h < 0 and size >= 0.05 else text


def day(at: date) -> str:
    return formats.date_format(at, "j M Y")


def colors_of(positions: Sequence[tuple[int, int]]) -> list[str]:
    """Assign colours by (level, index among siblings), the same in every figure.

    A colour already in use is replaced by the next one.
    """
    color_at: dict[int, int] = {}
    for at in sorted(range(len(positions)), key=lambda at: positions[at]):
        free = [(positions[at][1] + step) % MOST_SERIES for step in range(MOST_SERIES)]
        color_at[at] = next((color for color in free if color not in color_at.values()), free[0])
    return [series_color(color_at[at]) for at in range(len(positions))]


def read_hidden(query: QueryDict, name: str) -> frozenset[str]:
    """Return the keys of hidden series. Raises Invalid for more than a picture can have."""
    hidden = frozenset(query.getlist(name))
    if len(hidden) > _MOST_HIDDEN:
        message = _("A figure has at most %(n)s series; no more can be hidden.") % {"n": MOST_SERIES}
        raise Invalid(message, fields=[FieldProblem(name, message)])
    return hidden


def chips(query: QueryDict, name: str, series: Sequence[tuple[str, str, str]], hidden: Collection[str]) -> list[Choice]:
    """Links that hide or show one series each; the last shown one can't be hidden. series: key, label and colour."""
    keys = [key for key, *_more in series]
    choices = []
    for key, label, color in series:
        is_hidden = key in hidden
        hidden_next = [other for other in keys if (other in hidden) != (other == key)]
        if len(hidden_next) == len(keys):
            hidden_next = []
        alone = [other for other in keys if other != key]
        choices.append(
            Choice(
                f"{name}-{key}",
                label,
                with_changes(query, **{name: hidden_next or None}),
                not is_hidden,
                swatch=color,
                alone=with_changes(query, **{name: alone or None}),
            )
        )
    return choices


def empty_figure(name: str, title: str, weeks: CoreHourWeeks, message: str, controls: Sequence[Any] = ()) -> Figure:
    return Figure(
        name,
        title,
        message,
        (),
        axes.empty_layout(),
        Table((), (), ()),
        note=period_text(weeks.period),
        size="m",
        empty=message,
        controls=controls,
        reads=False,
    )


def period_text(period: Period) -> str:
    return _("%(first)s to %(last)s") % {"first": day(period.starts_on), "last": day(period.ends_on)}


def file_of(weeks: CoreHourWeeks, kind: str) -> str:
    return f"fairshare_{weeks.policy_slug}_{kind}_{weeks.period.starts_on}_{weeks.period.ends_on}"


def caption_of(weeks: CoreHourWeeks) -> str:
    parts = {"policy": weeks.policy_slug, "entry": weeks.name, "day": day(weeks.now.astimezone(weeks.zone))}
    return _("%(policy)s, %(entry)s, %(day)s") % parts


def axis_moment(at: datetime, weeks: CoreHourWeeks) -> str:
    """Format an instant for the time axis, by the site's clock."""
    return axes.moment(at.astimezone(weeks.zone).replace(tzinfo=None))
