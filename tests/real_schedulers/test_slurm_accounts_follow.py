"""Accounts and users change in a real Slurm: they are followed, and a user new there has the place that Slurm gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from apps.engine.algorithms import read_algorithm
from apps.engine.cases import solve
from apps.policies.formats.registry import get_format
from apps.policies.publishing.direct import tree_of_document
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.difference import operations_between
from apps.policies.tree.following import follow_document
from apps.policies.tree.slurm_associations import split_association
from apps.policies.tree.working_tree import columns_of
from apps.priorities.entry_order import ordering_of
from apps.priorities.serving.new_users import rank_in_new_tree
from apps.priorities.serving.served_snapshot import OUTSIDER_SHARES
from tests.faults.stack import eventually
from tests.policies.formats.round_trip import read
from tests.real_schedulers.slurm_site import CLUSTER, TREE, SlurmSite, table
from tests.real_schedulers.test_slurm_deep_trees import case_of

pytestmark = [pytest.mark.schedulers, pytest.mark.timeout(900)]
SACCTMGR = get_format("sacctmgr")
USAGE = {
    ("hep", "ann"): 4_000.0,
    ("hep", "bob"): 700.0,
    ("atlas2", "cat"): 2_500.0,
    ("bio", "dan"): 1_300.0,
    ("bio", "eve"): 90.0,
    ("lab", "fay"): 600.0,
}


@pytest.fixture(scope="module")
def used(slurm: SlurmSite) -> SlurmSite:
    """The site with usage, and an account without shares."""
    slurm.load(TREE)
    slurm.add_account("closed", shares=0)
    slurm.add_user("gus", "closed")
    slurm.configure(PriorityFlags="", PriorityDecayHalfLife="3650-0")
    slurm.set_usage(USAGE)
    return slurm


def imported(site: SlurmSite) -> TreeColumns:
    return tree_of_document(read("sacctmgr", site.dump()), SACCTMGR)


def associations(site: SlurmSite) -> set[tuple[str, bool]]:
    """Path of each association by Slurm's own listing, and whether it is an account."""
    columns = "format=Account,User,Partition,ParentName"
    listed = site.run("sacctmgr", "--noheader", "--parsable2", "show", "assoc", f"cluster={CLUSTER}", columns)
    rows = [row.split("|") for row in listed.splitlines()]
    parents = {account: parent for account, user, _partition, parent in rows if not user}

    def path(account: str) -> str:
        return "" if account == "root" else f"{path(parents[account])}/{account}"

    accounts = {(path(account), True) for account in parents if account != "root"}
    users = (
        (f"{path(account)}/{user}" + (f":{partition}" if partition or parents.get(user) == account else ""), False)
        for account, user, partition, _parent in rows
        if user
    )
    return accounts | set(users)


def places(tree: TreeColumns) -> set[tuple[str, bool]]:
    return {(tree.path(i), bool(tree.is_group[i])) for i in range(1, len(tree))}


def predicted(tree: TreeColumns, account: str) -> float | None:
    """The factor of a user whom the tree lacks, as look-ups serve it."""
    algorithm: Mapping[str, Any] = read_algorithm({"name": "slurm-fair-tree"})
    usage = np.zeros(len(tree))
    for i in range(1, len(tree)):
        usage[i] = USAGE.get((tree.name[int(tree.parent[i])], tree.name[i]), 0.0) if not tree.is_group[i] else 0.0
    for i in range(len(tree) - 1, 0, -1):  # children come after their parents
        usage[int(tree.parent[i])] += usage[i]
    snapshot: Any = SimpleNamespace(
        tree=tree,
        values=SimpleNamespace(usage=usage, group_usage=usage),
        algorithm=algorithm,
        order=ordering_of(dict(algorithm)),
    )
    entry = next(i for i in range(len(tree)) if tree.is_group[i] and tree.name[i] == account)
    return rank_in_new_tree(snapshot, entry, OUTSIDER_SHARES).factor


def fair_share(site: SlurmSite, account: str, user: str) -> str:
    return next((row["FairShare"] for row in site.shares() if (row["Account"], row["User"]) == (account, user)), "")


