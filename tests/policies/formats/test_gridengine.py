"""Grid Engine's share tree; the numbers are those of the sample file."""

from __future__ import annotations

from pathlib import Path

import pytest

from apps.core.errors import Invalid
from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.names import new_uid
from apps.policies.tree.working_tree import columns_of
from tests.each_case import each_case
from tests.policies.formats.round_trip import asked, read, summary_of, text_of_tree


def node(id: int, name: str, children: str = "NONE", shares: object = 1, type: object = 0) -> str:
    return f"id={id}\nname={name}\ntype={type}\nshares={shares}\nchildnodes={children}\n"


def problems(text: str) -> dict[str, str]:
    with pytest.raises(Invalid) as refusal:
        read("ge", text)
    return {field.where: field.message for field in refusal.value.fields}


@pytest.mark.paper("4.65")
def test_the_tree_of_a_real_cell_is_read(golden_dir: Path) -> None:
    tree = read("ge", (golden_dir / "gridengine/samples/qconf-sstree.txt").read_bytes()).tree
    assert {tree.path(i): tree.node(i).shares for i in range(1, len(tree))} == {
        "/grp1": 300,
        "/grp2": 100,
        "/grp1/gea": 60,
        "/grp1/geb": 40,
        "/grp2/gec": 10,
        "/grp2/ged": 30,
    }


def test_nodes_come_in_any_order_and_projects_differ_from_users() -> None:
    tree = read("ge", node(7, "bob") + node(3, "p", "7", 5, 1) + node(0, "Root", "3")).tree
    assert [(tree.path(i), tree.kind[i]) for i in (1, 2)] == [("/p", "project"), ("/p/bob", "")]


def test_a_backslash_continues_a_line(golden_dir: Path) -> None:
    plain, continued = (
        read("ge", (golden_dir / "field" / name).read_bytes()).tree for name in ("e01_stree.txt", "e02_backslash.txt")
    )
    assert [(continued.path(i), continued.node(i).shares) for i in range(len(continued))] == [
        (plain.path(i), plain.node(i).shares) for i in range(len(plain))
    ]
    text = (
        node(0, "r", "1,\\\n                 2, \\ \n 3")
        + node(1, "a")
        + node(2, "b \\\n")
        + node(3, "c", shares="\\\n 7")
    )
    tree = read("ge", text).tree
    assert {tree.path(i): tree.node(i).shares for i in range(1, len(tree))} == {"/a": 1, "/b": 1, "/c": 7}


@each_case(
    ("text", "place", "message"),
    [
        (node(0, "r", "1") + node(1, "a", "2") + node(2, "b", "1"), "line 15", "id=1 is a child of id=0 already"),
        (node(0, "r", "1") + node(1, "a", "0"), "line 1", "a cycle without a root"),
        (node(0, "r") + node(1, "a", "2") + node(2, "b", "1"), "line 6: id=1", "in a cycle"),
        (node(0, "r", "0"), "line 1", "a cycle without a root"),
        (node(0, "r") + node(1, "s"), "line 6", "one root is needed"),
        (node(0, "r", "5"), "line 5", "id=5, which doesn't exist"),
        (node(0, "r", "1,1") + node(1, "a"), "line 5", "already"),
        (node(0, "r") + node(0, "s"), "line 6", "id=0 is repeated, first in line 1"),
        (node(0, "r", "1,2") + node(1, "a") + node(2, "a"), "line 12, /: name", "'a' is repeated, first in line 7"),
        (node(0, "r", "1") + node(1, "a", shares="x"), "line 9, /a: shares", "not a whole number"),
        (node(0, "r", "1") + node(1, "a", shares=-1), "line 9, /a: shares", "not a whole number"),
        (node(0, "r", "1") + node(1, "a", shares=4294967296), "line 9, /a: shares", "not a whole number"),
        (node(0, "r", "1") + node(1, "a", type=2), "line 8, /a: type", "neither 0 (user) nor 1"),
        (node(0, "r", "1") + node(1, ""), "line 7, /: name", "must not be empty"),
        (node(0, "r", "1") + node(1, "a/b"), "line 7, /: name", "separates"),
        (node(0, "r", "x"), "line 5", "is not a number"),
        (node(0, "r") + "color=red\n", "line 6", "isn't one of id"),
        (node(0, "r") + "shares=2\n", "line 6", "repeated in one node"),
        ("id=x\n", "line 1", "is not a number"),
    ],
)
def test_an_invalid_tree_is_rejected_with_the_line(text: str, place: str, message: str) -> None:
    found = problems(text)
    assert message in found[place], found


def test_a_file_without_a_share_tree_is_rejected() -> None:
    for text in ("hello\n", "name=Root\n"):
        with pytest.raises(Invalid, match="is not a share tree of Grid Engine: line 1"):
            read("ge", text)


@pytest.fixture
def tree() -> TreeColumns:
    root = Node(new_uid(), None, "grid")
    p = Node(new_uid(), root.uid, "p", "project", 2)
    return columns_of(
        [
            root,
            p,
            Node(new_uid(), p.uid, "a b", "person", None, is_group=False),
            Node(new_uid(), root.uid, "q", "vo", 3),
        ]
    )


def test_importing_an_edited_export_changes_only_the_edits(tree: TreeColumns) -> None:
    text = text_of_tree("ge", tree)
    assert "name=a_b\ntype=0\nshares=1\nchildnodes=NONE\n" in text
    assert summary_of(asked("ge", text.replace("shares=3", "shares=4"), tree), tree) == [("set_shares", "/q", 4.0)]
    turned = text.replace("name=a_b\ntype=0\nshares=1", "name=a_b\ntype=0\nshares=8")
    assert summary_of(asked("ge", turned, tree), tree) == [("set_shares", "/p/a b", 8.0)]
    assert summary_of(asked("ge", text.replace("type=1", "type=0"), tree), tree) == [("set_kind", "/p", "group")]


def test_nodes_are_written_depth_first_as_grid_engine_requires(tree: TreeColumns) -> None:
    lines = [line.partition("=") for line in text_of_tree("ge", tree).splitlines()]
    assert [value for name, _, value in lines if name == "name"] == ["Root", "p", "a_b", "q"]
    assert [value for name, _, value in lines if name == "childnodes"] == ["1,3", "2", "NONE", "NONE"]
