"""The picture of a tree: fields add up, nothing is in it that its page doesn't have, and what is left out is named."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import pytest
from django.http import QueryDict
from hypothesis import given
from hypothesis import strategies as st

from apps.core.errors import Invalid
from apps.policies.settings import PolicySettings
from apps.priorities.records import IciclePage, Sector
from apps.priorities.selectors import EntryRow
from apps.web.figures import Figure
from apps.web.figures.figure import figure_json
from apps.web.figures.traces import balance_step
from apps.web.figures.tree import tree_figure
from apps.web.figures.tree_options import read_tree_options
from tests.examples import examples
from tests.web.figures.schema import colored

SETTINGS = PolicySettings.from_stored({})
PARTS = st.recursive(st.integers(1, 1000), lambda below: st.lists(below, min_size=1, max_size=6), max_leaves=40).filter(
    lambda tree: isinstance(tree, list)
)


def entry(path: str, target: float | None, actual: float | None, **more: Any) -> EntryRow:
    off = None if target is None or actual is None else (actual - target) * 100
    state = "unknown" if off is None else "on" if abs(off) < 1 else "over" if off > 0 else "under"
    values: dict[str, Any] = {
        "uid": UUID(int=sum(ord(one) * 257**at for at, one in enumerate(path))),
        "parent_uid": None if path == "/" else UUID(int=1),
        "path": path,
        "name": path.rpartition("/")[2] or "root",
        "kind": "group",
        "level": 2,
        "pos_in_set": 1,
        "set_size": 1,
        "n_children": 0,
        "hidden_children": 0,
        "is_open": False,
        "shares": 1.0,
        "target": target,
        "target_global": target,
        "actual": actual,
        "actual_global": actual,
        "deviation_points": off,
        "state": state,
        "priority": None,
        "rank": None,
        "factor": None,
        "usage": 0.0,
        "has_usage": True,
        "locked": False,
        "may_change": False,
    }
    return EntryRow(**(values | more))


ROOT = entry("/", 1.0, 1.0, state="on")
A = Sector(entry("/a", 0.6, 0.75), 0.6, children=[Sector(entry("/a/<b>$x", 0.5, 0.5), 0.3), Sector(None, 0.3, 12)])
B = Sector(entry("/b", 0.4, 0.25), 0.4)


def page(*fields: Sector, n_entries: int = 0, **more: Any) -> IciclePage:
    values: dict[str, Any] = {
        "policy_slug": "grid",
        "policy_name": "Grid",
        "revision": 3,
        "as_of": None,
        "settings": SETTINGS,
        "top": Sector(ROOT, 1.0, children=list(fields)),
        "way": [],
        "chosen": ROOT,
        "sizes": "target",
        "n_entries": n_entries or 16,
        "n_shown": 4,
    }
    return IciclePage(**(values | more))


def drawn(found: IciclePage, query: str = "") -> Figure:
    asked = QueryDict(query)
    return tree_figure(found, read_tree_options(asked), asked, lambda _uid, name: f"/page/{name}#children")


def fields_of(figure: Figure) -> list[dict[str, Any]]:
    fields: list[dict[str, Any]] = figure.extra["fields"]
    return fields


@pytest.mark.parametrize("query", ["", "kind=icicle", "color=share", "kind=icicle&size=actual&color=share"])
def test_each_field_is_drawn_once(query: str) -> None:
    found = drawn(page(A, B), query)
    fields = fields_of(found)
    assert len(fields) == 5
    assert [one["parent"] < at for at, one in enumerate(fields)] == [True] * 5, "after the field that it is in"
    assert sorted(one["parent"] for one in fields) == [-1, 0, 0, 1, 1]
    assert colored([[one[key] for key in ("fill", "ink", "line")] for one in fields])
    assert "/page/a#children" in {one["url"] for one in fields}, "what is drawn together is a list"


@examples(80)
@given(PARTS)
def test_fields_never_exceed_the_one_they_are_in(parts: Any) -> None:
    whole = _total(parts)

    def sector(one: Any, path: str) -> Sector:
        row = entry(path, 0.5, 0.5)
        children = [sector(child, f"{path}/{at}") for at, child in enumerate(one)] if isinstance(one, list) else []
        return Sector(row, _total(one) / whole, children=children)

    found = page(*(sector(one, f"/{at}") for at, one in enumerate(parts)))
    for kind in ("icicle", "treemap"):
        fields = fields_of(drawn(found, f"kind={kind}"))
        within = [sum(one["size"] for one in fields if one["parent"] == at) for at in range(len(fields))]
        assert fields[0]["size"] == 1.0
        assert all(total <= one["size"] + 1e-6 for total, one in zip(within, fields, strict=True))


def _total(parts: Any) -> int:
    return sum(map(_total, parts)) if isinstance(parts, list) else int(parts)


def test_colours_are_steps_of_balance_or_share_of_parent() -> None:
    assert [balance_step(off) for off in (-12, -11.9, -5, 5, 5.1, 12)] == [0, 1, 2, 4, 5, 6]
    by_balance, by_share = (drawn(page(A, B), query) for query in ("", "color=share"))
    colors = [{field["name"]: field["fill"] for field in fields_of(one)} for one in (by_balance, by_share)]
    assert (colors[0]["a"], colors[0]["b"]) == ("$ice-o3", "$ice-u3")
    assert (colors[1]["a"], colors[1]["b"]) == ("$seq-6", "$seq-5")
    assert {one.color for one in by_balance.legend} >= {"$ice-o3", "$ice-u3"}
    assert len(by_share.legend) == 6


@pytest.mark.parametrize("query", ["", "size=actual&color=share", "color=share"])
def test_a_reserve_is_no_finding(query: str) -> None:
    """What is left over is neither the furthest off target nor the largest."""
    reserve = Sector(entry("/spare", 0.5, 0.9, kind="reserve"), 0.5)
    assert " b " in f" {drawn(page(reserve, B), query).sentence}"
    alone = drawn(page(reserve), query).sentence
    assert "spare" not in alone
    assert alone.endswith(".")


def test_omitted_entries_are_reported() -> None:
    assert re.findall(r"\d+", drawn(page(A, B)).sentence)[-2:] == ["4", "16"]
    assert "16" not in drawn(page(A, B, n_entries=4)).sentence


def test_missing_usage_is_shown_in_text_colours_and_numbers() -> None:
    hidden = Sector(entry("/h", 1.0, None, suppressed=True), 1.0)
    found = drawn(page(hidden))
    assert [one["fill"] for one in fields_of(found)] == ["$surface-3", "$surface"]
    assert [one.is_outlined for one in found.legend].count(True) == 1
    assert found.table.raw[1][5:8] == ["", "", ""]
    assert "unknown" in found.table.raw[1]


@pytest.mark.parametrize("query", ["", "size=actual"])
def test_an_empty_tree_figure_has_a_message(query: str) -> None:
    for n_entries in (1, 7):
        found = drawn(page(n_entries=n_entries), query)
        assert found.empty == found.sentence != ""
        assert found.controls, "another picture can be chosen"


def test_the_path_links_to_every_ancestor_and_keeps_the_figure() -> None:
    found = drawn(page(A, B, way=[ROOT], top=Sector(A.row, 1.0, children=A.children), chosen=A.row), "kind=icicle")
    way = found.controls[0].choices
    assert [(one.label, one.query, one.is_chosen) for one in way] == [
        ("root", "kind=icicle", False),
        ("a", f"kind=icicle&entry={A.row.uid if A.row else ''}", True),
    ]
    assert fields_of(found)[0]["query"] == "kind=icicle", "the field that fills the picture leads up"


def test_a_chosen_leaf_is_marked_within_its_parent() -> None:
    found = drawn(page(A, B, chosen=B.row))
    assert [one.label for one in found.controls[0].choices] == ["root", "b"]
    assert figure_json(found)["chosen"] in {one["id"] for one in fields_of(found)}


@pytest.mark.parametrize("query", ["kind=pie", "size=price", "color=rainbow", "entry=x", "kind=" + "x" * 5000])
def test_invalid_tree_parameters_are_refused_by_name(query: str) -> None:
    with pytest.raises(Invalid) as refused:
        read_tree_options(QueryDict(query))
    assert refused.value.fields[0].where == query.partition("=")[0]
    assert len(refused.value.message) < 200
