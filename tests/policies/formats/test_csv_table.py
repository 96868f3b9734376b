"""Tables from people and their spreadsheets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.core.errors import Invalid
from apps.policies.formats.separated_table import escape_formula, unescape_formula
from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.names import new_uid
from apps.policies.tree.working_tree import columns_of
from tests.policies.formats.round_trip import asked, read, summary_of, text_of_tree


def shares_of(text: str) -> dict[str, float | None]:
    tree = read("csv", text).tree
    return {tree.path(i): tree.node(i).shares for i in range(1, len(tree))}


def problems(text: str) -> dict[str, str]:
    with pytest.raises(Invalid) as refusal:
        read("csv", text)
    return {field.where: field.message for field in refusal.value.fields}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("path,shares\n/a,2.5\n", 2.5),
        ('path,shares\n/a,"2,5"\n', 2.5),
        ("path;shares\n/a;2,5\n", 2.5),
        ("path\tshares\n/a\t2,5\n", 2.5),
        ("path;shares\na;1e-3\n", 0.001),
        ("PATH , Shares\n/a,parent\n", None),
        ("path,shares\n/a,inherit\n", None),
        ("shares,path\n,\n\n7,/a\n", 7),
    ],
)
def test_cells_are_read_as_spreadsheets_write_them(text: str, value: float | None) -> None:
    assert shares_of(text) == {"/a": value}


@pytest.mark.parametrize("number", ["1,234", "1.234,567", "12,345,678"])
def test_an_ambiguous_comma_is_reported(number: str) -> None:
    assert "write it as one of these" in problems(f"path;shares\n/a;{number}\n")["line 2, /a: shares"]


@pytest.mark.parametrize("number", ["", "-1", "x", "0x10", "1 000", "NaN", "inf", "1e999", "1_0", "١"])
def test_an_invalid_number_is_rejected_with_line_and_path(number: str) -> None:
    assert list(problems(f"path;shares\n/ok;1\n/a;{number}\n")) == ["line 3, /a: shares"]


def test_percentages_are_the_shares_of_a_whole_group() -> None:
    assert shares_of('path,percent\n/a,30\n/b,"70,0"\n') == {"/a": 30, "/b": 70}
    assert shares_of("path,shares\n/a,25 %\n/b,75%\n/b/c,3\n") == {"/a": 25, "/b": 75, "/b/c": 3}


@pytest.mark.parametrize(
    ("cells", "place", "message"),
    [
        ("/a,101%", "line 2, /a: shares", "more than 100 %"),
        ("/a,60%\n/b,50%", "line 2, /a: shares", "110 % together"),
        ("/a,60%\n/b,30%", "line 2, /a: shares", "only 90 % together; add one of kind reserve"),
        ("/a,60%\n/b,40", "line 3, /b: shares", "has no percentage"),
    ],
)
def test_percentages_that_do_not_add_up_to_100_are_rejected(cells: str, place: str, message: str) -> None:
    assert message in problems(f"path,shares\n{cells}\n")[place]


@pytest.mark.parametrize(
    "cell", ["=1+1", "@SUM(A1)", "+x", "-2+3", "\t=x", " =x", "＝1", "'=x", "''=x", "'", "a=b", "x"]
)
def test_a_formula_is_escaped_in_a_file_and_restored_when_read(cell: str) -> None:
    assert unescape_formula(escape_formula(cell)) == cell
    assert not escape_formula(cell).lstrip().startswith(("=", "+", "-", "@", "＝"))


@given(st.text())
def test_any_text_survives_formula_escaping(text: str) -> None:
    assert unescape_formula(escape_formula(text)) == text


def test_a_formula_cell_is_rejected_with_line_and_remedy() -> None:
    found = problems('path,kind,shares\n"=HYPERLINK(1)",vo,1\n/a,@SUM,1\n/b,vo,=1+1\n')
    assert "put an apostrophe before it" in found["line 2: path"] if "line 2: path" in found else found
    assert "put an apostrophe before it" in found["line 3, /a: kind"]
    assert "is a formula; write its result" in found["line 4, /b: shares"]
    assert shares_of("path,shares\n'=x,1\n") == {"/=x": 1}


def test_no_exported_cell_begins_like_a_formula() -> None:
    root = Node(new_uid(), None, "=root", "=site")
    names = ("=1+1", "@x", "+1", "-1", "'=1")
    below = [Node(new_uid(), root.uid, name, name, scope="local", scope_sources=(name,)) for name in names]
    lines = text_of_tree("csv", columns_of([root, *below])).splitlines()
    cells = [cell.strip('"') for line in lines for cell in line.split(",")]
    assert [cell for cell in cells if cell.startswith(("=", "@", "+", "-"))] == []
    assert len(lines) == len(names) + 2


def test_rows_may_come_in_any_order() -> None:
    assert shares_of("path,shares\n/a/b/c,3\n/a,1\n/a/b,2\n") == {"/a": 1, "/a/b": 2, "/a/b/c": 3}


def test_a_duplicate_path_names_both_lines() -> None:
    found = problems("path,shares\n/a,1\n/b,1\na/,2\n/,1\n/,2\n")
    assert "'a' is repeated, first in line 2" in found["line 4, /: path"]
    assert "first in line 5" in found["line 6, /: path"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("path,weight\n/a,1\n", "'weight' is unknown; known are path"),
        ("path,path\n/a,1\n", "repeated"),
        ("path,shares,percent\n/a,1,2\n", "repeated"),
        ("name,shares\na,1\n", "names no column path"),
        ("path,shares\n/a,1,2\n", "has 3 cells, the first line 2"),
        ('path,shares\n"/a,1\n', "not a CSV table"),
        ("path,locked\n/a,maybe\n", "neither yes nor no"),
        ("path,uid\n/a,1\n", "must be a UUID"),
        ("path,scope\n/a,mars\n", '"local" or "global"'),
        ("path,sources\n/a,c1\n", "together with a scope"),
        ("path,kind\n/a,reserve\n/a/b,user\n", "a reserve must have its own shares and no children"),
        ("path\n/a//b\n", "must not be empty"),
        ("path\n/a\u202eb\n", "U+202E"),
        ("path\n/a\x07b\n", "U+0007"),
    ],
)
def test_wrong_tables_are_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(Invalid) as refusal:
        read("csv", text)
    assert message in refusal.value.message
    assert "line " in refusal.value.message + "".join(field.where for field in refusal.value.fields)


def test_up_to_fifty_invalid_rows_are_reported_together() -> None:
    rows = "".join(f"/a{i},x\n" for i in range(1_000))
    assert len(problems(f"path,shares\n{rows}")) == 50


@pytest.fixture
def tree() -> TreeColumns:
    root = Node(new_uid(), None, "grid")
    physics = Node(new_uid(), root.uid, "physics", "vo", 30, locked=True)
    alice = Node(new_uid(), physics.uid, "alice", "user", None, is_group=False)
    return columns_of([root, physics, alice, Node(new_uid(), root.uid, "bio", "vo", 20, scope="global")])


def test_missing_columns_keep_their_values(tree: TreeColumns) -> None:
    assert asked("csv", "path\n/physics\n/physics/alice\n/bio\n", tree) == []
    operations = asked("csv", "path,shares\n/physics,40\n/physics/alice,parent\n/bio,20\n", tree)
    assert summary_of(operations, tree) == [("set_shares", "/physics", 40.0)]


def test_a_partial_table_changes_its_rows_and_adds_entries(tree: TreeColumns) -> None:
    operations = asked("csv", "path,kind,shares\n/physics/bob,user,2\n/bio,vo,21\n", tree, keep_missing=True)
    assert summary_of(operations, tree) == [("set_shares", "/bio", 21.0), ("add", "bob", 2.0)]


def test_a_path_with_a_missing_parent_is_rejected(tree: TreeColumns) -> None:
    with pytest.raises(Invalid, match=r"doesn’t exist\. Add a row for it") as refusal:
        asked("csv", "path,shares\n/chemistry/bob,2\n", tree, keep_missing=True)
    assert refusal.value.fields[0].where == "line 2"


def test_an_entry_with_its_uid_is_moved_by_its_path(tree: TreeColumns) -> None:
    alice = tree.index_of_path("/physics/alice") or 0
    table = f"path,uid\n/physics,\n/bio,\n/bio/al,{tree.uuid(alice)}\n"
    (operation,) = asked("csv", table, tree)
    assert (operation["op"], operation["entry"], operation["name"]) == ("move", str(tree.uuid(alice)), "al")


@pytest.mark.parametrize(
    ("text", "shares"),
    [
        ("path;shares\n/a;12.400\n/b;600\n/c;7,25\n", [12_400, 600, 7.25]),  # c proves that the comma is the mark
        ("path;shares\n/a;1.200,50\n/b;2.000\n", [1200.5, 2000]),
        ("path;shares\n/a;1.200.300\n/b;700\n", [1_200_300, 700]),
        ("path\tshares\n/a\t3.500\n/b\t0,125\n", [3500, 0.125]),
        ("path;shares\n/a;1.125\n/b;2.5\n", [1.125, 2.5]),  # b proves that the dot is the mark
        ("path;shares\n/a;0.125\n/b;1\n", [0.125, 1]),
        ('path,shares\n/a,"1,200.5"\n/b,600\n', [1200.5, 600]),
        ("path,shares\n/a,1.200\n/b,600\n", [1.2, 600]),  # as this format is exported
        ("path;percent\n/a;33.125\n/b;66.875\n", [33.125, 66.875]),  # no share has thousands of per cent
        ("sep=;\npath;shares\n/a;60\n/b;40\n", [60, 40]),
        ('"sep=\t"\npath\tshares\n/a\t60\n/b\t40\n', [60, 40]),
        ("sep=,\r\npath,shares\r\n/a,60\r\n/b,40\r\n", [60, 40]),
    ],
)
def test_marks_of_spreadsheets_are_read_as_the_table_proves(text: str, shares: list[float]) -> None:
    assert list(shares_of(text).values()) == shares


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("path;shares\n/a;12.400\n/b;600\n", "'12.400' may be 12400 or 12.4000"),
        ("path\tshares\n/a\t1.200\n/b\t600\n", "'1.200' may be 1200 or 1.2000"),
        ("path;shares\n/a;1.200\n/b;2,5\n/c;2.5\n", "'1.200' may be 1200 or 1.2000"),  # it proves both
    ],
)
def test_a_dot_that_may_be_of_thousands_is_asked_about(text: str, message: str) -> None:
    assert message in problems(text)["line 2, /a: shares"]
    assert shares_of(text.replace("12.400", "12.4000").replace("1.200", "1200"))
