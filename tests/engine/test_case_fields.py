"""Fields of cases and scenarios: what is read, what an absent field gives, and what a refusal names."""

from __future__ import annotations

from typing import Any

import pytest

from apps.engine.case_fields import (
    read_flag,
    read_integer,
    read_list,
    read_number,
    read_table,
    refuse_repeated,
    refuse_unknown,
)
from apps.engine.case_text import read_cases
from apps.engine.errors import BadCase


def _refusal(read: Any, *arguments: object, **options: Any) -> tuple[str, str]:
    """Place and message."""
    with pytest.raises(BadCase) as refused:
        read(*arguments, **options)
    return refused.value.place, refused.value.message


def _repeated(name: str) -> Any:
    """A section whose text gives this name twice."""
    return read_cases(f'{{"{name}": 1, "{name}": 2}}')[0]


def test_numbers_are_read_within_their_bounds_both_included() -> None:
    assert [read_number({"x": n}, "x", "at", minimum=2, maximum=5) for n in (2, 2.0, 3.5, 5)] == [2, 2.0, 3.5, 5]
    refused: list[Any] = [1.999, 5.001, "3", True, [3], float("inf"), float("nan")]
    for value in refused:
        place, message = _refusal(read_number, {"x": value}, "x", "at", minimum=2, maximum=5)
        assert place == "at.x"
        assert message.endswith("can't be used; a number from 2 to 5 is allowed")


def test_an_absent_number_is_its_default_or_is_missed_by_name() -> None:
    assert read_number({}, "x", "at", default=7) == 7
    assert read_number({"x": None}, "x", "at", default=None) is None
    assert _refusal(read_number, {}, "x", "") == ("x", "is missing; a finite number is allowed")
    at_least = _refusal(read_number, {}, "x", "at", minimum=0)
    assert at_least == ("at.x", "is missing; a finite number ≥ 0 is allowed")


def test_integers_are_read_within_their_bounds_both_included() -> None:
    def read(value: Any) -> int:
        return read_integer({"n": value}, "n", "at", default=9, minimum=2, maximum=5)

    assert [read(value) for value in (2, 3.0, 5, None)] == [2, 3, 5, 9]
    assert type(read(3.0)) is int
    assert read_integer({}, "n", "at", default=9, minimum=2, maximum=5) == 9
    refused: list[Any] = [1, 6, 2.5, "3", False, {}, float("nan")]
    for value in refused:
        place, message = _refusal(read, value)
        assert place == "at.n"
        assert message.endswith("can't be used; an integer from 2 to 5 is allowed")


def test_flags_are_true_or_false_alone() -> None:
    assert (read_flag({"f": True}, "f"), read_flag({"f": False}, "f")) == (True, False)
    assert read_flag({}, "f") is False
    assert read_flag({"f": None}, "f") is False
    refused: list[Any] = [1, 0, "true", []]
    for value in refused:
        place, message = _refusal(read_flag, {"f": value}, "f")
        assert place == "f"
        assert message.endswith("can't be used; true or false is allowed")


def test_tables_are_objects_and_only_required_ones_must_be_there() -> None:
    assert read_table({"t": {"a": 1}}, "t") == {"a": 1}
    assert read_table({"t": {"a": 1}}, "t", is_required=True) == {"a": 1}
    assert read_table({}, "t") == {}
    missing = ("t", "is missing; an object of names and numbers is allowed")
    assert _refusal(read_table, {}, "t", is_required=True) == missing
    for is_required in (True, False):
        place, message = _refusal(read_table, {"t": [1]}, "t", is_required=is_required)
        assert (place, message.endswith("can't be used; an object of names and numbers is allowed")) == ("t", True)
    assert _refusal(read_table, {"t": _repeated("b")}, "t") == ("t.b", "given twice")


def test_lists_are_lists_alone() -> None:
    assert read_list({"l": [1, 2]}, "l") == [1, 2]
    assert read_list({}, "l") == []
    assert read_list({"l": []}, "l") == []
    for value in ({"a": 1}, "ab", 0):
        place, message = _refusal(read_list, {"l": value}, "l")
        assert (place, message.endswith("can't be used; a list is allowed")) == ("l", True)


def test_an_unknown_name_is_refused_with_the_nearest_known_one() -> None:
    refuse_unknown({"shares": 1, "decay": 2}, ("shares",), "at", without_effect=("decay",))
    assert _refusal(refuse_unknown, {"share": 1, "shares": 2}, ("shares", "usage"), "at") == (
        "at",
        'unknown name "share"; the nearest allowed name is shares',
    )
    near_one_without_effect = _refusal(refuse_unknown, {"deca": 1}, ("usage",), "at", without_effect=("decay",))
    assert near_one_without_effect[1] == 'unknown name "deca"; the nearest allowed name is decay'


def test_without_a_near_one_the_known_names_are_listed_up_to_forty() -> None:
    names = [f"known{number:02}" for number in range(41)]
    _place, message = _refusal(refuse_unknown, {"zzz": 1, "qqq": 2}, names[::-1], "")
    assert message == f'unknown name "qqq"; allowed are {", ".join(names[:40])}'


def test_only_a_section_that_repeats_a_name_is_refused_for_it() -> None:
    refuse_repeated({"a": 1}, "at")
    assert _refusal(refuse_repeated, _repeated("a"), "at") == ("at.a", "given twice")
