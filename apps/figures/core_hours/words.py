"""Words and controls that both figures of core-hours use."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date, datetime
from typing import Any

from django.http import QueryDict
from django.utils import formats
from django.utils.translation import gettext as _

from apps.core.errors import FieldProblem, Invalid
from apps.figures import axes
from apps.figures.figure import Choice, Figure, Table, changed
from apps.figures.traces import MOST_SERIES, series_color
from apps.policies.allocations.records import Period
from apps.priorities.records import CoreHourWeeks
from apps.priorities.sentences.numbers import number

_MOST_HIDDEN = 16  # names of a query


def hours(core_h: float) -> str:
    """1,728,000, one decimal below ten; the sign in front."""
    size = abs(core_h)
    text = "<0.1" if 0 < size < 0.05 else number(size, 1 if 0 < size < 10 else 0)
    return f"\u2212{text}" if core_h < 0 and size >= 0.05 else text


def day(at: date) -> str:
    return formats.date_format(at, "j M Y")


def colors_of(places: Sequence[tuple[int, int]]) -> list[str]:
    """places: level and place among siblings. The same in every figure; of two with one colour the later moves on."""
    found: dict[int, int] = {}
    for at in sorted(range(len(places)), key=lambda at: places[at]):
        free = [(places[at][1] + step) % MOST_SERIES for step in range(MOST_SERIES)]
        found[at] = next((one for one in free if one not in found.values()), free[0])
    return [series_color(found[at]) for at in range(len(places))]


def read_hidden(query: QueryDict, name: str) -> frozenset[str]:
    """Keys of series that are hidden. Raises Invalid for more of them than a picture can have."""
    found = frozenset(query.getlist(name))
    if len(found) > _MOST_HIDDEN:
        message = _("A figure has at most %(n)s series; no more can be hidden.") % {"n": MOST_SERIES}
        raise Invalid(message, fields=[FieldProblem(name, message)])
    return found


def chips(query: QueryDict, name: str, series: Sequence[tuple[str, str, str]], hidden: Collection[str]) -> list[Choice]:
    """series: key, label and colour of each. A click hides or shows one; the last that is shown can't be hidden."""
    keys = [key for key, *_more in series]
    found = []
    for key, label, color in series:
        is_hidden = key in hidden
        then = [one for one in keys if (one in hidden) != (one == key)]
        if len(then) == len(keys):
            then = []
        alone = [one for one in keys if one != key]
        found.append(
            Choice(
                f"{name}-{key}",
                label,
                changed(query, **{name: then or None}),
                not is_hidden,
                swatch=color,
                alone=changed(query, **{name: alone or None}),
            )
        )
    return found


def empty_figure(name: str, title: str, found: CoreHourWeeks, message: str, controls: Sequence[Any] = ()) -> Figure:
    layout = {"margin": axes.margin(), "xaxis": {"range": [0, 1]}, "yaxis": {"range": [0, 1]}}
    return Figure(
        name,
        title,
        message,
        (),
        layout,
        Table((), (), ()),
        note=period_words(found.period),
        size="m",
        empty=message,
        controls=controls,
        reads=False,
    )


def period_words(period: Period) -> str:
    return _("%(first)s to %(last)s") % {"first": day(period.starts_on), "last": day(period.ends_on)}


def file_of(found: CoreHourWeeks, what: str) -> str:
    return f"fairshare_{found.policy_slug}_{what}_{found.period.starts_on}_{found.period.ends_on}"


def caption_of(found: CoreHourWeeks) -> str:
    parts = {"policy": found.policy_slug, "entry": found.name, "day": day(found.now.astimezone(found.zone))}
    return _("%(policy)s, %(entry)s, %(day)s") % parts


def place(at: datetime, found: CoreHourWeeks) -> str:
    """On the time axis, by the site's clock."""
    return axes.moment(at.astimezone(found.zone).replace(tzinfo=None))
