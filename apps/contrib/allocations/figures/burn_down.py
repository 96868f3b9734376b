"""Figure of allocated core-hours left over a period, in percent of each allocation, compared with an even pace."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.contrib.allocations.core_hour_weeks import AllocationLeft, CoreHourWeeks
from apps.contrib.allocations.figures import labels
from apps.contrib.allocations.periods import DAY, begins_at
from apps.priorities.sentences.numbers import percent
from apps.web.figures import axes, traces
from apps.web.figures.figure import Column, Control, EndLabel, Figure, Table

HIDE = "left_hide"  # query parameter of the page


def burn_down(weeks: CoreHourWeeks, query: QueryDict) -> Figure:
    """Draw the figure; `?left_hide=<uid>` hides an allocation. Raises Invalid for too many hidden names."""
    hidden = labels.read_hidden(query, HIDE)
    allocations = list(weeks.allocations_left)
    colors = labels.colors_of([allocation.place for allocation in allocations])
    color_of = {allocation.uid: color for allocation, color in zip(allocations, colors, strict=True)}
    shown = [allocation for allocation in allocations if str(allocation.uid) not in hidden] or allocations
    title = _("Core-hours left")
    if not shown:
        return labels.empty_figure(
            "burn-down", title, weeks, _("No core-hours are allocated for days that have begun.")
        )
    not_shown = {str(allocation.uid) for allocation in allocations if allocation not in shown}
    chips = [(str(allocation.uid), allocation.name, color_of[allocation.uid]) for allocation in allocations]
    return Figure(
        name="burn-down",
        title=title,
        note=_note(weeks),
        sentence=_sentence(weeks, shown),
        traces=[*_pace(weeks, shown), *(_line(weeks, allocation, color_of[allocation.uid]) for allocation in shown)],
        layout=_layout(weeks, shown),
        table=_table(weeks, shown),
        labels=[EndLabel(_part(allocation, -1), _label(allocation), color_of[allocation.uid]) for allocation in shown],
        controls=[Control(_("Shown"), labels.chips(query, HIDE, chips, not_shown), kind="chips")],
        file=labels.file_of(weeks, "burn-down"),
        caption=labels.caption_of(weeks),
    )


def _part(allocation: AllocationLeft, at: int) -> float:
    return round(100 * allocation.left_core_h[at] / allocation.allocated_core_h, 2)


def _line(weeks: CoreHourWeeks, allocation: AllocationLeft, color: str) -> dict[str, Any]:
    x = [labels.axis_moment(at, weeks) for at in allocation.at]
    y = [_part(allocation, at) for at in range(len(x))]
    values = [_left_text(left, allocation.allocated_core_h) for left in allocation.left_core_h]
    return traces.line(x, y, name=allocation.name, color=color, words=values)


def _left_text(left: float, allocated: float) -> str:
    values = {"n": labels.hours(abs(left)), "part": percent(abs(left) / allocated)}
    if left < 0:
        return _("used %(n)s core-hours more than allocated, %(part)s over") % values
    return _("has %(n)s core-hours left, %(part)s") % values


def _pace(weeks: CoreHourWeeks, shown: Sequence[AllocationLeft]) -> list[dict[str, Any]]:
    """Draw an even pace if all shown allocations have the same period."""
    days = {allocation.days for allocation in shown}
    if len(days) > 1:
        return []
    (only,) = days
    begin, end = begins_at(only.starts_on, weeks.zone), begins_at(only.ends_on + DAY, weeks.zone)
    dashed = traces.target([labels.axis_moment(begin, weeks), labels.axis_moment(end, weeks)], [100, 0])
    return [dashed | {"line": {**dashed["line"], "shape": "linear"}}]


def _layout(weeks: CoreHourWeeks, shown: Sequence[AllocationLeft]) -> dict[str, Any]:
    lowest = min(_part(allocation, -1) for allocation in shown)
    low = -4.0 if lowest >= 0 else max(lowest * 1.08, -1000.0)
    shapes, notes = _today(weeks)
    if lowest < 0:
        box = {"xref": "paper", "x0": 0, "x1": 1, "y0": low, "y1": 0, "layer": "below"}
        shapes.append({"type": "rect", **box, "fillcolor": "$warn-tint/0.55", "line": {"width": 0}})
    return {
        "margin": axes.margin(44, 206, 26, 24),
        "xaxis": axes.day_axis(weeks.period.starts_on, weeks.period.ends_on),
        "yaxis": axes.number_axis(low, 104.0, suffix="\u00a0%") | {"zeroline": True},
        "shapes": shapes,
        "annotations": notes,
    }


def _today(weeks: CoreHourWeeks) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A vertical line at now, if the period hasn't ended."""
    today: date = weeks.now.astimezone(weeks.zone).date()
    if today not in weeks.period:
        return [], []
    at = labels.axis_moment(weeks.now, weeks)
    line = {"color": "$line-strong", "width": 1, "dash": "1.5px,2px"}
    text = {"text": _("today"), "font": {"color": "$ink-3"}, "showarrow": False}
    shape = {"type": "line", "x0": at, "x1": at, "yref": "paper", "y0": 0, "y1": 1, "layer": "below", "line": line}
    return [shape], [{"x": at, "yref": "paper", "y": 1, "yanchor": "bottom", "yshift": 3, **text}]


