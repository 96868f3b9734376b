"""Numbers as people type them: what is read, what can be read in two ways, what is none."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.core.typed_numbers import AmbiguousNumber, read_amount, read_number, read_whole
from tests.each_case import each_case

Read = Callable[[str], float]


@each_case("read", [read_number, read_amount])
@each_case(
    ("typed", "value"),
    [
        ("20", 20.0),
        (" 0,5 ", 0.5),
        ("0.5", 0.5),
        (".5", 0.5),
        ("1e3", 1e3),
        ("0,500", 0.5),
        ("1 000", 1000.0),
        ("4\u202f200\u202f000", 4.2e6),
        ("4’200’000", 4.2e6),
        ("4,200,000", 4.2e6),
        ("4.200.000", 4.2e6),
        ("1,234.5", 1234.5),
        ("1.234,5", 1234.5),
        ("12345,678", 12345.678),
    ],
)
def test_points_commas_and_groups_are_read(typed: str, value: float, read: Read) -> None:
    assert read(typed) == value


def test_three_digits_after_a_comma_are_a_group_only_in_amounts() -> None:
    assert read_amount("1,234") == read_amount("1.234") == 1234.0
    assert read_number("1.234") == 1.234
    with pytest.raises(AmbiguousNumber, match=r"1,234.*1234.*1\.234"):
        read_number("1,234")


@each_case("read", [read_number, read_amount])
@each_case("typed", ["", "nan", "inf", "1e999", "twenty", "1,2,3", "1_000", "٣", "0x10", "1,23.4", "--1", "1" * 400])
def test_anything_else_is_refused(typed: str, read: Read) -> None:
    with pytest.raises(ValueError, match="number"):
        read(typed)


def test_an_amount_is_never_negative() -> None:
    assert read_number("-3") == -3.0
    with pytest.raises(ValueError, match="number"):
        read_amount("-3")


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_printed_numbers_parse_to_themselves(value: float) -> None:
    assert read_number(repr(value)) == value


@pytest.mark.parametrize(
    ("typed", "number"),
    [
        ("0", 0),
        ("17", 17),
        ("9" * 18, 10**18 - 1),
        ("9" * 19, None),
        ("", None),
        ("-1", None),
        ("1.0", None),
        ("²", None),
    ],
)
def test_integers_of_addresses_fit_a_column(typed: str, number: int | None) -> None:
    assert read_whole(typed) == number


def test_fewer_digits_can_be_required() -> None:
    assert read_whole("1234", 3) is None
