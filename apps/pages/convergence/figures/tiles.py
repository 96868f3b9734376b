"""Small pictures of the entries of a section, for the page and as JSON, with values at each stop of the cursor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal

import numpy as np
from django.http import QueryDict
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext

from apps.core.errors import FieldProblem, Invalid
from apps.pages.convergence.figures.course import GroupNumbers, axis_of, course_of
from apps.pages.convergence.figures.days_ahead import states_ahead
from apps.pages.convergence.figures.labels import RawRows, caption, file_name
from apps.pages.convergence.figures.over_time import axis_json, unknown_text
from apps.pages.convergence.figures.picture import Pen, draw_svg
from apps.pages.convergence.figures.sections import Section, sections_of
from apps.priorities.level_facts import IDLE_STATES, OFF_STATES
from apps.priorities.sentences.numbers import compare_shares, percent
from apps.series.convergence.records import Convergence
from apps.web.figures import Column, Figure, Table
from apps.web.figures.used_and_target import compared_texts
from apps.web.shell.presentation import on_target_text

Shape = Literal["on", "over", "under", "idle", "nodata"]
Balance = tuple[Shape, str, str]  # shape, amount in points or "", and word
_SHAPES: dict[str, tuple[Shape, str]] = {
    "on": ("on", gettext_noop("on target")),
    "over": ("over", gettext_noop("over")),
    "starved": ("under", gettext_noop("under")),
    "inferred": ("under", gettext_noop("under")),
    **dict.fromkeys(IDLE_STATES, ("idle", gettext_noop("no demand"))),
}


@dataclass(frozen=True, slots=True)
class Heading:
    """used, target: texts below the name. shape: form and colour of the balance; amount: in points, or "".

    word: name of the balance.
    """

    used: str
    target: str
    shape: Shape
    amount: str
    word: str


def heading_of(convergence: Convergence, row: int, decimals: int | None = None) -> Heading:
    """Return the heading for the last point: the newest snapshot's, or the last day's.

    decimals: of the column beside it; by default what its two shares need.
    """
    actual, target = (float(column[row, -1]) for column in (convergence.actual, convergence.target))
    shares = compare_shares(actual, target, decimals=decimals)
    if not convergence.visible[row].any():
        return Heading(_("not shown"), shares.target, "nodata", "", "")
    state, slack = str(convergence.states[row, -1]), float(convergence.slack[row, -1])
    shape, amount, word = balance_text(state, actual, target, slack=slack, decimals=decimals)
    return Heading(shares.actual, shares.target, shape, amount, word)


def balance_text(
    state: str, actual: float, target: float, *, slack: float = 0.0, decimals: int | None = None
) -> Balance:
    """Return the shape, the amount in points, and the word for a point; shares are NaN where unknown.

    slack: half the width of the tolerance, named where it surprises. decimals: of the column of shares beside it; by
    default what the two shares need.
    """
    if not isfinite(actual - target) or not state:
        return "nodata", "", unknown_text(state)
    shape, word = _SHAPES.get(state, _SHAPES["no_demand"])
    points = compare_shares(actual, target, decimals=decimals).points
    if state == "on" and slack:
        return shape, "", on_target_text(actual, target, slack)
    return shape, points if state in OFF_STATES else "", _(word)


@dataclass(frozen=True, eq=False)
class TilePicture:
    """row: of the entry in its group."""

    row: int
    svg: SafeString


def pictures_of(section: Section, page: int) -> list[TilePicture]:
    pen = Pen(section.axis, section.scale)
    return [
        TilePicture(row, draw_svg(course_of(section.numbers, row, section.axis), pen, is_tile=True))
        for row in section.shown(page)
    ]


def panels_figure(numbers: GroupNumbers, query: QueryDict) -> Figure:
    """`panels` in the JSON has the picture and the values of each entry of a section's page; `data` is empty."""
    axis = axis_of(numbers)
    convergence = numbers.convergence
    sections = [] if axis is None else sections_of(numbers, axis)
    key, page = query.get("section", "off"), page_of(query)
    section = next((section for section in sections if section.key == key), None)
    if key not in ("off", "small", "rest"):
        message = _("“%(text)s” is not one of %(known)s.") % {"text": key[:40], "known": "off, small, rest"}
        raise Invalid(message, fields=[FieldProblem("section", message)])
    panels = [] if section is None else [_panel(section, picture) for picture in pictures_of(section, page)]
    return Figure(
        name="panels",
        title=_("Shares and targets"),
        note=_("share, percent"),
        sentence=off_sentence(convergence),
        traces=(),
        layout={},
        table=_table(convergence),
        size="xs",
        file=file_name(convergence, "panels"),
        caption=caption(convergence),
        empty="" if convergence.on else _("There are no days in this period."),
        extra={
            "axis": None if axis is None else axis_json(axis),
            "scale": "" if section is None else scale_text(section),
            "panels": panels,
        },
    )