@pytest.mark.deep
@pytest.mark.parametrize("account", ["closed", "hep", "idle", "lab"])
def test_a_user_added_in_slurm_alone_has_the_place_that_slurm_gives(used: SlurmSite, account: str) -> None:
    newcomer = f"hal{account}"  # of its own, whatever an earlier one left behind
    factor = predicted(imported(used), account)
    used.add_user(newcomer, account)
    try:
        used.restart("slurmctld")
        eventually(
            lambda: fair_share(used, account, newcomer) == f"{factor:.6f}",
            f"FairShare {factor} in {account}",
            within_s=120,
            describe=lambda: f"{fair_share(used, account, newcomer)} in Slurm, {factor} here",
        )
    finally:
        used.sacctmgr("delete", "user", newcomer)


@pytest.mark.deep
def test_what_sacctmgr_changes_is_followed_and_published_shares_stay(used: SlurmSite) -> None:
    head = columns_of([replace(node, shares=90.0) if node.name == "hep" else node for node in imported(used).nodes()])
    used.sacctmgr("modify", "account", "where", "name=atlas2", f"cluster={CLUSTER}", "set", "parent=bio")
    used.sacctmgr("modify", "account", "where", "name=hep", f"cluster={CLUSTER}", "set", "fairshare=7")
    used.add_account("physics2", "hep", 3)
    used.add_user("fay", "physics2", 4)
    used.sacctmgr("add", "user", "eve", "account=bio", "partition=gpu", "fairshare=9", f"cluster={CLUSTER}")
    # Since 24.11 Slurm removes no association of a user's default account.
    used.sacctmgr("modify", "user", "where", "name=gus", f"cluster={CLUSTER}", "set", "defaultaccount=closed")
    used.sacctmgr("delete", "user", "where", "name=gus", "account=lab", f"cluster={CLUSTER}")
    used.add_account("bob", "hep", 2)  # named like a user beside it
    used.add_user("cat", "bob", 1)
    declared = read("sacctmgr", used.dump())
    tree = follow_document(declared, head, fitted=SACCTMGR.fit(head)).tree
    assert places(tree) == associations(used)
    shares = {tree.path(i): tree.node(i).shares for i in range(1, len(tree))}
    assert shares["/hep"] == 90.0
    assert (shares["/bio/atlas2"], shares["/bio/atlas2/cat"], shares["/hep/physics2/fay"]) == (10.0, 1.0, 4.0)
    assert (shares["/bio/eve"], shares["/bio/eve:gpu"]) == (2.0, 9.0)
    assert (shares["/hep/bob"], shares["/hep/bob:"], shares["/hep/bob/cat"]) == (2.0, 3.0, 1.0)
    assert "/bio/lab/gus" not in shares
    uids = {head.name[i]: head.uuid(i) for i in range(1, len(head)) if head.is_group[i]}
    assert {tree.name[i]: tree.uuid(i) for i in range(len(tree)) if tree.name[i] in uids and tree.is_group[i]} == uids
    again = follow_document(read("sacctmgr", used.dump()), tree, fitted=SACCTMGR.fit(tree)).tree
    assert operations_between(tree, again) == []


@pytest.mark.deep
def test_every_association_has_slurms_fair_share_after_all_that(used: SlurmSite) -> None:
    """Of one partition beside the plain one, beside an account of the user's name, parent's, and without shares."""
    used.set_usage(USAGE)
    tree = imported(used)
    usage = {
        tree.path(i): USAGE.get((tree.name[int(tree.parent[i])], split_association(tree.name[i]).user), 0.0)
        for i in range(1, len(tree))
        if not tree.is_group[i] and not split_association(tree.name[i]).partition
    }
    nodes = solve(case_of(tree, {"name": "slurm-fair-tree"}, usage))["nodes"]
    ours = {
        (tree.name[int(tree.parent[i])] if tree.parent[i] else "root", *split_association(tree.name[i])): (
            f"{nodes[tree.path(i)]['factor']:.6f}"
        )
        for i in range(1, len(tree))
        if not tree.is_group[i]
    }

    def theirs() -> dict[tuple[str, str, str], str]:
        rows = table(used.run("sshare", "--all", "--long", "--parsable2", "--partition"))
        return {
            (row["Account"].strip(), row["User"], row["Partition"]): row["FairShare"] for row in rows if row["User"]
        }

    eventually(
        lambda: theirs() == ours, "FairShare of all", within_s=150, describe=lambda: f"{theirs()}\nand here {ours}"
    )
