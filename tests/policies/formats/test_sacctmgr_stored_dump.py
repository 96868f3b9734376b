"""An export is the dump that was imported, line for line, with what changed since."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from apps.policies.formats.base import LastImport
from apps.policies.formats.registry import get_format
from apps.policies.publishing.direct import tree_of_document
from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.names import new_uid
from apps.policies.tree.working_tree import columns_of
from tests.policies.formats.round_trip import read
from tests.policies.formats.test_sacctmgr_against import SITE, written

Nodes = dict[str, Node]
Edit = Callable[[Nodes], None]


def imported(text: str) -> TreeColumns:
    return tree_of_document(read("sacctmgr", text), get_format("sacctmgr"))


def exported(text: str, edit: Edit = lambda nodes: None, cluster: str = "") -> list[str]:
    """The dump after an edit of the policy that its import made."""
    return exported_since(imported(text), text, edit, cluster)


def exported_since(then: TreeColumns, text: str, edit: Edit, cluster: str = "") -> list[str]:
    """The same where the import made the tree `then`."""
    nodes = {then.path(i): node for i, node in enumerate(then.nodes())}
    edit(nodes)
    tree = columns_of(list(nodes.values()))
    write = get_format("sacctmgr").write_remembered
    assert write is not None
    return "".join(write(tree, LastImport(cluster, text, then))).splitlines()


def differences(text: str, edit: Edit) -> tuple[list[str], list[str]]:
    """(lines that went, lines that came)."""
    before, after = text.splitlines(), exported(text, edit)
    return [line for line in before if line not in after], [line for line in after if line not in before]


def changing(path: str, **values: object) -> Edit:
    def edit(nodes: Nodes) -> None:
        nodes[path] = replace(nodes[path], **values)  # type: ignore[arg-type]

    return edit


def user(parent: Node, name: str) -> Node:
    return Node(new_uid(), parent.uid, name, "user", 2.0, is_group=False)


def without(*paths: str) -> Edit:
    def edit(nodes: Nodes) -> None:
        for path in paths:
            del nodes[path]

    return edit


def test_without_an_edit_every_byte_is_unchanged(golden_dir: Path) -> None:
    real = (golden_dir / "slurm/samples/sacctmgr-dump-demo.cfg").read_text()
    for text in (real, SITE, SITE.replace("'fram'", "fram").replace("Fairshare=60", "fairshare = '60' ")):
        assert exported(text) == text.splitlines()


def test_one_share_is_one_value_of_one_line() -> None:
    assert differences(SITE, changing("/hep", shares=61.0)) == (
        ["Account - 'hep':Description='high: energy':Organization='science':Fairshare=60:GrpTRES=cpu=6:QOS='+high'"],
        ["Account - 'hep':Description='high: energy':Organization='science':Fairshare=61:GrpTRES=cpu=6:QOS='+high'"],
    )


def test_another_cluster_changes_the_name_in_one_line() -> None:
    lines = exported(SITE, cluster="saga")
    assert lines[1] == "Cluster - 'saga':Fairshare=1:QOS='normal,high':DefaultQOS='normal'"
    assert [*lines[:1], *lines[2:]] == [*SITE.splitlines()[:1], *SITE.splitlines()[2:]]


def test_a_renamed_account_keeps_its_slurm_attributes_everywhere() -> None:
    went, changed = differences(SITE, changing("/hep", name="particles"))
    came = [line for line in changed if not line.startswith("#")]
    assert came == [line.replace("'hep'", "'particles'") for line in went]
    assert changed[len(came) :] == [
        "# not in the policy: remove user where name=ann account=hep cluster=fram",
        "# not in the policy: remove user where name=ann account=hep cluster=fram partition=gpu",
        "# not in the policy: remove account where name=hep cluster=fram",
    ]
    assert len(went) == 5  # itself, its own users' lines, and the user of another account whose default it is
    assert "User - 'ann':Partition='gpu':DefaultAccount='particles':Fairshare=9" in came


def test_a_moved_account_is_declared_after_its_parent_and_before_its_children() -> None:
    then = imported(SITE)
    bio = then.node(then.index_of_path("/bio") or 0)
    lines = exported(SITE, lambda nodes: changing("/hep/atlas", parent_uid=nodes["/bio"].uid)(nodes))
    assert bio.name == "bio"
    at = lines.index("Parent - 'bio'")
    assert lines[at + 1] == "Account - 'atlas':Fairshare=2147483647:MaxJobs=50"
    assert lines.index("Parent - 'atlas'") > at
    assert sorted(lines) == sorted([*SITE.splitlines(), "Parent - 'bio'"])
    moved = read("sacctmgr", "\n".join(lines) + "\n").tree
    assert moved.index_of_path("/bio/atlas/ben") is not None


def test_archived_entries_are_dropped_with_removal_commands_in_comments() -> None:
    lines = exported(SITE, without("/hep/atlas/ann", "/hep/atlas/ben", "/hep/atlas"))
    assert [line for line in lines if "atlas" in line] == [
        "# not in the policy: remove user where name=ann account=atlas cluster=fram",
        "# not in the policy: remove user where name=ben account=atlas cluster=fram",
        "# not in the policy: remove account where name=atlas cluster=fram",
    ]
    assert lines[: SITE.splitlines().index("Parent - 'atlas'") - 3] == SITE.splitlines()[:7]


def test_an_archived_default_account_becomes_the_account_of_the_line() -> None:
    lines = exported(
        SITE, without("/hep/atlas/ann", "/hep/atlas/ben", "/hep/atlas", "/hep/ann", "/hep/ann:gpu", "/hep")
    )
    assert not [line for line in lines if "hep" in line and not line.startswith("#")]
    line = "Parent - 'bio'\nUser - 'ann':DefaultAccount='hep':Coordinator='bio,hep'\n"
    edited = SITE.replace("Parent - 'atlas'\n", f"{line}Parent - 'atlas'\n")
    lines = exported(
        edited, without("/hep/atlas/ann", "/hep/atlas/ben", "/hep/atlas", "/hep/ann", "/hep/ann:gpu", "/hep")
    )
    assert "User - 'ann':DefaultAccount='bio':Coordinator='bio'" in lines


def test_an_association_of_one_partition_keeps_its_line_with_the_shares_and_place_of_its_own_entry() -> None:
    alone = SITE.replace("User - 'ben'", "User - 'eva':Partition='gpu':Fairshare=4\nUser - 'ben'")
    assert exported(alone) == alone.splitlines()
    assert differences(SITE, changing("/hep/ann:gpu", shares=8.0)) == (
        ["User - 'ann':Partition='gpu':DefaultAccount='hep':Fairshare=9"],
        ["User - 'ann':Partition='gpu':DefaultAccount='hep':Fairshare=8"],
    )
    moved = exported(SITE, lambda nodes: changing("/hep/ann:gpu", parent_uid=nodes["/bio"].uid)(nodes))
    assert moved[moved.index("Parent - 'bio'") + 1] == "User - 'ann':Partition='gpu':DefaultAccount='hep':Fairshare=9"
    gone = "# not in the policy: remove user where name=ann account=hep cluster=fram partition=gpu"
    assert gone in moved
    assert differences(SITE, changing("/hep/ann:gpu", name="ann:cpu"))[1] == [
        "User - 'ann':Partition='cpu':DefaultAccount='hep':Fairshare=9",
        gone,
    ]
    assert gone in exported(SITE, without("/hep/ann:gpu"))
    came = differences(SITE, lambda nodes: nodes.update({"/bio/ida:gpu": user(nodes["/bio"], "ida:gpu")}))[1]
    assert "User - 'ida':Partition='gpu':Fairshare=2" in came


def test_a_dump_that_was_imported_without_entries_of_partitions_keeps_their_lines_beside_their_users() -> None:
    whole = imported(SITE)
    nodes = {whole.path(i): node for i, node in enumerate(whole.nodes())}
    del nodes["/hep/ann:gpu"]
    then = columns_of(list(nodes.values()))
    assert exported_since(then, SITE, lambda nodes: None) == SITE.splitlines()
    moved = exported_since(then, SITE, lambda nodes: changing("/hep/ann", parent_uid=nodes["/bio"].uid)(nodes))
    at = moved.index("Parent - 'bio'")
    assert moved[at + 1 : at + 3] == [
        "User - 'ann':Coordinator='hep':DefaultAccount='hep':Fairshare=2",
        "User - 'ann':Partition='gpu':DefaultAccount='hep':Fairshare=9",
    ]


def test_new_accounts_and_users_have_a_line_below_their_parent() -> None:
    def add(nodes: Nodes) -> None:
        lab = Node(new_uid(), nodes["/bio"].uid, "lab", shares=4)
        eva = Node(new_uid(), lab.uid, "eva", "user", 2.0, is_group=False)
        ida = Node(new_uid(), nodes["/hep"].uid, "ida", "user", 3.0, is_group=False)
        nodes.update({"/bio/lab": lab, "/bio/lab/eva": eva, "/hep/ida": ida})

    went, came = differences(SITE, add)
    assert went == []
    assert came == [
        "User - 'ida':Fairshare=3",
        "Parent - 'bio'",
        "Account - 'lab':Fairshare=4",
        "Parent - 'lab'",
        "User - 'eva':Fairshare=2",
    ]


def test_a_user_archived_and_added_again_keeps_the_former_line() -> None:
    def again(nodes: Nodes) -> None:
        nodes["/hep/atlas/ben"] = replace(nodes["/hep/atlas/ben"], uid=new_uid(), shares=5.0)

    assert differences(SITE, again) == (
        ["User - 'ben':DefaultAccount='atlas'"],
        ["User - 'ben':DefaultAccount='atlas':Fairshare=5"],
    )


@pytest.mark.parametrize("edit", [changing("/bio", shares=0.5), changing("/hep", name="particles"), without("/bio")])
def test_the_new_dump_equals_the_policy(edit: Edit) -> None:
    then = imported(SITE)
    nodes = {then.path(i): node for i, node in enumerate(then.nodes())}
    edit(nodes)
    tree = columns_of(list(nodes.values()), policy_slug="fram")
    text = "\n".join(exported(SITE, edit)) + "\n"
    assert written("sacctmgr", tree, text) == text.splitlines()
    assert [line for line in written("sacctmgr-script", tree, text) if not line.startswith("#")] == []


def test_an_account_renamed_to_an_archived_ones_name_is_written_once() -> None:
    def edit(nodes: Nodes) -> None:
        del nodes["/bio"]
        nodes["/hep"] = replace(nodes["/hep"], name="bio")

    lines = [line for line in exported(SITE, edit) if line.startswith("Account - 'bio'")]
    assert [line.partition("Fairshare=")[2].partition(":")[0] for line in lines] == ["60"]
