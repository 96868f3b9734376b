"""Figure of one entry over time: its share, target, tolerance and projection, with read-outs, table and CSV."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from functools import lru_cache
from math import isfinite
from typing import Any
from uuid import UUID

from django.utils import formats
from django.utils.translation import get_language
from django.utils.translation import gettext as _

from apps.core.errors import FieldProblem, Invalid
from apps.pages.convergence.figures.course import Axis, Course, GroupNumbers, axis_of, course_of, moment_of, read_outs
from apps.pages.convergence.figures.labels import caption, file_name
from apps.pages.convergence.figures.picture import Pen, draw_svg, layout_of, narrow_of, scale_of, state_class, traces_of
from apps.pages.convergence.figures.sections import off_target
from apps.priorities.sentences.numbers import clock_text, percent
from apps.series.convergence.query import BEFORE_ENTRY
from apps.web.figures import Column, Figure, Table
from apps.web.figures.used_and_target import used_words_of

NAME = "over-time"


def selected_row(numbers: GroupNumbers) -> int | None:
    """The row of the selected entry; by default the one farthest off target, else the largest.

    Raises Invalid alike for an entry of another group and one hidden from the actor.
    """
    convergence, entry = numbers.convergence, numbers.query.entry
    if not convergence.members:
        return None
    if entry is not None and not convergence.itself:
        return _row_of(numbers, entry)
    largest = max(range(len(convergence.members)), key=lambda row: convergence.members[row].target or 0.0)
    return next(iter(off_target(convergence)), largest)


def _row_of(numbers: GroupNumbers, entry: UUID) -> int:
    for row, member in enumerate(numbers.convergence.members):
        if member.uid == entry:
            return row
    raise no_such_entry()


def no_such_entry() -> Invalid:
    """Also of an entry that is hidden from the reader."""
    message = _("There is no such entry in this group.")
    return Invalid(message, fields=[FieldProblem("entry", message)])


def over_time_figure(numbers: GroupNumbers, sentence: str, *, title: str = "", extra: dict[str, Any]) -> Figure:
    """Draw the selected entry. sentence: what is known of its way to the target. extra: more for the page's script."""
    convergence, axis, row = numbers.convergence, axis_of(numbers), selected_row(numbers)
    if axis is None or row is None:
        message = _("There are no days in this period.")
        return Figure(NAME, _("Over time"), message, (), {}, Table((), (), ()), empty=message, reads=False)
    course = course_of(numbers, row, axis)
    scale = scale_of(numbers, [row], axis)
    member = convergence.members[row]
    of = convergence.policy_name if convergence.method.of == "total" else _parent_name(numbers)
    note = _("points from the target, of %(name)s") if course.unit == "points" else _("%% of %(name)s")
    axis_of_page, reads = axis_json(axis), read_outs(numbers, row, axis)
    return Figure(
        name=NAME,
        title=title or member.name,
        note=note % {"name": of},
        sentence=sentence,
        traces=traces_of(course),
        layout=layout_of(course, scale),
        table=_table(numbers, row, axis),
        file=file_name(convergence, member.name),
        caption=caption(convergence),
        extra={
            "entry": str(member.uid),
            "entry_name": member.name,
            "state": state_class(course),
            "narrow": narrow_of(course, scale),
            "axis": axis_of_page,
            "reads": reads,
            "resting": {"label": axis_of_page["labels"][axis.resting], "text": reads[axis.resting]},
            "has_projection": bool(axis.ahead),
            "before_label": before_label(numbers),
            "marks": _legend_of(course),
            "svg": draw_svg(course, Pen(axis, scale)),
            **extra,
        },
    )


def before_label(numbers: GroupNumbers) -> str:
    """What the line of the period before is called; "" without one."""
    return _("%(n)s days before") % {"n": numbers.query.period.n_days} if numbers.query.is_compared else ""


def _legend_of(course: Course) -> list[tuple[str, str]]:
    """Class and meaning of the marked spans of the picture."""
    words = {
        "idle": ("idle", _("no demand")),
        "inferred": ("idle inferred", _("no usage, demand unknown")),
        "starved": ("starved", _("jobs wait, below target")),
        "missing": ("gap", _("missing data")),
        "before": ("before", _("before the entry")),
    }
    return [words[kind] for kind in words if kind in course.marks]


