"""Allocations as rows, bars, key figures and headlines of a page, and as rows of a CSV file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any
from uuid import UUID

from django.urls import reverse
from django.utils import formats
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.contrib.allocations.pages.forms import day_text, period_text, query_of
from apps.contrib.allocations.periods import Period
from apps.contrib.allocations.table import (
    PACE_TOLERANCE,
    AllocationRow,
    AllocationTable,
    OnAllocations,
)
from apps.web.shell import lines as tree_lines
from apps.web.shell import presentation
from apps.web.shell.presentation import Balance
from apps.web.svg import bars
from apps.web.svg.bars import Bullet, Meter, State, Tolerance, draw_meter

_BAR_WIDTH, _REACH = 110, 1.3
_STATES = {"ahead": State.OVER, "behind": State.UNDER, "on": State.ON, "idle": State.IDLE, "not_begun": State.IDLE}


@dataclass(frozen=True, slots=True)
class AllocationLine:
    """One row of the table as texts, which are empty if they don't apply.

    ended: such as “Ended 30 Nov”. beyond: the whole allocation if the period shows only a part of it, such as “of
    242,000 until 19 Feb 2027”. basis: whether the expected core-hours are those of the allocation or of the shares.
    """

    row: AllocationRow
    url: str
    period: str
    ended: str
    allocated: str
    beyond: str
    share: str
    sub_allocated: str
    meter: Meter | None
    unallocated: str
    over: str
    expected: str
    basis: str
    delivered: str
    bar: Bullet | None
    remaining: str
    pace: Balance
    allocation_url: str

    @property
    def level(self) -> int:
        """Of the indentation, 0..3."""
        return min(max(self.row.level, 0), 3)


def core_h(value: float | None) -> str:
    """Core-hours without unit, such as 10,080,000; with one decimal below ten; a dash if unknown."""
    return presentation.core_hours(None if value is None else value * presentation.SECONDS_PER_HOUR)


def tab_url(policy: str, uid: UUID, name: str) -> str:
    """URL of the page of one entry's core-hours."""
    slug = tree_lines.name_slug(name)
    return reverse("dashboard:entry-core-hours", kwargs={"policy": policy, "uid": uid, "name": slug})


def draw_lines(table: AllocationTable) -> list[AllocationLine]:
    return [draw_line(table, row) for row in table.rows]


def draw_line(table: AllocationTable, row: AllocationRow) -> AllocationLine:
    own, out = row.allocated_core_h, row.sub_allocated_core_h
    url = tab_url(table.policy_slug, row.entry, row.name)
    due = due_of(row)
    return AllocationLine(
        row=row,
        url=url,
        period=_period(table, row),
        ended=_ended(table, row),
        allocated=core_h(own) if own is not None else "",
        beyond=_beyond(row),
        sub_allocated=_sub_allocated(row),
        share=presentation.percent(row.share_of_parent) if row.share_of_parent is not None else "",
        meter=draw_meter(out / own) if own and out is not None and row.has_sub_allocations else None,
        unallocated=core_h(row.kept_core_h) if row.kept_core_h is not None and row.has_sub_allocations else "",
        over=_("%(n)s over-allocated") % {"n": core_h(row.over_committed_core_h)} if row.over_committed_core_h else "",
        expected=core_h(due) if due is not None else "",
        basis="" if due is None else _("basis: allocation") if has_allocation(row) else _("basis: shares"),
        delivered=core_h(row.delivered_core_h),
        bar=_bar(row),
        remaining=remaining_text(row),
        pace=pace_of(row),
        allocation_url=f"{url}?{query_of(table.period)}#allocate" if row.may_allocate else "",
    )


def _beyond(row: AllocationRow) -> str:
    if row.beyond is None:
        return ""
    amount, last = row.beyond
    return _("of %(n)s until %(day)s") % {"n": core_h(amount), "day": presentation.calendar_day(last.isoformat())}


def _sub_allocated(row: AllocationRow) -> str:
    """Sub-allocated core-hours in percent of the entry's allocation, else as an amount; empty if none or hidden."""
    if not row.has_sub_allocations or row.sub_allocated_core_h is None:
        return ""
    own = row.allocated_core_h
    if own:
        return presentation.percent(row.sub_allocated_core_h / own, 0)
    return _("%(n)s core-h") % {"n": core_h(row.sub_allocated_core_h)}


def _period(table: AllocationTable, row: AllocationRow) -> str:
    if row.days is None:
        return ""
    words = "" if row.days == table.period else period_text(row.days)
    return words or _("all")


def _ended(table: AllocationTable, row: AllocationRow) -> str:
    """Last day of an allocation that has ended; empty otherwise."""
    if row.days is None or row.days.instants(table.zone)[1] > table.now:
        return ""
    return _("Ended %(day)s") % {"day": day_text(row.days.ends_on, table.now)}


