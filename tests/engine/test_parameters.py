"""Values of parameters: what is allowed is said, and nothing else is read."""

from __future__ import annotations

import math
from typing import Any

import pytest

from apps.engine.case_text import abbreviate, read_id, shown
from apps.engine.decay import Window
from apps.engine.errors import BadCase, BadParameter
from apps.engine.operator_trial import Definition
from apps.engine.parameters import choice, integer, number, read_settings
from tests.each_case import each_case

PARAMETERS = (
    integer("n", "Number", 5, 2, 7),
    number("x", "Number", 0.5, 0.25, 1.0),
    choice("word", "Word", "a", ("a", "b")),
)


@pytest.mark.parametrize(
    ("name", "value", "read"),
    [
        ("n", 2, 2),
        ("n", 7, 7),
        ("n", 3.0, 3),
        ("x", 0.25, 0.25),
        ("x", 1, 1.0),
        ("word", "b", "b"),
    ],
)
def test_values_are_allowed_up_to_both_ends_of_their_range(name: str, value: Any, read: Any) -> None:
    settings = read_settings("algorithm", PARAMETERS, {name: value})
    assert settings == {"name": "algorithm", "n": 5, "x": 0.5, "word": "a"} | {name: read}
    assert type(settings[name]) is type(read)


@each_case(
    ("name", "value"),
    [
        ("n", 1),
        ("n", 8),
        ("n", 2.5),
        ("n", True),
        ("n", "3"),
        ("n", math.inf),
        ("n", math.nan),
        ("x", 0.24),
        ("x", 1.01),
        ("x", True),
        ("x", "0.5"),
        ("x", math.nan),
        ("x", -math.inf),
        ("word", "c"),
        ("word", 1),
        ("word", ["a"]),
    ],
)
def test_a_value_outside_of_its_range_or_of_another_type_is_refused(name: str, value: Any) -> None:
    with pytest.raises(BadParameter, match="isn't allowed") as refusal:
        read_settings("algorithm", PARAMETERS, {name: value})
    assert refusal.value.place == f"algorithm.{name}"


@pytest.mark.parametrize(
    ("aging", "name"), [("exponential", "half_life_s"), ("linear", "length_s"), ("step", "granularity_s")]
)
def test_aging_without_the_duration_that_it_needs_is_refused_by_its_name(aging: str, name: str) -> None:
    with pytest.raises(BadParameter, match=f"aging '{aging}' needs it") as refusal:
        Window.of(aging, None if name == "length_s" else 3600.0)
    assert refusal.value.place == name


@pytest.mark.parametrize(("length", "is_whole"), [(78, True), (79, False)])
def test_a_refused_text_is_shown_up_to_eighty_characters_with_its_quotes(length: int, is_whole: bool) -> None:
    with pytest.raises(BadParameter) as refusal:
        read_settings("algorithm", PARAMETERS, {"word": "x" * length})
    assert ("x" * length in refusal.value.message) is is_whole
    assert ("…" in refusal.value.message) is not is_whole


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5, "5"),
        (-5, "-5"),
        (True, "true"),
        (None, "null"),
        (2**256 - 1, f"{str(2**256 - 1)[:50]}…"),
        (2**256, "beyond the largest number"),
        (["x"], "a list"),
        ({}, "an object"),
        ("x" * 58, f'"{"x" * 58}"'),
        ("x" * 59, f'"{"x" * 49}…'),
    ],
    ids=str,
)
def test_a_value_of_a_case_is_shown_as_it_was_written_and_cut_if_it_is_long(value: Any, text: str) -> None:
    assert shown(value) == text


def test_a_place_is_cut_in_its_middle_only_if_it_is_too_long() -> None:
    whole = "/".join("abcdefghi"[n % 9] * 9 for n in range(20))  # 199 characters
    assert [abbreviate(text) for text in (whole, f"{whole}x")] == [whole, f"{whole}x"]
    assert abbreviate(f"{whole}xy") == f"{whole[:100]}…{whole[-98:]}xy"


@pytest.mark.parametrize("lowest", [True, False])
@pytest.mark.parametrize("highest", [True, False])
def test_an_operator_has_boundaries_if_it_has_both(lowest: bool, highest: bool) -> None:
    definition = Definition(True, True, True, True, lowest, highest, True)
    assert definition.has_boundaries is (lowest and highest)


def test_the_name_of_a_case_is_text_a_finite_number_or_nothing() -> None:
    assert [read_id(value) for value in (None, "", "a", 0, 1.5)] == [None, "", "a", 0, 1.5]
    refused: list[object] = [True, [], math.inf, math.nan]
    for value in refused:
        with pytest.raises(BadCase, match="must be text or a number"):
            read_id(value)
