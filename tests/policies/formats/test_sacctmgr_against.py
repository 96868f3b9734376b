"""Slurm's tree goes round: read from a dump, written against a dump, and nothing but shares has changed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from apps.core.errors import Invalid
from apps.policies.formats.registry import get_format
from apps.policies.publishing.direct import tree_of_document
from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.names import new_uid
from apps.policies.tree.working_tree import columns_of
from tests.policies.formats.round_trip import asked, read

SITE = """\
# To edit this file start with a cluster line for the new cluster
Cluster - 'fram':Fairshare=1:QOS='normal,high':DefaultQOS='normal'
Parent - 'root'
User - 'root':DefaultAccount='root':AdminLevel='Administrator':Fairshare=1
Account - 'hep':Description='high: energy':Organization='science':Fairshare=60:GrpTRES=cpu=6:QOS='+high'
Account - 'bio':Organization='science'
Parent - 'hep'
Account - 'atlas':Fairshare=2147483647:MaxJobs=50
User - 'ann':Coordinator='hep':DefaultAccount='hep':Fairshare=2
User - 'ann':Partition='gpu':DefaultAccount='hep':Fairshare=9
Parent - 'atlas'
User - 'ann':DefaultAccount='hep':Fairshare=3
User - 'ben':DefaultAccount='atlas'
"""


def nodes_of(text: str) -> dict[str, Node]:
    """By path, of the policy that an import of the dump makes."""
    tree = tree_of_document(read("sacctmgr", text), get_format("sacctmgr"))
    return {tree.path(i): node for i, node in enumerate(tree.nodes())}


def changed(text: str, **shares: float | None) -> TreeColumns:
    nodes = nodes_of(text)
    for path, value in shares.items():
        at = "/" + path.replace("__", "/")
        nodes[at] = replace(nodes[at], shares=value)
    return columns_of(list(nodes.values()))


def written(name: str, tree: TreeColumns, dump: str) -> list[str]:
    chosen = get_format(name)
    assert chosen.against is not None
    return "".join(chosen.against(tree, dump).pieces()).splitlines()


def test_real_and_full_dumps_round_trip(golden_dir: Path) -> None:
    real = (golden_dir / "slurm/samples/sacctmgr-dump-demo.cfg").read_text()
    for dump in (real, SITE):
        tree = changed(dump)
        assert written("sacctmgr", tree, dump) == dump.splitlines()
        assert written("sacctmgr-script", tree, dump)[1:] == []


def test_one_share_is_one_value_of_one_line_and_one_command() -> None:
    tree = changed(SITE, hep__atlas__ann=7)
    differing = [(a, b) for a, b in zip(SITE.splitlines(), written("sacctmgr", tree, SITE), strict=True) if a != b]
    assert differing == [
        ("User - 'ann':DefaultAccount='hep':Fairshare=3", "User - 'ann':DefaultAccount='hep':Fairshare=7")
    ]
    assert written("sacctmgr-script", tree, SITE)[1:] == [
        "modify user where name=ann account=atlas cluster=fram set fairshare=7"
    ]


def test_shares_are_replaced_under_the_name_that_the_dump_gives_them() -> None:
    dump = SITE.replace("DefaultAccount='hep':Fairshare=3", "DefaultAccount='hep':Shares=3")
    wanted = dump.replace("Shares=3", "Shares=7").splitlines()
    assert written("sacctmgr", changed(dump, hep__atlas__ann=7), dump) == wanted


def test_omitted_shares_are_1_and_inherited_ones_the_largest_number_of_slurm() -> None:
    tree = changed(SITE, bio=5, hep__atlas=2, hep__ann=None)
    assert written("sacctmgr-script", tree, SITE)[1:] == [
        "modify account where name=bio cluster=fram set fairshare=5",
        "modify account where name=atlas cluster=fram set fairshare=2",
        "modify user where name=ann account=hep cluster=fram partition='' set fairshare=parent",
    ]
    lines = written("sacctmgr", tree, SITE)
    assert "Account - 'bio':Organization='science':Fairshare=5" in lines
    assert "Account - 'atlas':Fairshare=2:MaxJobs=50" in lines
    assert "User - 'ann':Coordinator='hep':DefaultAccount='hep':Fairshare=2147483647" in lines
    assert "User - 'ann':Partition='gpu':DefaultAccount='hep':Fairshare=9" in lines
    assert lines[-1].startswith("# load the file twice, because of associations of one partition (ann in hep)")


def test_new_entries_are_added_and_removed_ones_become_comments() -> None:
    nodes = nodes_of(SITE)
    del nodes["/hep/atlas/ben"]
    lab = Node(new_uid(), nodes["/bio"].uid, "lab", shares=4)
    eva = Node(new_uid(), lab.uid, "eva", "user", 2.0, is_group=False)
    tree = columns_of([*nodes.values(), lab, eva])
    gone = "# not in the policy: remove user where name=ben account=atlas cluster=fram"
    assert written("sacctmgr-script", tree, SITE)[1:] == [
        "add account name=lab parent=bio cluster=fram fairshare=4",
        "add user name=eva account=lab cluster=fram fairshare=2",
        gone,
    ]
    lines = written("sacctmgr", tree, SITE)
    assert lines[: len(SITE.splitlines())] == SITE.splitlines()
    assert lines[len(SITE.splitlines()) :] == [
        "Parent - 'bio'",
        "Account - 'lab':Fairshare=4",
        "Parent - 'lab'",
        "User - 'eva':Fairshare=2",
        gone,
    ]


def test_an_account_at_another_parent_is_reported_and_not_moved() -> None:
    elsewhere = SITE.replace("Parent - 'hep'\nAccount - 'atlas'", "Parent - 'bio'\nAccount - 'atlas'", 1)
    lines = written("sacctmgr-script", changed(SITE), elsewhere)
    move = "modify account where name=atlas cluster=fram set parent=hep"
    assert f"# atlas is below bio there and below hep in the policy: {move}" in lines
    assert not [line for line in lines if "atlas" in line and not line.startswith("#")]


@pytest.mark.parametrize(
    ("dump", "reason"),
    [
        (SITE[:-20], "cut off"),
        (SITE + SITE, "second cluster"),
        (SITE.replace("'fram'", "'fram set fairshare=9'"), "not a valid cluster name"),
        ("add account Name=hep Fairshare=60\n", "script"),
        (SITE.replace("=60", "=2147483648"), "whole number"),
        (SITE.replace("Account - 'hep'", "Account - 'hepp'"), "declared"),
        ("", "Cluster"),
    ],
)
@pytest.mark.parametrize("name", ["sacctmgr", "sacctmgr-script"])
def test_an_incomplete_dump_gives_no_output(name: str, dump: str, reason: str) -> None:
    with pytest.raises(Invalid, match=reason):
        written(name, changed(SITE), dump)


SCALED = """\
Cluster - 'fram'
Parent - 'root'
Account - 'bio':Fairshare=25
Account - 'hep':Fairshare=50
Account - 'lab':Fairshare=25
"""


def scaled(bio: float, hep: float, lab: float) -> TreeColumns:
    """The policy of which the dump has hundred times the shares, with these."""
    nodes = nodes_of(SCALED)
    for path, value in {"/bio": bio, "/hep": hep, "/lab": lab}.items():
        nodes[path] = replace(nodes[path], shares=value)
    return columns_of(list(nodes.values()), policy_slug="fram")


def notes(tree: TreeColumns, dump: str) -> tuple[str, ...]:
    against = get_format("sacctmgr").against
    assert against is not None
    return against(tree, dump).notes


def test_fractions_keep_the_most_common_scale_of_their_group() -> None:
    """Alone, 0.5 to 0.3 to 0.2 would be 5 to 3 to 2, and every line another one."""
    tree = scaled(0.25, 0.5, 0.3)
    assert written("sacctmgr-script", tree, SCALED)[1:] == [
        "modify account where name=lab cluster=fram set fairshare=30"
    ]
    assert notes(tree, SCALED) == ()
    assert asked("sacctmgr", "\n".join(written("sacctmgr", tree, SCALED)) + "\n", tree) == []


def test_a_group_that_needs_another_scale_is_reported() -> None:
    tree = scaled(0.25, 0.5, 0.125)
    note = "2 of 3 shares below root change: they are written × 200, because Slurm accepts only whole numbers"
    assert written("sacctmgr-script", tree, SCALED)[1:] == [
        "modify account where name=bio cluster=fram set fairshare=50",
        "modify account where name=hep cluster=fram set fairshare=100",
        f"# {note}",
    ]
    assert notes(tree, SCALED) == (note,)
    assert asked("sacctmgr", "\n".join(written("sacctmgr", tree, SCALED)) + "\n", tree) == []


def test_a_changed_proportion_at_another_scale_is_a_change() -> None:
    tree = scaled(0.25, 0.5, 0.3)
    assert asked("sacctmgr", SCALED.replace("=50", "=51"), tree) != []


def test_an_account_renamed_in_slurm_is_reported_with_a_remedy() -> None:
    renamed = SITE.replace("'atlas'", "'atlas2'")
    lines = written("sacctmgr-script", changed(SITE), renamed)
    assert "add account name=atlas parent=hep cluster=fram fairshare=parent" in lines
    assert "# not in the policy: remove account where name=atlas2 cluster=fram" in lines
    assert [line for line in lines if "same users" in line] == [
        "# atlas2 there and atlas in the policy have the same users: if it was renamed in Slurm, rename it in the "
        "policy first; Slurm renames no account, so these commands add a second one"
    ]


@pytest.mark.parametrize("name", ["sacctmgr", "sacctmgr-script"])
def test_a_truncated_dump_gives_no_output(name: str) -> None:
    """Cut off between two lines: accounts are named, and what is below them is missing."""
    lines = SITE.splitlines(keepends=True)
    half = "".join(lines[: lines.index("Parent - 'hep'\n")])
    with pytest.raises(Invalid, match="3 of 8 associations of the policy, and nothing below hep"):
        written(name, changed(SITE), half)
