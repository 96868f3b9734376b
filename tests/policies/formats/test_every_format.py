"""What holds for each format there is, on trees with nasty names."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from hypothesis import given

from apps.core.errors import Invalid, TooLarge
from apps.policies.formats import __path__ as where_formats_are
from apps.policies.formats import base, json_document, registry, yaml_document
from apps.policies.formats.registry import FORMATS, dropped, get_format, guess_format, list_formats, read_file
from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.names import MAX_DEPTH, new_uid
from apps.policies.tree.working_tree import columns_of
from tests.examples import examples
from tests.policies.formats.round_trip import asked, read, text_of_tree
from tests.policies.share_trees import NASTY, trees

every = pytest.mark.parametrize("name", list(FORMATS))


@every
@examples(60)
@given(tree=trees())
def test_importing_an_export_changes_nothing(name: str, tree: TreeColumns) -> None:
    assert asked(name, text_of_tree(name, tree), tree) == []


@pytest.mark.parametrize("name", ["yaml", "json"])
@given(tree=trees())
def test_own_documents_round_trip(name: str, tree: TreeColumns) -> None:
    found = read(name, text_of_tree(name, tree)).tree
    assert found.same_as(tree)
    assert dropped(get_format(name), tree) == []


@every
def test_every_unusual_name_round_trips(name: str) -> None:
    root = Node(new_uid(), None, "grid")
    called = [*NASTY, "<b>", "a>b"]  # the last two are names from before markup was refused
    tree = columns_of([root, *(Node(new_uid(), root.uid, each, "user", 1.0, is_group=False) for each in called)])
    assert asked(name, text_of_tree(name, tree), tree) == []
    assert len(read(name, text_of_tree(name, tree)).tree) == len(called) + 1


@every
def test_the_sample_is_read_and_recognised(name: str) -> None:
    format = get_format(name)
    assert len(read(name, format.sample).tree) >= 3
    found = guess_format(format.sample)
    assert found is not None
    assert found.name == name
    assert format.label
    assert format.reference.startswith("https://")


@every
@pytest.mark.parametrize("other", list(FORMATS))
def test_a_file_of_another_format_is_refused_and_the_right_one_named(name: str, other: str) -> None:
    if {name, other} <= {"sacctmgr", "sacctmgr-script"} or name == other or {name, other} == {"yaml", "json"}:
        return  # each reads the other: JSON is YAML
    with pytest.raises(Invalid) as refusal:
        read(name, get_format(other).sample)
    assert f"use --format {other}" in refusal.value.message


@every
def test_line_ends_and_a_byte_order_mark_make_no_difference(name: str) -> None:
    sample = get_format(name).sample
    plain = read(name, sample).tree
    unended = [] if name == "sacctmgr" else [sample.rstrip("\n")]  # a dump without its last line end was cut off
    for variant in (sample.replace("\n", "\r\n"), "\ufeff" + sample, *unended):
        found = read(name, variant).tree
        assert list(found.name) == list(plain.name)
        assert found.shares.tolist() == plain.shares.tolist()


@every
def test_other_encodings_are_refused_with_line_and_remedy(name: str) -> None:
    sample = get_format(name).sample.replace("alice", "ålice").replace("physics", "fåsics")
    for content in (sample.encode("latin-1"), sample.encode("utf-16")):
        with pytest.raises(Invalid, match="save it as UTF-8") as refusal:
            read(name, content)
        assert refusal.value.fields[0].where.startswith("line ")


@every
def test_depth_over_64_is_rejected_with_its_location(name: str) -> None:
    def chain(levels: int) -> TreeColumns:
        nodes = [Node(new_uid(), None, "root")]
        for level in range(levels):
            nodes.append(Node(new_uid(), nodes[-1].uid, f"l{level}"))
        return columns_of(nodes)

    assert len(read(name, text_of_tree(name, chain(MAX_DEPTH))).tree) == MAX_DEPTH + 1
    with pytest.raises(Invalid, match="level 64") as refusal:
        read(name, text_of_tree(name, chain(MAX_DEPTH + 1)))
    assert refusal.value.fields[0].where.startswith("line ")


@every
def test_a_file_that_expands_without_end_is_refused(name: str) -> None:
    import gzip

    with pytest.raises(TooLarge):
        read(name, gzip.compress(b" " * 50_000_000))
    with pytest.raises(Invalid, match="damaged"):
        read(name, gzip.compress(get_format(name).sample.encode())[:-9])
    packed = read(name, gzip.compress(get_format(name).sample.encode()))
    assert len(packed.tree) >= 3


@every
def test_an_empty_file_is_refused(name: str) -> None:
    for content in (b"", b"\n\n", b"\0"):
        with pytest.raises(Invalid):
            read_file(get_format(name), content)


def test_each_format_is_a_file_with_a_test() -> None:
    modules = [path for folder in where_formats_are for path in Path(folder).glob("*.py")]
    files = {path.stem for path in modules if "FORMAT = " in path.read_text()}
    assert len(files) == len(list_formats())
    tests = {path.stem.removeprefix("test_") for path in Path(__file__).parent.glob("test_*.py")}
    assert files - tests == set()


def test_an_unknown_format_is_rejected_with_the_available_ones() -> None:
    with pytest.raises(Invalid, match="known are yaml, json, csv, sacctmgr, sacctmgr-script, ge, htcondor"):
        get_format("xls")


def test_an_export_lists_what_it_omits_with_entry_counts() -> None:
    root = Node(new_uid(), None, "grid")
    locked = [Node(new_uid(), root.uid, f"g{i}", "vo", 0.5, locked=True) for i in range(5)]
    reserve = dataclasses.replace(
        locked[0], uid=new_uid(), name="left, over", kind="reserve", is_group=False, locked=False
    )
    tree = columns_of([root, *locked, reserve])
    assert dropped(get_format("sacctmgr"), tree) == [
        "the policy's settings",
        "uids: moved and renamed entries are read back as one entry removed and another one added",
        "exact shares of 6 entries: /g0, /g1, /g2, …",
        "empty groups or leaves of 1 entry: /left, over",
        "locks of 5 entries: /g0, /g1, /g2, …",
        "kinds of 7 entries: /, /g0, /g1, …",
        "exact names of 1 entry: /left, over",
    ]


@pytest.mark.parametrize(
    ("format", "line", "reader"),
    [
        ("csv", "/physics,1\n", "csv_table.SeparatedTable"),
        ("ge", "id=1\n", "gridengine._nodes"),
        ("sacctmgr", "User - 'ann'\n", "sacctmgr.read_dump"),
        ("sacctmgr-script", "sacctmgr -i add account physics\n", "sacctmgr_commands.read"),
        ("yaml", "- 1\n", "yaml_document.yaml.parse"),
        ("yaml", "[1,1,1,1]\n", "yaml_document.yaml.parse"),
        ("json", "1,\n", "json_document.parse"),
    ],
)
def test_a_file_of_too_many_lines_is_refused_before_it_is_read(
    format: str, line: str, reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*_arguments: object, **_named: object) -> None:
        raise AssertionError("it was read")

    monkeypatch.setattr(base, "MOST_POLICY_ENTRIES", 10)
    for module in (yaml_document, json_document):
        monkeypatch.setattr(module, "MOST_POLICY_VALUES", 10)
    monkeypatch.setattr(f"apps.policies.formats.{reader}", read)
    with pytest.raises(TooLarge):
        read_file(get_format(format), (line * 100).encode())


def test_a_file_of_another_format_is_recognised_by_its_first_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    csv = get_format("csv")

    def looks_like(text: str) -> bool:
        seen.append(len(text))
        return csv.looks_like(text)

    monkeypatch.setitem(registry.FORMATS, "csv", dataclasses.replace(csv, looks_like=looks_like))
    with pytest.raises(Invalid, match="use --format csv"):
        read_file(get_format("ge"), b"path,shares\n" + b"/physics,1\n" * 20_000)
    assert seen
    assert max(seen) <= 64 * 1024


@pytest.mark.parametrize(
    "key", ["[1]", "children[x]", "children[7]", "children[²]", "x]", "children[" + "9" * 40 + "]"]
)
@pytest.mark.parametrize("name", ["json", "yaml"])
def test_an_unknown_field_with_any_name_is_refused_with_its_line(name: str, key: str) -> None:
    text = json.dumps({"policy": "grid", "root": {"name": "grid", "children": [{"name": "a", key: 1}]}}, indent=1)
    with pytest.raises(Invalid) as refused:
        read_file(get_format(name), text.encode())
    (problem,) = refused.value.fields
    assert problem.where.startswith("line ")
    assert "is unknown" in problem.message