def _bar(row: AllocationRow) -> Bullet | None:
    """Bar of delivered core-hours relative to the allocation or the shares; the tick marks an even pace."""
    whole = row.allocated_core_h or row.expected_whole_core_h
    due = due_of(row)
    if not whole or row.delivered_core_h is None or due is None:
        return None
    drawn = bars.draw(
        actual=row.delivered_core_h / whole,
        target=due / whole,
        maximum=_REACH,
        state=_STATES.get(row.pace, State.ON),
        width=_BAR_WIDTH,
        tolerance=Tolerance(PACE_TOLERANCE, 0.0),
    )
    return replace(drawn, track_width=round((_BAR_WIDTH - 2) / _REACH, 1))


def has_allocation(row: AllocationRow) -> bool:
    return bool(row.allocated_core_h) and row.parent_uid is not None


def due_of(row: AllocationRow) -> float | None:
    """Core-hours expected by now, by which the pace is judged: of the allocation, else of the shares."""
    return row.due_core_h if has_allocation(row) else row.expected_core_h


def pace_of(row: AllocationRow | OnAllocations) -> Balance:
    """Badge on whether the entry is ahead of an even pace, behind it, or on it."""
    if row.pace == "on":
        return Balance(State.ON, "", _("on pace"))
    if row.pace == "idle":
        return Balance(State.IDLE, "", _("no usage"))
    if row.pace == "not_begun":
        return Balance(State.IDLE, "", _("not begun"))
    if isinstance(row, AllocationRow) and row.suppressed:
        return presentation.not_shown()
    if row.pace == "unknown" or row.pace_part is None:
        return Balance(State.NO_DATA, "", _("no data") if row.delivered_core_h is None else _("no basis"))
    amount = presentation.percent(abs(row.pace_part), 0)
    word = _("ahead") if row.pace == "ahead" else _("behind")
    if row.pace_part > 10:
        amount = _("more than tenfold")
    return Balance(_STATES[row.pace], amount, word)


def remaining_text(row: AllocationRow) -> str:
    if row.remaining_core_h is None:
        return ""
    return core_h(max(row.remaining_core_h, 0.0))


@dataclass(frozen=True, slots=True)
class Verdict:
    """Headline of the page with an explanation. key: over, none, part, amount, no_capacity or fits."""

    key: str
    title: str
    text: str


def verdict(table: AllocationTable) -> Verdict:
    """Headline on whether the allocations of the group fit its own allocation or the capacity."""
    when, group = period_text(table.period), table.group
    if table.is_over:
        return _over_allocated(table)
    if all(row.allocated_core_h is None for row in table.rows):
        text = _("Shares decide how much each entry gets.")
        return Verdict("none", _("No core-hours are allocated in %(when)s") % {"when": when}, text)
    if group.allocated_core_h is None:
        if table.above:
            text = _("%(name)s has no allocation, so its sub-allocations draw on the entry above.")
            return Verdict("amount", _amount_title(group, when), text % {"name": group.name})
        text = _("Capacity is needed to convert shares to core-hours and to check allocations.")
        return Verdict("no_capacity", _amount_title(group, when), text)
    words = {
        "out": core_h(group.sub_allocated_core_h),
        "own": core_h(group.allocated_core_h),
        "kept": core_h(group.kept_core_h),
    }
    if group.sub_allocated_core_h is None:
        return Verdict("part", _("Allocations in %(when)s") % {"when": when}, _("Not all entries are visible to you."))
    text = _("%(out)s of %(own)s core-hours are sub-allocated; %(kept)s are unallocated.") % words
    return Verdict("fits", _("Allocations in %(when)s fit the capacity") % {"when": when}, text)


def _amount_title(group: AllocationRow, when: str) -> str:
    if group.sub_allocated_core_h is None:
        return _("Allocations in %(when)s") % {"when": when}
    return _("%(n)s core-hours are allocated in %(when)s") % {"n": core_h(group.sub_allocated_core_h), "when": when}


def _over_allocated(table: AllocationTable) -> Verdict:
    worst = max(table.is_over, key=lambda row: row.over_committed_core_h or 0)
    if len(table.is_over) == 1:
        title = _("%(name)s is over-allocated") % {"name": worst.name}
    else:
        n = len(table.is_over)
        title = _("%(n)s over-allocated") % {"n": n}
    text = _(
        "Sub-allocations of %(name)s total %(out)s core-hours, %(over)s more than it has. Shares are "
        "unaffected, but not all allocations can be met."
    ) % {"name": worst.name, "out": core_h(worst.sub_allocated_core_h), "over": core_h(worst.over_committed_core_h)}
    return Verdict("over", title, text)


