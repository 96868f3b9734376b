"""YAML as people write it, and malformed YAML."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from apps.core.errors import Invalid, TooLarge
from apps.policies.formats import yaml_document
from apps.policies.formats.yaml_document import _scalar
from apps.policies.tree.columns import TreeColumns
from tests.policies.formats.round_trip import read, text_of_tree
from tests.policies.share_trees import NASTY, trees


@given(tree=trees())
def test_other_yaml_readers_agree(tree: TreeColumns) -> None:
    data = yaml.safe_load(text_of_tree("yaml", tree))
    assert data["revision"] == 7
    entries, level = [data["root"]], [(0, data["root"])]
    while level:
        below: list[tuple[int, Any]] = []
        for i, entry in level:
            listed = tree.listed_children(i)
            assert [child["name"] for child in entry.get("children", ())] == [tree.name[child] for child in listed]
            below += zip(listed, entry.get("children", ()), strict=True)
        entries += [entry for _, entry in below]
        level = below
    assert len(entries) == len(tree)


@given(st.sampled_from(NASTY) | st.floats(0, 1e15) | st.integers(0, 10**15) | st.booleans())
def test_a_scalar_is_read_literally(value: object) -> None:
    assert yaml.safe_load(_scalar(value)) == value


def problems(text: str) -> dict[str, str]:
    with pytest.raises(Invalid) as refusal:
        read("yaml", text)
    return {field.where: field.message for field in refusal.value.fields}


def test_every_error_is_reported_with_line_and_path() -> None:
    text = """\
policy: grid
root:
  name: grid
  children:
    - name: physics
      shares: -1
      children:
        - {name: alice, shares: 1}
        - {name: alice, shares: 2}
        - name: "b\\u202Eb"
    - name: bio
      weight: 3
      children: lab
    - kind: vo
"""
    found = problems(text)
    assert list(found) == [
        "line 6, /physics: shares",
        "line 9, /physics: children[1]",
        "line 10, /physics: children[2]",
        "line 12, /bio: weight",
        "line 13, /bio: children",
        "line 14, /: children[2]",
    ]
    assert "U+202E" in found["line 10, /physics: children[2]"]


def test_wrong_settings_are_named_with_their_line() -> None:
    text = "settings:\n  window:\n    half_life_s: 0\n    length_s: x\nroot: {name: r}\n"
    assert {where.split(",")[0] for where in problems(text)} == {"line 3", "line 4"}


BOMB = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [*{chr(97 + i)}, *{chr(97 + i)}]\n" for i in range(20)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, "line 2: aliases"),
        ("root: !!python/object/apply:os.system [ls]", "line 1: the tag"),
        ("root: {name: !secret x}", "line 1: the tag"),
        ("root:\n  name: a\n  <<: {shares: 3}", "is unknown"),
        ("root:\n\tname: a", "line 2"),
        ("- a\n- b", "is an object with a root entry"),
        ("x", "is an object with a root entry"),
        ("root: {name: a, children: [{name: 1}]}", "put it in quotes"),
        ("root: {name: a, children: [{name: b, shares: 30%}]}", "not text"),
        ("root: {name: a, children: [{name: b, dates: {ends_on: soon}}]}", "2027-03-31"),
        ("root: {name: a, children: [{name: b, members: [{}]}]}", "a condition is needed"),
        ("root: {name: a, dates: {ends_on: 2027-03-31}}", "the root has no shares"),
    ],
)
def test_unknown_fields_are_rejected(text: str, message: str) -> None:
    with pytest.raises(Invalid) as refusal:
        read("yaml", text)
    assert message in refusal.value.message


@pytest.mark.parametrize("text", ["[{}]", "{{{}}}"])
def test_a_document_has_a_limit_of_values(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(yaml_document, "MOST_POLICY_VALUES", 100)
    few, many = (", ".join(f"k{n}: 1" if "{{" in text else "1" for n in range(count)) for count in (90, 300))
    yaml_document.load_yaml(text.format(few))
    with pytest.raises(TooLarge, match="more than 100 values"):
        yaml_document.load_yaml(text.format(many))