def _parent_name(numbers: GroupNumbers) -> str:
    convergence = numbers.convergence
    if not convergence.itself:
        return convergence.entry.name
    return convergence.ancestors[-1].name if convergence.ancestors else convergence.policy_name


def axis_json(axis: Axis) -> dict[str, Any]:
    """Stops of the cursor: their places, 0..1, moments, and labels. resting: index of the one without a cursor; now: of
    the newest point, None if that isn't shown.
    """
    stops = axis.stops
    return {
        "at": [round(axis.part(at), 5) for at in stops],
        "stops": [moment_of(at) for at in stops],
        "labels": [stop_label(at) for at in stops],
        "resting": axis.resting,
        "now": axis.resting if axis.shows(axis.points[-1]) else None,
        "range": [moment_of(axis.first)[:10], moment_of(axis.last)[:10]],
        "whole": [moment_of(at)[:10] for at in axis.whole],
        "is_zoomed": axis.is_zoomed,
    }


def stop_label(at: float) -> str:
    """Thu 26 Nov."""
    return _formatted(date.fromordinal(int(at)), "D j M", get_language())


def _table(numbers: GroupNumbers, row: int, axis: Axis) -> Table:
    """One row per point, newest first: days ahead have an expected share with its range."""
    drawn, query = numbers.drawn, numbers.query
    member = drawn.members[row]
    before = numbers.before.get(member.uid, {})
    n_days = timedelta(days=query.period.n_days)
    step = _("Hour") if drawn.is_by_hour else _("Day")
    columns = [Column(step, is_number=False), Column(_("Used")), Column(_("Target")), Column(_("Balance"))]
    header = ["hour" if drawn.is_by_hour else "day", "used_percent", "target_percent", "state"]
    if axis.ahead:
        columns += [Column(_("Expected")), Column(_("Middle half"))]
        header += ["expected_percent", "expected_low_percent", "expected_high_percent"]
    if query.is_compared:
        columns.append(Column(_("%(n)s days before") % {"n": query.period.n_days}))
        header.append("before_percent")
    today = drawn.on[-1] if drawn.latest_at is not None else None
    texts = used_words_of(drawn.actual[row], drawn.target[row], drawn.states[row].tolist(), drawn.slack[row])
    rows, raw = [], []
    for at in range(len(drawn.on)):
        on, state = drawn.on[at], str(drawn.states[row, at])
        used, target = float(drawn.actual[row, at]), float(drawn.target[row, at])
        words = texts[at].split(", ", 2)[2] if isfinite(used - target) else unknown_text(state)
        cells, numbers_of = [_day(on), percent(used), percent(target), words], [*_raw(used, target), state]
        if axis.ahead:
            cells += ["", ""]
            numbers_of += ["", "", ""]
        if query.is_compared:
            earlier = before.get(on - n_days, float("nan")) if on != today else float("nan")
            cells.append(percent(earlier))
            numbers_of += _raw(earlier)
        rows.append(cells)
        raw.append([_raw_day(drawn.on[at]), *numbers_of])
    target = float(drawn.target[row, -1])
    for point, place in zip(numbers.curve(row, axis)[1:], axis.ahead, strict=False):
        extra = [""] if query.is_compared else []
        span = _("%(low)s to %(high)s") % {"low": percent(point.p25), "high": percent(point.p75)}
        on = date.fromordinal(int(place))
        rows.append([_day(on), "", percent(target), "", percent(point.likely), span, *extra])
        raw.append([on.isoformat(), "", *_raw(target), "", *_raw(point.likely, point.p25, point.p75), *extra])
    return Table(tuple(columns), rows[::-1], raw[::-1], header=tuple(header))


def unknown_text(state: str) -> str:
    """Why a point has no share."""
    return _("before the entry") if state == BEFORE_ENTRY else _("no data")


def _day(on: date) -> str:
    return clock_text(on, "j M, H:i") if isinstance(on, datetime) else _formatted(on, "j M Y", get_language())


@lru_cache(maxsize=16_384)
def _formatted(day: date, form: str, _language: str | None) -> str:
    """Cached, because all figures of a policy have the same days."""
    return formats.date_format(day, form)


def _raw_day(on: date) -> str:
    return on.strftime("%Y-%m-%d %H:%M") if isinstance(on, datetime) else on.isoformat()


def _raw(*shares: float) -> Sequence[Any]:
    return [round(share * 100, 4) if isfinite(share) else "" for share in shares]
