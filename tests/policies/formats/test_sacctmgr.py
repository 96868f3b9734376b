"""Slurm's account tree as sacctmgr dumps it; the numbers are those of the sample files."""

from __future__ import annotations

from pathlib import Path

import pytest

from apps.core.errors import Invalid
from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.names import new_uid
from apps.policies.tree.working_tree import columns_of
from tests.each_case import each_case
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


def test_an_association_of_one_partition_is_an_entry_beside_the_users_other_one() -> None:
    lines = "User - 'u':Fairshare=2\nUser - 'u':Partition='GPU':Fairshare=9\nUser - 'v':Partition='gpu'\n"
    tree = read("sacctmgr", HEAD + lines).tree
    assert {tree.path(i): tree.node(i).shares for i in (1, 2, 3)} == {"/u": 2, "/u:gpu": 9, "/v:gpu": 1}
    with pytest.raises(Invalid, match="line 7: u 'u:gpu' is repeated in /, first in line 5"):
        read("sacctmgr", HEAD + lines + "User - 'u':Partition='gpu'\n")


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


@each_case(
    ("lines", "place", "message"),
    [
        ("Account - 'a'\nAccount - 'A'", "line 5: A", "each account once"),
        ("Parent - 'x'\nUser - 'u'", "line 4: Parent", "'x' isn't declared before it"),
        ("User - 'u'\nUser - 'u'", "line 5: u", "repeated in /, first in line 4"),
        ("User - 'u':Fairshare=1.5", "line 4: Fairshare of u", "neither a whole number"),
        ("User - 'u':Fairshare=2147483648", "line 4: Fairshare of u", "neither a whole number"),
        ("User - 'u\u202ev'", "line 4, /: 'u\\u202ev'", "U+202E"),
        ("Person - 'u'", "line 4", "none of Cluster, Parent"),
        ("User - ''", "line 4, /: ''", "empty"),
        ("User - 'u'x", "line 4: u", "'x' follows the closing quote of the name"),
        ("User - 'u':QOS='a' b:Fairshare=5", "line 4: u", "'b' follows the closing quote of QOS"),
        ("User - 'u':Comment='a:Fairshare=5", "line 4: u", "a quote that isn't closed"),
        ("User - 'u':Farshare=5", "line 4: u", "'Farshare' is no option of Slurm"),
        ("User - 'u':Sharess=5", "line 4: u", "'Sharess' is no option of Slurm"),
        ("Account - 'a':Parent='b'", "line 4: Parent of a", "put the line below 'b'"),
        ("User - 'u':5", "line 4: u", "isn't an option"),
        ("User - 'u':=", "line 4: u", "isn't an option"),
        ("Cluster - 'b'", "line 4", "a second cluster"),
    ],
)
def test_wrong_lines_are_refused_with_line_and_name(lines: str, place: str, message: str) -> None:
    found = problems(HEAD + lines + "\n")
    assert message in found[place], found


def shares_of(lines: str) -> dict[str, float | None]:
    tree = read("sacctmgr", HEAD + lines).tree
    return {tree.path(i): tree.node(i).shares for i in range(1, len(tree))}


