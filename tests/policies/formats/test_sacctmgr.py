"""Slurm's account tree as sacctmgr dumps it; the numbers are those of the sample files."""

from __future__ import annotations

from pathlib import Path

import pytest

from apps.core.errors import Invalid
from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.names import new_uid
from apps.policies.tree.working_tree import columns_of
from tests.policies.formats.round_trip import asked, read, summary_of, text_of_tree

HEAD = "# comment\nCluster - 'demo':Fairshare=1:QOS='normal'\nParent - 'root'\n"


def problems(text: str) -> dict[str, str]:
    with pytest.raises(Invalid) as refusal:
        read("sacctmgr", text)
    return {field.where: field.message for field in refusal.value.fields}


def test_the_dump_of_a_real_cluster_is_read(golden_dir: Path) -> None:
    found = read("sacctmgr", (golden_dir / "slurm/samples/sacctmgr-dump-demo.cfg").read_bytes())
    tree = found.tree
    assert {tree.path(i): (tree.node(i).shares, tree.is_group[i]) for i in range(1, len(tree))} == {
        "/biology": (40, True),
        "/physics": (60, True),
        "/root": (1, False),
        "/biology/carol": (10, False),
        "/physics/alice": (2, False),
        "/physics/bobby": (None, False),
        "/physics/hep": (3, True),
        "/physics/hep/alice": (1, False),
    }
    assert found.ignored == ("adminlevel (1 ×)", "grptres (1 ×)", "maxjobs (1 ×)", "qos (1 ×)")


def test_quoted_values_can_contain_colons_and_use_both_quotes() -> None:
    text = HEAD + "Account - 'a':Description='x:y=z':Fairshare=7\nAccount - \"b\" : fairshare = '8'\n"
    tree = read("sacctmgr", text).tree
    assert {tree.path(i): tree.node(i).shares for i in (1, 2)} == {"/a": 7, "/b": 8}


def test_a_user_in_several_accounts_is_an_entry_in_each() -> None:
    text = HEAD + "Account - 'a'\nAccount - 'b'\nParent - 'a'\nUser - 'u':Fairshare=2\nParent - 'b'\nUser - 'u'\n"
    tree = read("sacctmgr", text).tree
    assert [tree.path(i) for i in range(3, len(tree))] == ["/a/u", "/b/u"]


def test_users_with_associations_of_one_partition_are_named() -> None:
    lines = "User - 'u':Fairshare=2\nUser - 'u':Partition='gpu':Fairshare=9\nUser - 'v':Partition='gpu'\n"
    found = read("sacctmgr", HEAD + lines)
    assert len(found.tree) == 2
    assert found.ignored == (
        "qos (1 ×)",
        "2 associations of one partition: u in root, v in root",
        "no entry, as they have associations of one partition alone: v in root",
    )


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("You are not running a supported accounting_storage plugin", "CSV"),
        (
            "sacctmgr: error: slurm_persist_conn_open_without_init: Connection refused",
            "slurmdbd answers",
        ),
    ],
)
def test_an_error_message_instead_of_a_dump_is_reported_with_a_remedy(line: str, advice: str) -> None:
    with pytest.raises(Invalid, match=f"sacctmgr failed: .*{advice}"):
        read("sacctmgr", line + "\n")


@pytest.mark.parametrize(
    ("lines", "place", "message"),
    [
        ("Account - 'a'\nAccount - 'A'", "line 5, /: A", "each account once"),
        ("Parent - 'x'\nUser - 'u'", "line 4: Parent", "'x' isn't declared before it"),
        ("User - 'u'\nUser - 'u'", "line 5, /: 'u'", "repeated, first in line 4"),
        ("User - 'u':Fairshare=-1", "line 4: Fairshare of u", "neither a whole number"),
        ("User - 'u':Fairshare=1.5", "line 4: Fairshare of u", "neither a whole number"),
        ("User - 'u':Fairshare=2147483648", "line 4: Fairshare of u", "neither a whole number"),
        ("User - 'u/v'", "line 4, /: 'u/v'", "separates the parts"),
        ("User - 'u\u202ev'", "line 4, /: 'u\\u202ev'", "U+202E"),
        ("User u", "line 4", "none of Cluster, Parent"),
        ("User - ''x", "line 4, /: ''", "empty"),
        ("User - 'u':=", "line 4: u", "isn't an option"),
        ("Cluster - 'b'", "line 4", "a second cluster"),
    ],
)
def test_wrong_lines_are_refused_with_line_and_name(lines: str, place: str, message: str) -> None:
    found = problems(HEAD + lines + "\n")
    assert message in found[place], found


