"""Forms of core-hours and of dates: which field is wrong and why, and periods in words."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest
from django.forms import ValidationError

from apps.contrib.allocations.pages.forms import AmountField, DatesForm, RemoveDatesForm, period_text
from apps.contrib.allocations.periods import Period

WHOLE = {"starts_on": "2027-01-01", "ends_on": "2027-12-31", "at_end": "keep", "reason": "x", "base_revision": "1"}


def codes(form: DatesForm) -> dict[str, list[str | None]]:
    return {name: [error.code for error in errors] for name, errors in form.errors.as_data().items()}


@pytest.mark.parametrize(
    ("more", "refused"),
    [
        ({}, {}),
        ({"starts_on": "", "ends_on": ""}, {"ends_on": ["no_day"]}),
        ({"starts_on": "2028-01-01"}, {"ends_on": ["ends_before_it_begins"]}),
        ({"starts_on": "", "shares": "5"}, {"starts_on": ["no_first_day"]}),
        ({"at_end": "number"}, {"shares_then": ["no_shares_then"]}),
        ({"at_end": "number", "shares_then": "inherit"}, {"shares_then": ["number"]}),
        ({"shares": "inherit"}, {"shares": ["number"]}),
        ({"at_end": "zero", "ends_on": ""}, {"ends_on": ["no_last_day"]}),
        ({"at_end": "keep", "ends_on": ""}, {}),
    ],
)
def test_dates_that_do_not_fit_are_refused_at_their_field(more: dict[str, str], refused: dict[str, list[str]]) -> None:
    assert codes(DatesForm({**WHOLE, **more})) == refused


@pytest.mark.parametrize(
    ("more", "dates"),
    [
        ({"ends_on": ""}, {"ends_on": None}),
        ({"at_end": ""}, {}),
        ({"shares": "12,5", "at_end": "number", "shares_then": "3"}, {"shares": 12.5, "at_end": 3.0}),
    ],
)
def test_valid_dates_become_the_operation(more: dict[str, str], dates: dict[str, Any]) -> None:
    form = DatesForm({**WHOLE, **more})
    assert codes(form) == {}
    whole = {"starts_on": "2027-01-01", "ends_on": "2027-12-31", "shares": None, "at_end": "keep"}
    assert form.dates == whole | dates


def test_dates_are_removed_whatever_else_is_typed() -> None:
    form = RemoveDatesForm({**WHOLE, "starts_on": "never", "shares": "many", "shares_then": "inherit"})
    assert (codes(form), form.dates) == ({}, None)
    assert codes(RemoveDatesForm({**WHOLE, "reason": ""})) == {"reason": ["required"]}


@pytest.mark.parametrize(("typed", "code"), [("101", "large"), ("many", "number"), ("-1", "number"), ("", "required")])
def test_an_amount_outside_its_bounds_is_refused(typed: str, code: str) -> None:
    with pytest.raises(ValidationError) as refused:
        AmountField(100.0).clean(typed)
    assert [error.code for error in refused.value.error_list] == [code]
    assert AmountField(100.0).clean("100") == 100


@pytest.mark.parametrize(
    ("first", "last", "text"),
    [
        ("2026-01-01", "2026-12-31", "2026"),
        ("2026-03-01", "2026-03-31", "March 2026"),
        ("2026-04-01", "2026-12-31", "1 Apr to 31 Dec 2026"),
        ("2026-07-01", "2027-06-30", "1 Jul 2026 to 30 Jun 2027"),
    ],
)
def test_a_period_has_the_shortest_clear_text(first: str, last: str, text: str) -> None:
    assert period_text(Period(date.fromisoformat(first), date.fromisoformat(last))) == text
