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
from tests.web.figures.schema import check_schema

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


@pytest.mark.parametrize("query", ["", "kind=treemap", "color=share", "kind=treemap&size=actual&color=share"])
def test_each_field_is_drawn_once(query: str) -> None:
    found = drawn(page(A, B), query)
    check_schema(found)
    trace = found.traces[0]
    assert len(trace["ids"]) == len(set(trace["ids"])) == 5
    assert "/page/a#children" in {one["url"] for one in found.extra["fields"]}, "what is drawn together is a list"


def test_user_text_is_neither_markup_nor_colour_for_plotly() -> None:
    trace = drawn(page(A, B)).traces[0]
    assert "&lt;b&gt;&#36;x" in trace["labels"]
    assert not [text for text in (*trace["labels"], *trace["customdata"]) if re.search(r"<(?!br>)|\$", text)]


@examples(80)
@given(PARTS)
def test_fields_add_up_to_the_whole(parts: Any) -> None:
    """Plotly draws nothing where children exceed their parent."""
    whole = _total(parts)

    def sector(one: Any, path: str) -> Sector:
        row = entry(path, 0.5, 0.5)
        children = [sector(child, f"{path}/{at}") for at, child in enumerate(one)] if isinstance(one, list) else []
        return Sector(row, _total(one) / whole, children=children)

    found = page(*(sector(one, f"/{at}") for at, one in enumerate(parts)))
    for kind in ("icicle", "treemap"):
        figure = drawn(found, f"kind={kind}")
        assert sum(figure.traces[0]["values"]) == pytest.approx(1.0, abs=1e-6)


def _total(parts: Any) -> int:
    return sum(map(_total, parts)) if isinstance(parts, list) else int(parts)


def test_colours_are_steps_of_balance_or_share_of_parent() -> None:
    assert [balance_step(off) for off in (-12, -11.9, -5, 5, 5.1, 12)] == [0, 1, 2, 4, 5, 6]
    by_balance, by_share = (drawn(page(A, B), query) for query in ("", "color=share"))
    colors = [
        dict(zip(one.traces[0]["labels"], one.traces[0]["marker"]["colors"], strict=True))
        for one in (by_balance, by_share)
    ]
    assert (colors[0]["a"], colors[0]["b"]) == ("$ice-o3", "$ice-u3")
    assert (colors[1]["a"], colors[1]["b"]) == ("$seq-6", "$seq-5")
    assert {one.color for one in by_balance.legend} >= {"$ice-o3", "$ice-u3"}
    assert len(by_share.legend) == 6


def test_omitted_entries_are_reported() -> None:
    assert re.findall(r"\d+", drawn(page(A, B)).sentence)[-2:] == ["4", "16"]
    assert "16" not in drawn(page(A, B, n_entries=4)).sentence


def test_missing_usage_is_shown_in_text_colours_and_numbers() -> None:
    hidden = Sector(entry("/h", 1.0, None, suppressed=True), 1.0)
    found = drawn(page(hidden))
    assert found.traces[0]["marker"]["colors"] == ["$surface-3", "$surface"]
    assert [one.is_outlined for one in found.legend].count(True) == 1
    assert found.table.raw[1][5:8] == ["", "", ""]
    assert "unknown" in found.table.raw[1]


@pytest.mark.parametrize("query", ["", "size=actual"])
def test_an_empty_tree_figure_has_a_message(query: str) -> None:
    for n_entries in (1, 7):
        found = drawn(page(n_entries=n_entries), query)
        assert found.empty == found.sentence != ""
        assert not found.traces
        assert found.controls, "another picture can be chosen"


def test_the_path_links_to_every_ancestor_and_keeps_the_figure() -> None:
    found = drawn(page(A, B, way=[ROOT], top=Sector(A.row, 1.0, children=A.children), chosen=A.row), "kind=treemap")
    way = found.controls[0].choices
    assert [(one.label, one.query, one.is_chosen) for one in way] == [
        ("root", "kind=treemap", False),
        ("a", f"kind=treemap&entry={A.row.uid if A.row else ''}", True),
    ]
    assert found.extra["fields"][0]["query"] == "kind=treemap", "the field that fills the picture leads up"


def test_a_chosen_leaf_is_marked_within_its_parent() -> None:
    found = drawn(page(A, B, chosen=B.row))
    assert [one.label for one in found.controls[0].choices] == ["root", "b"]
    assert figure_json(found)["chosen"] in found.traces[0]["ids"]


@pytest.mark.parametrize("query", ["kind=pie", "size=price", "color=rainbow", "entry=x", "kind=" + "x" * 5000])
def test_invalid_tree_parameters_are_refused_by_name(query: str) -> None:
    with pytest.raises(Invalid) as refused:
        read_tree_options(QueryDict(query))
    assert refused.value.fields[0].where == query.partition("=")[0]
    assert len(refused.value.message) < 200