def page_of(query: QueryDict) -> int:
    text = query.get("page", "1")
    return max(int(text), 1) if text.isdecimal() and len(text) < 9 else 1


def _panel(section: Section, picture: TilePicture) -> dict[str, Any]:
    numbers, row = section.numbers, picture.row
    used, target, balances = stop_values(section, row)
    return {
        "uid": str(numbers.convergence.members[row].uid),
        "name": numbers.convergence.members[row].name,
        "heading": heading_of(numbers.convergence, row),
        "used": used,
        "target": target,
        "balances": balances,
        "svg": picture.svg,
    }


def stop_values(section: Section, row: int) -> tuple[list[str], list[str], list[Balance]]:
    """Used, or expected, share, target and balance as text at each stop of the cursor."""
    axis, drawn = section.axis, section.numbers.drawn
    likely = [point.likely for point in section.numbers.curve(row, axis)[1:]]
    expected = np.array(likely or [np.nan] * len(axis.ahead))[axis.shown_ahead]
    actual = np.concatenate([drawn.actual[row, axis.shown_points], expected])
    target = np.concatenate([drawn.target[row, axis.shown_points], np.full(len(expected), drawn.target[row, -1])])
    slack = np.concatenate([drawn.slack[row, axis.shown_points], np.full(len(expected), drawn.slack[row, -1])])
    goal, width = (np.full((1, len(expected)), column[row, -1]) for column in (drawn.target, drawn.slack))
    ahead = states_ahead(expected[None], goal, width, drawn.states[row, -1:])
    states = [*drawn.states[row, axis.shown_points].tolist(), *ahead[0].tolist()]
    points = zip(states, actual.tolist(), target.tolist(), slack.tolist(), strict=True)
    balances = [balance_text(state, used, wanted, slack=around) for state, used, wanted, around in points]
    return *compared_texts(actual, target), balances


def scale_text(section: Section) -> str:
    """What is said of the scale beside the heading of a section."""
    high = section.scale.high
    if section.numbers.query.unit == "points":
        return _("scale %(n)s points each way") % {"n": f"{high:g}"}
    return _("scale 0 to %(n)s") % {"n": percent(high / 100, 0 if high >= 1 else 1)}


def off_sentence(convergence: Convergence) -> str:
    """Count the entries that are off target now."""
    now = [state for state in (convergence.states[:, -1].tolist() if convergence.on else []) if state]
    off = sum(state in OFF_STATES for state in now)
    text = ngettext("%(off)s of %(n)s entry is off target.", "%(off)s of %(n)s entries are off target.", len(now))
    return text % {"off": off, "n": len(now)}


def _table(convergence: Convergence) -> Table:
    """One row per day, newest first, two columns per entry."""
    columns: Sequence[Any] = [
        column
        for row in range(len(convergence.members))
        for column in (convergence.actual[row], convergence.target[row])
    ]
    forms = (_("%(name)s, used %%"), _("%(name)s, target %%"))
    titles = [form % {"name": member.name} for member in convergence.members for form in forms]
    raw = RawRows(convergence.on[::-1], [column[::-1] for column in columns])
    return Table((Column(_("Day"), is_number=False), *map(Column, titles)), (), raw)
