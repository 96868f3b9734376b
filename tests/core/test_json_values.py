"""The number of values of JSON text, counted without a parser."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.core import json_values
from apps.core.json_values import has_more_values

LEAVES = st.none() | st.booleans() | st.integers() | st.text(alphabet='a,[{"\\\n')
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet='k,["\\'), inner))


def count(value: Any) -> int:
    """All values but the outermost; an empty list or object once more."""
    if not isinstance(value, list | dict):
        return 0
    inner = list(value.values()) if isinstance(value, dict) else value
    return max(len(inner), 1) + sum(map(count, inner))


@given(VALUES, st.booleans())
def test_values_are_counted_as_a_parser_has_them(value: Any, is_spaced: bool) -> None:
    text = json.dumps(value, indent=1 if is_spaced else None).encode()
    assert not has_more_values(text, count(value))
    assert count(value) == 0 or has_more_values(text, count(value) - 1)


@given(VALUES, st.integers(1, 9))
def test_pieces_divide_no_string_and_no_escape(value: Any, n_bytes: int) -> None:
    text = json.dumps(value).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_values, "PIECE_BYTES", n_bytes)
        assert not has_more_values(text, count(value))
        assert count(value) == 0 or has_more_values(text, count(value) - 1)


@pytest.mark.parametrize("text", [b"{}," * 1_000, b"[" * 1_000, b'""' * 5_000, b'"\\"' + b'",[' * 3_000, b"," * 1_000])
def test_text_that_is_no_json_is_counted_too(text: bytes) -> None:
    assert has_more_values(text, 500)


def test_nothing_has_no_value() -> None:
    assert not any(has_more_values(text, 0) for text in (b"", b" ", b'"' + b"\\\\" * 100 + b'"', b"7"))
