"""What may be typed as a number of shares."""

from __future__ import annotations

import pytest
from django.forms import ValidationError

from apps.pages.entry.forms import SharesForm
from apps.web.changes.share_input import read_shares, read_typed_shares


@pytest.mark.parametrize(
    ("typed", "value"),
    [("20", 20.0), (" 0,5 ", 0.5), ("0.5", 0.5), ("0", 0.0), ("1 000", 1000.0), ("inherit", "parent"), ("1e3", 1e3)],
)
def test_decimal_point_comma_and_inherit_are_accepted(typed: str, value: object) -> None:
    assert read_shares(typed) == value


@pytest.mark.parametrize("typed", ["-1", "nan", "inf", "1e999", "1e16", "twenty", "", "1,2,3", "1_000", "٣", "0x10"])
def test_anything_else_is_refused_with_a_reason(typed: str) -> None:
    with pytest.raises(ValidationError):
        read_shares(typed)


@pytest.mark.parametrize(("typed", "percent"), [("25 %", 25.0), ("12,5%", 12.5), (" 0 % ", 0.0), ("100 %", 100.0)])
def test_a_percentage_of_the_parent_is_read_where_shares_are_typed(typed: str, percent: float) -> None:
    assert read_typed_shares(typed) == {"percent": percent}


def test_a_number_is_a_percentage_only_in_percent_mode() -> None:
    assert read_typed_shares("25") == 25.0
    assert read_typed_shares("25", is_percent=True) == {"percent": 25.0}
    assert read_typed_shares("inherit", is_percent=True) == "parent"


@pytest.mark.parametrize("typed", ["101 %", "-1 %", "%", "abc %", "25 % %", "inherit %"])
def test_a_percentage_outside_of_its_range_is_refused(typed: str) -> None:
    with pytest.raises(ValidationError):
        read_typed_shares(typed)


def test_a_change_needs_a_reason_and_a_base_revision() -> None:
    form = SharesForm({"shares": "20", "reason": " ", "base_revision": ""})
    assert not form.is_valid()
    assert set(form.errors) == {"reason", "base_revision"}