def kpis(table: AllocationTable) -> list[dict[str, str]]:
    """Four key figures of the group: its allocation, sub-allocations, and expected and delivered core-hours."""
    group, on = table.group, table.on_allocations
    own, out, due = group.allocated_core_h, group.sub_allocated_core_h, group.due_core_h
    label = _("Allocated") if table.above else _("Capacity")
    note = _("core-h") if own is not None else "–"
    part = _("core-h · %(part)s") % {"part": presentation.percent(out / own, 0)} if out is not None and own else ""
    has_capacity = table.capacity_core_h is not None and not table.above
    url = reverse("dashboard:capacities", kwargs={"policy": table.policy_slug}) if has_capacity else ""
    cards = [
        {"label": f"{label}, {period_text(table.period)}", "value": core_h(own), "note": note, "url": url},
        {"label": _("Sub-allocated"), "value": core_h(out), "note": part or _("core-h")},
    ]
    if on is None or (table.above and due is not None):
        cards.append({"label": _("Expected"), "value": core_h(due), "note": _("core-h")})
        delivered = {"label": _("Delivered"), "value": core_h(group.delivered_core_h), "note": _delivered_note(group)}
        return [*cards, delivered]
    pace = pace_of(on)
    total = _("%(n)s core-h in total") % {"n": core_h(group.delivered_core_h)}
    notes = [_("core-h"), pace.text, total]
    cards.append({"label": _("Expected on allocations"), "value": core_h(on.due_core_h), "note": _("core-h")})
    cards.append(
        {"label": _("Delivered on allocations"), "value": core_h(on.delivered_core_h), "note": " · ".join(notes)}
    )
    return cards


def _delivered_note(group: AllocationRow) -> str:
    if group.suppressed:
        return _("not shown")
    if group.delivered_core_h is None:
        return _("No usage data.")
    if group.pace in ("ahead", "behind"):
        return f"{presentation.percent(abs(group.pace_part or 0), 0)} {pace_of(group).word}"
    return _("core-h")


def gap_text(table: AllocationTable) -> str:
    """Sentence on days without a recorded capacity, if other days of the period have one."""
    if not table.capacities or not table.uncovered:
        return ""
    first = table.uncovered[0]
    n = sum(gap.n_days for gap in table.uncovered)
    words = ngettext(
        "No capacity is recorded for %(n)s day (%(days)s).", "No capacity is recorded for %(n)s days (%(days)s).", n
    )
    return words % {"n": presentation.count(n), "days": period_text(first)}


def csv_header() -> list[str]:
    return [
        "path",
        "kind",
        "first_day",
        "last_day",
        "allocated_core_h",
        "share_of_parent",
        "sub_allocated_core_h",
        "kept_core_h",
        "over_committed_core_h",
        "expected_core_h",
        "due_core_h",
        "delivered_core_h",
        "remaining_core_h",
        "pace",
    ]


def csv_row(row: AllocationRow) -> Sequence[Any]:
    days = row.days
    numbers = (
        row.allocated_core_h,
        row.share_of_parent,
        row.sub_allocated_core_h,
        row.kept_core_h,
        row.over_committed_core_h,
        row.expected_core_h,
        row.due_core_h,
        row.delivered_core_h,
        row.remaining_core_h,
    )
    first, last = (days.starts_on.isoformat(), days.ends_on.isoformat()) if days else ("", "")
    return [row.path, row.kind, first, last, *("" if number is None else number for number in numbers), row.pace]


def month_name(day: date) -> str:
    return formats.date_format(day, "M Y" if day.month == 1 else "M")


def renewal(period: Period) -> Period:
    """The period of the same length that starts on the following day; whole years stay whole."""
    following = period.ends_on.toordinal() + 1
    starts_on = date.fromordinal(following)
    if (period.starts_on.month, period.starts_on.day) == (starts_on.month, starts_on.day):
        years = starts_on.year - period.starts_on.year
        ends_on = date.fromordinal(starts_on.replace(year=starts_on.year + years).toordinal() - 1)
        return Period(starts_on, ends_on)
    return Period(starts_on, date.fromordinal(following + period.n_days - 1))


def when_text(on: date, now: datetime, today: date) -> str:
    """A date relative to today: today; tomorrow; 1 Dec, in 12 days; 30 Nov, 3 days ago."""
    days = (on - today).days
    day = day_text(on, now)
    if days in (0, 1):
        return _("today") if days == 0 else _("tomorrow")
    if days > 0:
        return _("%(day)s, in %(n)s days") % {"day": day, "n": days}
    return ngettext("%(day)s, %(n)s day ago", "%(day)s, %(n)s days ago", -days) % {"day": day, "n": -days}
