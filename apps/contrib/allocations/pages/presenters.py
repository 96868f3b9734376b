"""Allocations as rows, bars, key figures and headlines of a page, and as rows of a CSV file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.urls import reverse
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
from apps.policies.units import CORE_HOUR
from apps.priorities.sentences import numbers as number_texts
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
    242,000 until 19 Feb 2027”.
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
    basis: str  # whether the expected hours are those of the allocation or of the shares
    delivered: str
    bar: Bullet | None
    remaining: str
    pace: Balance
    allocation_url: str
    parent: str  # path of the entry above, of one that is no child of the table's group


def amount(value: float | None) -> str:
    """Hours of any unit without it, such as 10,080,000; with one decimal below ten; a dash if unknown."""
    return presentation.hours(None if value is None else value * presentation.SECONDS_PER_HOUR)


def quantity(value: float | None, unit: str) -> str:
    """Hours with their unit, such as 10,080,000 GPU-h. unit: its symbol."""
    return f"{amount(value)}{number_texts.NBSP}{unit}"


def per_hour_text(value: float, unit: str) -> str:
    """A steady rate: 512 cores; 8 GPU-h an hour. unit: its symbol."""
    if unit == CORE_HOUR.symbol:
        return presentation.cores_text(value)
    return _("%(n)s an hour") % {"n": quantity(value, unit)}


def tab_url(policy: str, uid: UUID, name: str) -> str:
    """URL of the page of one entry's allocations."""
    slug = tree_lines.name_slug(name)
    return reverse("pages:entry-core-hours", kwargs={"policy": policy, "uid": uid, "name": slug})


def draw_lines(table: AllocationTable) -> list[AllocationLine]:
    return [draw_line(table, row) for row in table.rows]


def draw_line(table: AllocationTable, row: AllocationRow) -> AllocationLine:
    own, out = row.allocated, row.sub_allocated
    url = tab_url(table.policy_slug, row.entry, row.name)
    due = due_of(row)
    return AllocationLine(
        row=row,
        url=url,
        period=_period(table, row),
        ended=_ended(table, row),
        allocated=amount(own) if own is not None else "",
        beyond=_beyond(row),
        sub_allocated=_sub_allocated(row, table.unit.symbol),
        share=number_texts.percent(row.share_of_parent) if row.share_of_parent is not None else "",
        meter=draw_meter(out / own) if own and out is not None and row.has_sub_allocations else None,
        unallocated=amount(row.unallocated) if row.unallocated is not None and row.has_sub_allocations else "",
        over=_("%(n)s over-allocated") % {"n": amount(row.over_committed)} if row.over_committed else "",
        expected=amount(due) if due is not None else "",
        basis="" if due is None else _("basis: allocation") if has_allocation(row) else _("basis: shares"),
        delivered=amount(row.delivered),
        bar=_bar(row),
        remaining=remaining_text(row),
        pace=pace_of(row),
        allocation_url=f"{url}?{query_of(table.period)}#allocate" if row.may_allocate else "",
        parent=row.path.rpartition("/")[0].lstrip("/") if row.level > 0 else "",
    )


def worst_first(lines: Sequence[AllocationLine]) -> list[AllocationLine]:
    """Furthest from an even pace first; those of which it isn't known last. Others keep their order."""
    return sorted(lines, key=lambda line: -1.0 if line.row.pace_part is None else abs(line.row.pace_part), reverse=True)


def _beyond(row: AllocationRow) -> str:
    if row.beyond is None:
        return ""
    whole, last = row.beyond
    return _("of %(n)s until %(day)s") % {"n": amount(whole), "day": presentation.calendar_day(last.isoformat())}


