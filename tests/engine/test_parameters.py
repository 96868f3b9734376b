"""Values of parameters: what is allowed is said, and nothing else is read."""

from __future__ import annotations

import math
from typing import Any

import pytest

from apps.engine.decay import Window
from apps.engine.errors import BadParameter
from apps.engine.parameters import choice, integer, number, read_settings

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


@pytest.mark.parametrize(
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