def _label(allocation: AllocationLeft) -> str:
    name = allocation.name if len(allocation.name) <= 14 else f"{allocation.name[:13]}…"
    left = allocation.left_core_h[-1]
    amount = axes.short_amount(float(f"{abs(left):.3g}"))
    text = _("%(name)s %(n)s core-h over") if left < 0 else _("%(name)s %(n)s core-h")
    return text % {"name": name, "n": amount}


def _note(weeks: CoreHourWeeks) -> str:
    n_shown, n_all = len(weeks.allocations_left), weeks.n_allocations
    words = {"period": labels.period_text(weeks.period), "n": n_shown, "all": n_all}
    if n_all > n_shown:
        return _("percent of the allocation, %(period)s; %(n)s of %(all)s") % words
    return _("percent of the allocation, %(period)s") % words


def _sentence(weeks: CoreHourWeeks, shown: Sequence[AllocationLeft]) -> str:
    """Describe the allocation farthest ahead of an even pace."""
    allocation = max(shown, key=lambda each: (each.delivered_core_h - each.due_core_h) / each.allocated_core_h)
    left, even = allocation.left_core_h[-1], allocation.allocated_core_h - allocation.due_core_h
    values = {
        "name": allocation.name,
        "n": labels.hours(abs(left)),
        "of": labels.hours(allocation.allocated_core_h),
        "even": labels.hours(even),
        "part": percent(abs(left) / allocation.allocated_core_h),
    }
    if left < 0:
        return _("%(name)s used %(n)s core-hours more than the %(of)s allocated, %(part)s over.") % values
    ends = _ends_early(weeks, allocation)
    if ends is not None:
        early = (allocation.days.ends_on - ends).days
        return ngettext(
            "%(name)s has %(n)s of %(of)s core-hours left. At this pace they run out on %(day)s, %(early)s day early.",
            "%(name)s has %(n)s of %(of)s core-hours left. At this pace they run out on %(day)s, %(early)s days early.",
            early,
        ) % {**values, "day": labels.day(ends), "early": early}
    return _("%(name)s has %(n)s of %(of)s core-hours left (%(part)s); an even pace leaves %(even)s.") % values


def _ends_early(weeks: CoreHourWeeks, allocation: AllocationLeft) -> date | None:
    """Return the day on which it runs out at the pace so far; None if it lasts to its last day."""
    if weeks.now >= begins_at(allocation.days.ends_on + DAY, weeks.zone) or allocation.delivered_core_h <= 0:
        return None
    passed = allocation.at[-1] - allocation.at[0]
    seconds = passed.total_seconds() * allocation.allocated_core_h / allocation.delivered_core_h
    if seconds > 200 * 366 * 86_400:
        return None
    ends = date.fromordinal(allocation.at[0].astimezone(weeks.zone).date().toordinal() + int(seconds // 86_400))
    return ends if ends < allocation.days.ends_on else None


def _table(weeks: CoreHourWeeks, shown: Sequence[AllocationLeft]) -> Table:
    every = sorted({at for allocation in shown for at in allocation.at}, reverse=True)
    left = [dict(zip(allocation.at, allocation.left_core_h, strict=True)) for allocation in shown]
    days = [at.astimezone(weeks.zone).strftime("%Y-%m-%d") for at in every]
    return Table(
        columns=(Column(_("Before")), *(Column(allocation.name) for allocation in shown)),
        rows=[
            [labels.day(at.astimezone(weeks.zone)), *(labels.hours(of[at]) if at in of else "\u2013" for of in left)]
            for at in every
        ],
        raw=[
            [day, *(round(of[at], 6) if at in of else "" for of in left)] for day, at in zip(days, every, strict=True)
        ],
        header=("before", *(f"{allocation.name} left_core_h" for allocation in shown)),
    )