def _sub_allocated(row: AllocationRow, unit: str) -> str:
    """Sub-allocated hours in percent of the entry's allocation, else as an amount; empty if none or hidden."""
    if not row.has_sub_allocations or row.sub_allocated is None:
        return ""
    own = row.allocated
    if own:
        return number_texts.percent(row.sub_allocated / own, 0)
    return quantity(row.sub_allocated, unit)


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
    """Bar of delivered hours relative to the allocation or the shares; the tick marks an even pace."""
    whole = row.allocated or row.expected_whole
    due = due_of(row)
    if not whole or row.delivered is None or due is None:
        return None
    drawn = bars.draw(
        actual=row.delivered / whole,
        target=due / whole,
        maximum=_REACH,
        state=_STATES.get(row.pace, State.ON),
        width=_BAR_WIDTH,
        tolerance=Tolerance(PACE_TOLERANCE, 0.0),
    )
    return replace(drawn, track_width=round((_BAR_WIDTH - 2) / _REACH, 1))


def has_allocation(row: AllocationRow) -> bool:
    return bool(row.allocated) and row.parent_uid is not None


def due_of(row: AllocationRow) -> float | None:
    """Hours expected by now, by which the pace is judged: of the allocation, else of the shares."""
    return row.due if has_allocation(row) else row.expected


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
        return Balance(State.NO_DATA, "", _("no data") if row.delivered is None else _("no basis"))
    part = number_texts.percent(abs(row.pace_part), 0)
    word = _("ahead") if row.pace == "ahead" else _("behind")
    if row.pace_part > 10:
        part = _("more than tenfold")
    return Balance(_STATES[row.pace], part, word)


def remaining_text(row: AllocationRow) -> str:
    if row.remaining is None:
        return ""
    return amount(max(row.remaining, 0.0))


@dataclass(frozen=True, slots=True)
class Verdict:
    """Headline of the page with an explanation. key: over, none, part, amount, no_capacity or fits."""

    key: str
    title: str
    text: str


def verdict(table: AllocationTable) -> Verdict:
    """Headline on whether the allocations of the group fit its own allocation or the capacity."""
    when, group, unit = period_text(table.period), table.group, table.unit.symbol
    if table.is_over:
        return _over_allocated(table)
    if all(row.allocated is None for row in table.rows):
        text = _("Shares decide how much each entry gets.")
        return Verdict("none", _("No %(unit)s are allocated in %(when)s") % {"unit": unit, "when": when}, text)
    if group.allocated is None:
        if table.above:
            text = _("%(name)s has no allocation, so its sub-allocations draw on the entry above.")
            return Verdict("amount", _amount_title(group, when, unit), text % {"name": group.name})
        text = _("Capacity is needed to convert shares to amounts and to check allocations.")
        return Verdict("no_capacity", _amount_title(group, when, unit), text)
    words = {
        "out": amount(group.sub_allocated),
        "own": quantity(group.allocated, unit),
        "kept": amount(group.unallocated),
    }
    if group.sub_allocated is None:
        return Verdict("part", _("Allocations in %(when)s") % {"when": when}, _("Not all entries are visible to you."))
    text = _("%(out)s of %(own)s are sub-allocated; %(kept)s are unallocated.") % words
    return Verdict("fits", _("Allocations in %(when)s fit the capacity") % {"when": when}, text)


def _amount_title(group: AllocationRow, when: str, unit: str) -> str:
    if group.sub_allocated is None:
        return _("Allocations in %(when)s") % {"when": when}
    return _("%(n)s are allocated in %(when)s") % {"n": quantity(group.sub_allocated, unit), "when": when}


def _over_allocated(table: AllocationTable) -> Verdict:
    worst = max(table.is_over, key=lambda row: row.over_committed or 0)
    if len(table.is_over) == 1:
        title = _("%(name)s is over-allocated") % {"name": worst.name}
    else:
        n = len(table.is_over)
        title = _("%(n)s over-allocated") % {"n": n}
    text = _(
        "Sub-allocations of %(name)s total %(out)s, %(over)s more than it has. Shares are unaffected, but not all "
        "allocations can be met."
    ) % {
        "name": worst.name,
        "out": quantity(worst.sub_allocated, table.unit.symbol),
        "over": amount(worst.over_committed),
    }
    return Verdict("over", title, text)