@pytest.mark.parametrize("text", ["Parent - 'root'\n", "Account - 'a'\n", "hello\n", "# only a comment\n"])
def test_a_file_that_is_not_a_dump_is_rejected(text: str) -> None:
    with pytest.raises(Invalid, match="is not a sacctmgr dump: line 1"):
        read("sacctmgr", text)


@pytest.fixture
def tree() -> TreeColumns:
    """Two groups of one name, names that Slurm writes differently, a reserve, fractions, and shares passed on."""
    root = Node(new_uid(), None, "grid")
    physics, bio = Node(new_uid(), root.uid, "Physics", "vo", 0.5), Node(new_uid(), root.uid, "bio", "vo", 0.25)
    return columns_of(
        [
            root,
            physics,
            bio,
            Node(new_uid(), root.uid, "left over", "reserve", 0.25, is_group=False),
            Node(new_uid(), physics.uid, "students", "group", 1),
            Node(new_uid(), bio.uid, "students", "group", None),
            Node(new_uid(), bio.uid, "O'Neil", "person", 3, is_group=False),
        ],
        policy_slug="grid",
        number=7,
    )


def test_an_export_is_what_slurm_can_load(tree: TreeColumns) -> None:
    assert text_of_tree("sacctmgr", tree).splitlines() == [
        "# grid revision 7",
        "# The cluster has the policy's name, grid: export with another name if Slurm uses another",
        "Cluster - 'grid':Fairshare=1",
        "Parent - 'root'",
        "Account - 'physics':Description='physics':Fairshare=50",
        "Account - 'bio':Description='bio':Fairshare=25",
        "Account - 'left_over':Description='left_over':Fairshare=25",
        "Parent - 'physics'",
        "Account - 'students':Description='students':Fairshare=1",
        "Parent - 'bio'",
        "User - 'O_Neil':DefaultAccount='bio':Fairshare=3",
        "Account - 'bio_students':Description='bio_students':Fairshare=2147483647",
    ]


def test_importing_an_edited_export_changes_only_the_edits(tree: TreeColumns) -> None:
    text = text_of_tree("sacctmgr", tree)
    operations = asked(
        "sacctmgr", text.replace("DefaultAccount='bio':Fairshare=3", "DefaultAccount='bio':Fairshare=4"), tree
    )
    assert summary_of(operations, tree) == [("set_shares", "/bio/O'Neil", 4.0)]
    operations = asked("sacctmgr", text.replace("Fairshare=2147483647", "Fairshare=6"), tree)
    assert summary_of(operations, tree) == [("set_shares", "/bio/students", 6.0)]


def test_scaled_shares_change_together_so_that_their_proportions_hold(tree: TreeColumns) -> None:
    text = text_of_tree("sacctmgr", tree).replace("Description='bio':Fairshare=25", "Description='bio':Fairshare=75")
    operations = summary_of(asked("sacctmgr", text, tree), tree)
    assert operations == [
        ("set_shares", "/Physics", 50.0),
        ("set_shares", "/bio", 75.0),
        ("set_shares", "/left over", 25.0),
    ]


def test_a_user_that_is_an_account_in_the_file_becomes_a_group(tree: TreeColumns) -> None:
    text = text_of_tree("sacctmgr", tree).replace("User - 'O_Neil':DefaultAccount='bio'", "Account - 'O_Neil'")
    assert summary_of(asked("sacctmgr", text, tree), tree) == [("set_kind", "/bio/O'Neil", "group")]
