"""The one catalogue: every key has a text that can be filled, in one form for one and another for many."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from apps.priorities.sentences import build_message, numbers, text_of
from apps.priorities.sentences.catalogue import _FORMATS, TEXTS
from apps.priorities.sentences.numbers import adjustment_sentence
from tests.each_case import each_case
from tests.instants import AT

ROOMS = Path(__file__).resolve().parents[3] / "apps"


def sample(name: str) -> Any:
    """A value of the kind that a name implies."""
    if name in ("at", "since_at", "on", "earliest", "latest"):
        return AT
    if name in ("vector", "deviations"):
        return [0.5, -0.25]
    if name in ("parts", "problems", "schedulers", "leads", "partitions"):
        return ["1", "2"]
    return 2 if name in _FORMATS else "x"


class Asked(dict[str, Any]):
    """Notes what a text asks for."""

    def __missing__(self, name: str) -> str:
        self[name] = ""
        return ""


def holes(key: str) -> set[str]:
    """Of both forms, where there are two."""
    found: set[str] = set()
    for count in (1, 2):
        asked = Asked(count=count)
        str(TEXTS[key] % asked)
        found |= asked.keys()
    return found - {"count"}


@each_case("key", sorted(TEXTS))
def test_every_text_is_filled_by_values_of_its_names(key: str) -> None:
    for n in (1, 2):
        values = {name: sample(name) for name in holes(key)} | {"n": n, "n_siblings": n}
        found = build_message(key, **values)
        assert found.text
        assert "%" not in found.text.replace("\u00a0%", "")
        assert json.dumps(found.json(), allow_nan=False)


def test_every_used_message_key_exists() -> None:
    collected = set()
    for path in ROOMS.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)) if "build_message(" in source else ():
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "build_message" and node.args:
                collected |= {
                    leaf.value
                    for leaf in ast.walk(node.args[0])
                    if isinstance(leaf, ast.Constant) and re.fullmatch(r"\w+\.\w+", str(leaf.value))
                }
    assert len(collected) > 20
    assert {key for key in collected if key not in TEXTS} == set()


def test_singular_and_plural_differ() -> None:
    one, many = (build_message("ahead.some_you", n_ahead=n, n_siblings=of).text for n, of in ((1, 1), (3, 7)))
    assert re.findall(r"\d+", many) == ["3", "7"]
    assert one != many.replace("3", "1").replace("7", "1")


def test_values_are_unchanged_and_infinity_has_a_name() -> None:
    found = build_message(
        "x.y", at=AT, most=float("inf"), least=float("-inf"), none=float("nan"), parts=(1, float("inf")), n=3
    )
    assert _values(found) == {
        "at": "2026-11-20T12:00:00Z",
        "most": "Infinity",
        "least": "-Infinity",
        "none": None,
        "parts": [1, "Infinity"],
        "n": 3,
    }


def _values(found: Any) -> Any:
    from apps.priorities.sentences.catalogue import json_value

    return {name: json_value(value) for name, value in found.values.items()}


def test_shares_are_percentages_and_never_bare_ratios() -> None:
    found = build_message("walk.over_you", name="alice", parent="physics", target=0.5, actual=0.7272, points=22.72)
    assert re.findall(r"physics|\d[\d.]*(?:\u00a0%)?", found.text) == ["72.7\u00a0%", "physics", "50.0\u00a0%", "22.7"]
    assert text_of([found, build_message("ahead.alone")]) == f"{found.text} {build_message('ahead.alone').text}"


def test_snapshot_of_every_sentence(snapshot: SnapshotAssertion) -> None:
    """The one place that knows the words of the catalogue: by key, with the names of the values in them."""
    assert {key: _forms(text) for key, text in sorted(TEXTS.items())} == snapshot


def _forms(text: Any) -> str | list[str]:
    """As it is for one and for many, where that makes a difference."""
    one, many = (str(text % _Names(count=n)) for n in (1, 2))
    return one if one == many else [one, many]


class _Names(dict[str, Any]):
    """Each value as its own name."""

    def __missing__(self, name: str) -> str:
        return f"%({name})s"


@pytest.mark.parametrize(
    ("value", "text"),
    [(60.0, "60"), (23.14, "23.1"), (1.5, "1.50"), (0.0123, "0.0123"), (14533.2, "14,533"), (0.0, "0")],
)
def test_amounts_have_only_significant_digits(value: float, text: str) -> None:
    assert numbers.amount(value) == text


@pytest.mark.parametrize("note", ["", "node failure", "Node failure.", "Was it ours?"])
def test_a_note_ends_with_one_punctuation_mark(note: str) -> None:
    text = adjustment_sentence("cpu_s", -3600.0, AT, note)
    assert text.endswith((".", "?"))
    assert not text.endswith(("..", "?."))
    assert note.rstrip(".") in text
