"""No answer holds a bare Infinity or NaN: whatever numbers come in, the JSON is strict and says which they were."""

from __future__ import annotations

import ast
import json
from collections import OrderedDict
from collections.abc import Iterator
from math import inf, isinf, isnan, nan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from django.conf import settings as django_settings
from django.http import StreamingHttpResponse
from hypothesis import given
from hypothesis import strategies as st
from rest_framework.response import Response
from rest_framework.utils import serializer_helpers

from apps.web.rest.priority_fields import NumberField
from apps.web.rest.rendering import JSONRenderer, dumps, flowing_response
from tests.examples import examples

APPS = Path(__file__).resolve().parents[3] / "apps"
REST = [*APPS.glob("web/rest/**/*.py"), *APPS.glob("**/api/*.py"), *APPS.glob("**/*api.py")]


ReturnDict: Any = serializer_helpers.ReturnDict
ReturnList: Any = serializer_helpers.ReturnList


class Pair(NamedTuple):
    first: Any
    second: Any


def strictly(data: bytes) -> Any:
    def refuse(name: str) -> Any:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(data, parse_constant=refuse)


def expected_of(value: Any) -> Any:
    """The slow twin: the expected text of a value."""
    if isinstance(value, np.ndarray | np.floating):
        return expected_of(value.tolist())
    if isinstance(value, dict):
        return {key: expected_of(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [expected_of(each) for each in value]
    if isinstance(value, float) and (isnan(value) or isinf(value)):
        return None if isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


numbers = st.one_of(st.floats(), st.sampled_from([inf, -inf, nan, -0.0, 5e-324, 1.7e308]))
leaves = st.one_of(
    numbers,
    st.none(),
    st.booleans(),
    st.integers(-(2**53), 2**53),
    st.text(max_size=9),
    numbers.map(np.float64),
    st.lists(numbers, max_size=5).map(np.array),
    st.lists(numbers, min_size=4, max_size=4).map(lambda four: np.array(four).reshape(2, 2)),
)
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.tuples(inner, inner).map(lambda two: Pair(*two)),
        st.dictionaries(st.text(max_size=5), inner, max_size=4),
        st.dictionaries(st.text(max_size=5), inner, max_size=4).map(OrderedDict),
        st.lists(inner, max_size=3).map(lambda some: ReturnList(some, serializer=None)),
        st.dictionaries(st.text(max_size=5), inner, max_size=3).map(lambda some: ReturnDict(some, serializer=None)),
    ),
    max_leaves=25,
)


@examples(60)  # on a busy machine, too
@given(trees)
def test_every_number_keeps_its_type(data: Any) -> None:
    assert strictly(dumps(data)) == expected_of(data)
    assert strictly(JSONRenderer().render(data)) == expected_of(data)


def test_rendering_does_not_modify_its_input() -> None:
    data = {"a": [1.0, inf], "b": {"c": nan}, "d": (1, -inf)}
    before = repr(data)
    assert dumps(data) == b'{"a":[1.0,"Infinity"],"b":{"c":null},"d":[1,"-Infinity"]}'
    assert repr(data) == before


@pytest.mark.parametrize("number", [inf, -inf])
def test_answer_fields_keep_infinities(number: float) -> None:
    found = NumberField().to_representation("Infinity" if number > 0 else "-Infinity")  # type: ignore[arg-type]
    assert strictly(dumps({"priority": found})) == {"priority": "Infinity" if number > 0 else "-Infinity"}


def test_all_json_is_rendered_by_one_function() -> None:
    """Another encoder in a module of REST would not know of all this; cursors are no answers."""
    encoders = []
    for path in sorted(REST):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr == "dumps" and isinstance(node.value, ast.Name):
                encoders.append(str(path.relative_to(APPS)))
            if isinstance(node, ast.Name) and node.id == "JsonResponse":
                encoders.append(str(path.relative_to(APPS)))
    assert encoders == ["web/rest/cursors.py", "web/rest/rendering.py"]


def test_the_framework_uses_this_renderer() -> None:
    assert django_settings.REST_FRAMEWORK["DEFAULT_RENDERER_CLASSES"] == ["apps.web.rest.rendering.JSONRenderer"]
    assert JSONRenderer().render(None, renderer_context={"response": Response(status=204)}) == b""


def test_of_a_long_body_one_megabyte_is_made_before_it_flows() -> None:
    made = []

    def pieces() -> Iterator[bytes]:
        for number in range(10):
            made.append(number)
            yield bytes([number]) * 400_000

    response = flowing_response(pieces(), content_type="text/plain")
    assert isinstance(response, StreamingHttpResponse)
    assert made == [0, 1, 2]
    assert b"".join(response) == b"".join(bytes([number]) * 400_000 for number in range(10))
