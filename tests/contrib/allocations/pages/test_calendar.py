"""Beginnings and ends of shares and allocations in the calendar: in which words, where they lead, which need care."""

from __future__ import annotations

from datetime import date
from typing import Any
from uuid import UUID, uuid4

import pytest

from apps.contrib.allocations.pages.calendar import draw_event, end_text
from apps.contrib.allocations.summary import Event
from apps.contrib.allocations.upcoming import Upcoming
from apps.policies.models import Allocation
from apps.policies.tree.terms import Dates
from apps.web.shell import presentation
from tests.instants import AT
from tests.pages.page import names_in

UID = uuid4()
NEXT = date(2026, 12, 1)
YEAR = {"starts_on": date(2026, 1, 1), "ends_on": date(2026, 12, 31)}


def upcoming(*, may_allocate: bool = True) -> Upcoming:
    def may(_uid: UUID) -> bool:
        return may_allocate

    return Upcoming("grid", "SweGrid", AT.date(), AT, [], may)


def event(kind: str, on: date = NEXT, **more: Any) -> Event:
    return Event(on, kind, UID, "/atlas", "atlas", 60.0, **more)


def allocation(amount: float, **days: date) -> Allocation:
    return Allocation(entry_uid=UID, amount=amount, **(YEAR | days))


def test_the_first_day_of_shares_states_them_where_they_change() -> None:
    kept = draw_event(upcoming(), event("shares_begin", dates=Dates(starts_on=NEXT)))
    new = draw_event(upcoming(), event("shares_begin", dates=Dates(starts_on=NEXT, shares=35.0)))
    assert names_in(new.text, presentation.shares(35.0))
    assert not any(letter.isdigit() for letter in kept.text)
    assert [line.is_alert for line in (kept, new)] == [False, False]


@pytest.mark.parametrize(
    ("at_end", "numbers"),
    [("keep", ["60"]), ("archive", []), ("zero", ["60", "0"]), (12.5, ["60", "12.5"])],
)
def test_the_last_day_of_shares_states_what_follows(at_end: str | float, numbers: list[str]) -> None:
    dates = Dates(ends_on=NEXT, at_end=at_end)
    words = end_text(60.0, dates)
    assert names_in(words, *numbers)
    assert any(letter.isdigit() for letter in words) == bool(numbers)
    assert draw_event(upcoming(), event("shares_end", dates=dates)).text == words


def test_the_beginning_of_an_allocation_states_its_core_hours() -> None:
    line = draw_event(upcoming(), event("allocation_begins", allocation=allocation(4000)))
    assert names_in(line.text, "4,000")
    assert (line.is_alert, line.renew_url) == (False, "")


def test_an_allocation_that_is_followed_by_another_needs_no_care() -> None:
    following = allocation(5000, starts_on=date(2027, 1, 1), ends_on=date(2027, 12, 31))
    line = draw_event(upcoming(), event("allocation_ends", allocation=allocation(4000), successor=following))
    assert names_in(line.text, "4,000", "5,000", "1 Jan 2027")
    assert (line.is_alert, line.renew_url) == (False, "")


def test_an_allocation_without_a_successor_is_renewed_by_whoever_may() -> None:
    ends = event("allocation_ends", allocation=allocation(4000))
    line = draw_event(upcoming(), ends)
    assert line.is_alert
    assert "amount=4000&starts=2027-01-01&ends=2027-12-31#" in line.renew_url
    assert draw_event(upcoming(may_allocate=False), ends).renew_url == ""