# Lines below HEAD, and the shares by path.
LOADED: list[tuple[str, dict[str, float | None]]] = [
    # shares: words, the number that dumps write for parent, the default again, none
    ("User - 'u':Fairshare=Parent", {"/u": None}),
    ("User - 'u':Fairshare=2147483647", {"/u": None}),
    ("User - 'u':Fairshare=-1", {"/u": 1}),
    ("User - 'u':Fairshare=", {"/u": 1}),
    ("User - 'u':Fairshare=0", {"/u": 0}),
    # keys by their shortest forms, in any letter case
    ("User - 'u':f=5:DEFAULTA='root':ad=None", {"/u": 5}),
    ("Account - 'a':fa=5:desc='x:y':o='z'", {"/a": 5}),
    ("Account - 'a':s=5:MAXW=3:grptres=cpu=1", {"/a": 5}),
    ("project - 'a':FAIRSHARE=5\nPARENT - 'A'\nuser - 'u'", {"/a": 5, "/a/u": 1}),
    # operators of lists, empty options, names without quotes
    ("Account - 'a':QOS+=normal,long:Fairshare=7:QOS-=short", {"/a": 7}),
    ("Account - a:Fairshare=7:\nParent - a:\nUser - u:", {"/a": 7, "/a/u": 1}),
    ("Account - 'root':Fairshare=4", {}),
    # types of TRES, with quotes and, as dumps write them, without
    ("Account - 'a':GrpTRES='gres/gpu:a100=4':Fairshare=5", {"/a": 5}),
    ("Account - 'a':GrpTRES=cpu=5,gres/gpu:a100=4,gres/gpu:tesla=8:Fairshare=5", {"/a": 5}),
    ("Account - 'a':Fairshare=5:MaxTRESMinsPerJob=gres/gpu:1g.5gb:2=4:MaxJobs=50", {"/a": 5}),
    # comments, escapes, continued lines
    ("Account - 'a':Fairshare=5 # more:Fairshare=6", {"/a": 5}),
    ("Account - 'a':Description='R\\#1':Fairshare=5", {"/a": 5}),
    ("Account - 'a':Description='PI #1':Fairshare=5", {"/a": 5}),
    ("Account - 'a':\\\nFairshare=5\nUser - \\\n'u'", {"/a": 5, "/u": 1}),
    ("Account - 'a': \\\n  Fairshare=5\nUser - \\\n'u'", {"/a": 5, "/u": 1}),
    ("# a comment goes not on \\\nUser - 'u'", {"/u": 1}),
    # names of accounts are stored in lower case; users as slurmdbd stores them
    (
        "Account - 'Phys'\nParent - 'PHYS'\nUser - 'JDoe'\nUser - 'jdoe'",
        {"/phys": 1, "/phys/JDoe": 1, "/phys/jdoe": 1},
    ),
    # one user in several accounts and partitions
    (
        "Account - 'a'\nAccount - 'b'\nParent - 'a'\nUser - 'u':Partition='gpu':Fairshare=9\n"
        "User - 'u':Fairshare=2\n"
        "Parent - 'b'\nUser - 'u':Partition='gpu':Fairshare=9\nUser - 'u':Fairshare=3",
        {"/a": 1, "/b": 1, "/a/u:gpu": 9, "/a/u": 2, "/b/u:gpu": 9, "/b/u": 3},
    ),
]


@each_case(("lines", "expected"), LOADED)
def test_lines_are_read_as_slurm_loads_them(lines: str, expected: dict[str, float | None]) -> None:
    assert shares_of(lines + "\n") == expected


def test_without_a_line_parent_accounts_are_below_the_root() -> None:
    tree = read("sacctmgr", "Machine - 'DEMO':\nAccount - 'a':fa=5\n").tree
    assert (tree.path(1), tree.node(1).shares) == ("/a", 5)
    assert read("sacctmgr", "Machine - 'DEMO':\nAccount - 'a':fa=5\n").policy == "demo"


@pytest.mark.parametrize(
    ("lines", "note"),
    [
        ("User u", "line 4: 'User u', which Slurm skips, because it has no -"),
        ("User - 'u':Nonsense=3", "line 4: option Nonsense, which Slurm doesn't know"),
        ("User - 'u':Fairshare+=3", "line 4: Fairshare+= is read as =; Slurm 25.11 and later refuse it"),
        ("Account - 'a':Description='PI #1'", "line 4: sacctmgr load ends it at #; to load it, write \\#"),
        ("User - 'u':Coordinator='a,b'", "coordinator (1 ×)"),
    ],
)
def test_what_is_read_in_another_way_than_slurm_writes_it_is_named(lines: str, note: str) -> None:
    assert note in read("sacctmgr", HEAD + lines + "\n").ignored


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
            Node(new_uid(), bio.uid, "o'neil", "person", 3, is_group=False),
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
        "Account - 'left over':Description='left over':Fairshare=25",
        "Parent - 'physics'",
        "Account - 'students':Description='students':Fairshare=1",
        "Parent - 'bio'",
        "User - 'o_neil':DefaultAccount='bio':Fairshare=3",
        "Account - 'bio_students':Description='bio_students':Fairshare=2147483647",
    ]


def test_importing_an_edited_export_changes_only_the_edits(tree: TreeColumns) -> None:
    text = text_of_tree("sacctmgr", tree)
    operations = asked(
        "sacctmgr", text.replace("DefaultAccount='bio':Fairshare=3", "DefaultAccount='bio':Fairshare=4"), tree
    )
    assert summary_of(operations, tree) == [("set_shares", "/bio/o'neil", 4.0)]
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
    text = text_of_tree("sacctmgr", tree).replace("User - 'o_neil':DefaultAccount='bio'", "Account - 'o_neil'")
    assert summary_of(asked("sacctmgr", text, tree), tree) == [("set_kind", "/bio/o'neil", "group")]
