"""What the strict parser refuses, and where it says the fault is."""

from __future__ import annotations

import io
import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.core.json_values import MOST_JSON_DEPTH
from apps.web.rest.body_limits import MB, Limit
from apps.web.rest.errors import Refusal
from apps.web.rest.parsing import loads, read_bounded, read_json

LIMIT = Limit(MB, 1_000_000)

SANE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**18), 10**18)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=4),
)


@given(SANE)
def test_valid_json_is_parsed_like_the_standard_library(data: object) -> None:
    body = json.dumps(data).encode()
    assert loads(body) == json.loads(body)


@given(st.binary(max_size=60) | st.text('[]{}",:\\uN0a1e9 ', max_size=40).map(str.encode))
@pytest.mark.fault("F29")
def test_any_bytes_are_parsed_or_refused_without_a_crash(body: bytes) -> None:
    with suppress(Refusal):
        loads(body)


@pytest.mark.parametrize(
    ("body", "code", "where"),
    [
        (b'{"a": [1, NaN]}', "not_finite", "a[1]"),
        (b'{"a": {"b": -Infinity}}', "not_finite", "a.b"),
        (b'{"a": {"b": 1e999}}', "not_finite", "a.b"),
        (b"[[1, 1" + b"0" * 4300 + b"]]", "number_too_long", "[0][1]"),
        (b'{"x": [{"b": 1}, {"b": 1, "c": 2, "b": 3}]}', "duplicate_key", "x[1].b"),
        (b'{"a": ["fine", "\\ud800"]}', "bad_text", "a[1]"),
        (b'{"a": "\\u0000"}', "bad_text", "a"),
        (b'{"a\\u0000": 1}', "bad_text", "body"),
        (b'{"a": "\xff"}', "bad_json", "byte 7"),
        (b'{"a": 1,\n "b" 2}', "bad_json", "line 2, column 6"),
        (b"", "bad_json", "line 1, column 1"),
        (b"[1] [2]", "bad_json", "line 1, column 5"),
    ],
)
def test_ambiguous_json_is_refused_with_the_location(body: bytes, code: str, where: str) -> None:
    with pytest.raises(Refusal) as refused:
        loads(body)
    assert (refused.value.code, refused.value.fields[0].where) == (code, where)


def test_an_escaped_character_pair_is_one_character() -> None:
    assert loads(b'["\\ud83d\\ude00", "\\\\ud800"]') == ["😀", "\\ud800"]


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_a_hundred_thousand_nested_values_are_refused_before_parsing(opening: bytes) -> None:
    with pytest.raises(Refusal) as refused:
        loads(opening * 100_000)
    assert refused.value.code == "too_deep"


def test_brackets_inside_strings_do_not_count_as_depth() -> None:
    body = json.dumps(["[{" * 1000, '\\"[' * 1000]).encode()
    assert loads(body) == json.loads(body)


def test_depth_is_allowed_exactly_up_to_the_limit() -> None:
    assert loads(b"[" * MOST_JSON_DEPTH + b"]" * MOST_JSON_DEPTH)
    with pytest.raises(Refusal):
        loads(b"[" * (MOST_JSON_DEPTH + 1) + b"]" * (MOST_JSON_DEPTH + 1))


@pytest.mark.parametrize(
    "body", [b'"' + b'\\"' * 300_000, b"[" * 201 + b'"' * 300_001, b"{" + b",".join([b'"a":1'] * 100_000) + b"}"]
)
def test_adversarial_bodies_take_linear_time(body: bytes) -> None:
    with pytest.raises(Refusal):
        loads(body)


def test_a_body_over_the_limit_is_refused_before_all_of_it_is_read() -> None:
    stream = io.BytesIO(b" " * (MB + 1000))
    with pytest.raises(Refusal) as refused:
        read_bounded(stream, LIMIT)
    assert refused.value.status == 413
    assert stream.tell() == MB + 1


@pytest.mark.parametrize(
    "body", [b"[" + b"{}," * 600 + b"{}]", b"[" + b'"",' * 1_001 + b'""]', b'{"a":' + b'""' * 5_000]
)
def test_a_body_with_more_values_than_the_limit_is_refused_before_parsing(
    body: bytes,
) -> None:
    stream = io.BytesIO(body + b" " * 3 * MB)
    with pytest.raises(Refusal) as refused:
        read_json(stream, Limit(8 * MB, 1_000))
    assert stream.tell() == MB, "the rest is left unread"
    assert (refused.value.status, refused.value.code) == (413, "too_large")
    assert "more than 1,000 values" in refused.value.message
