"""JSON as people write it, and malformed JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.core.errors import Invalid
from apps.policies.formats.json_document import json_places
from apps.policies.tree.columns import TreeColumns
from tests.policies.formats.round_trip import read, text_of_tree
from tests.policies.share_trees import trees

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda x: st.lists(x, max_size=4) | st.dictionaries(st.text(), x, max_size=4),
)


@given(anything, st.sampled_from([None, 1]))
def test_the_location_of_every_value_is_known(value: object, indent: int | None) -> None:
    def addresses(found: object, at: tuple[str | int, ...]) -> list[tuple[str | int, ...]]:
        pairs: list[tuple[str | int, object]] = []
        if isinstance(found, dict):
            pairs = list(found.items())
        elif isinstance(found, list):
            pairs = list(enumerate(found))
        return [at, *(place for key, below in pairs for place in addresses(below, (*at, key)))]

    assert [address for address, _ in json_places(json.dumps(value, indent=indent))] == addresses(value, ())


@given(tree=trees())
def test_each_line_has_one_entry(tree: TreeColumns) -> None:
    text = text_of_tree("json", tree)
    assert json.loads(text)["policy"] == "grid"
    assert len([line for line in text.split("\n") if '"uid"' in line]) == len(tree)


def test_every_error_is_reported_with_line_and_path() -> None:
    children = '{"name": "a", "shares": -1},\n{"name": "b",\n "locked": 2},\n{"name": "a"}'
    text = '{"root": {"name": "r", "children": [\n' + children + "]}}"
    with pytest.raises(Invalid) as refusal:
        read("json", text)
    assert [field.where for field in refusal.value.fields] == [
        "line 2, /a: shares",
        "line 4, /b: locked",
        "line 5, /: children[2]",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"root": {"name": "a", "name": "b"}}', "the key 'name' is repeated"),
        ('{"root": {"name": "a", "children": [{"name": "b", "shares": Infinity}]}}', "Infinity is not a valid number"),
        ('{"root": {"name": "a", "children": [{"name": "b", "shares": 1e999}]}}', "a number that large"),
        ('{"root": {"name": "\\ud800"}}', "U+D800"),
        ('{"root": {"name": "a"}}{}', "line 1"),
        ("{'root': 1}", "line 1"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_unknown_fields_are_rejected(text: str, message: str) -> None:
    with pytest.raises(Invalid) as refusal:
        read("json", text)
    assert message in refusal.value.message