def kpis(table: AllocationTable) -> list[dict[str, str]]:
    """Four key figures of the group: its allocation, sub-allocations, and expected and delivered hours."""
    group, on = table.group, table.on_allocations
    own, out, due = group.allocated, group.sub_allocated, group.due
    label = _("Allocated") if table.above else _("Capacity")
    unit = table.unit.symbol
    note = unit if own is not None else "–"
    part = f"{unit} · {number_texts.percent(out / own, 0)}" if out is not None and own else ""
    has_capacity = table.capacity is not None and not table.above
    url = reverse("pages:capacities", kwargs={"policy": table.policy_slug}) if has_capacity else ""
    cards = [
        {"label": f"{label}, {period_text(table.period)}", "value": amount(own), "note": note, "url": url},
        {"label": _("Sub-allocated"), "value": amount(out), "note": part or unit},
    ]
    if on is None or (table.above and due is not None):
        cards.append({"label": _("Expected"), "value": amount(due), "note": unit})
        note = _delivered_note(group, unit)
        delivered = {"label": _("Delivered"), "value": amount(group.delivered), "note": note}
        return [*cards, delivered]
    pace = pace_of(on)
    total = _("%(n)s in total") % {"n": quantity(group.delivered, unit)}
    notes = [unit, pace.text, total]
    cards.append({"label": _("Expected on allocations"), "value": amount(on.due), "note": unit})
    cards.append({"label": _("Delivered on allocations"), "value": amount(on.delivered), "note": " · ".join(notes)})
    return cards


def _delivered_note(group: AllocationRow, unit: str) -> str:
    if group.suppressed:
        return _("not shown")
    if group.delivered is None:
        return _("No usage data.")
    if group.pace in ("ahead", "behind"):
        return f"{number_texts.percent(abs(group.pace_part or 0), 0)} {pace_of(group).word}"
    return unit


def unit_choices(table: AllocationTable, query: str) -> list[dict[str, Any]]:
    """Links to the table in each unit that an allocation or a capacity has, and in the shown one; empty if only one."""
    shown = [unit for unit in table.units if unit.symbol in table.used or unit == table.unit]
    if len(shown) < 2:
        return []
    return [
        {
            "label": unit.symbol,
            "title": unit.name,
            "query": f"{query}&{urlencode({'unit': unit.symbol})}",
            "is_chosen": unit == table.unit,
        }
        for unit in shown
    ]


def gap_text(table: AllocationTable) -> str:
    """Sentence on days without a recorded capacity, if other days of the period have one."""
    if not table.capacities or not table.uncovered:
        return ""
    first = table.uncovered[0]
    n = sum(gap.n_days for gap in table.uncovered)
    words = ngettext(
        "No capacity is recorded for %(n)s day (%(days)s).", "No capacity is recorded for %(n)s days (%(days)s).", n
    )
    return words % {"n": number_texts.count(n), "days": period_text(first)}


def csv_header() -> list[str]:
    return [
        "path",
        "kind",
        "starts_on",
        "ends_on",
        "unit",
        "allocated",
        "share_of_parent",
        "sub_allocated",
        "unallocated",
        "over_committed",
        "expected",
        "due",
        "delivered",
        "remaining",
        "pace",
    ]


def csv_row(row: AllocationRow, unit: str) -> Sequence[Any]:
    days = row.days
    numbers = (
        row.allocated,
        row.share_of_parent,
        row.sub_allocated,
        row.unallocated,
        row.over_committed,
        row.expected,
        row.due,
        row.delivered,
        row.remaining,
    )
    first, last = (days.starts_on.isoformat(), days.ends_on.isoformat()) if days else ("", "")
    return [row.path, row.kind, first, last, unit, *("" if number is None else number for number in numbers), row.pace]


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
