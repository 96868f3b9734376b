"""Accounts nine levels deep: the factors of each of Slurm's algorithms are those of sshare."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from apps.engine.cases import solve
from apps.policies.formats.registry import get_format
from apps.policies.publishing.direct import tree_of_document
from apps.policies.tree.columns import TreeColumns
from tests.faults.stack import eventually
from tests.policies.formats.round_trip import read
from tests.real_schedulers.slurm_site import CLUSTER, SlurmSite

pytestmark = [pytest.mark.schedulers, pytest.mark.deep, pytest.mark.timeout(600)]

FLAGS = {"slurm-fair-tree": "", "slurm-classic": "NO_FAIR_TREE", "slurm-depth-oblivious": "DEPTH_OBLIVIOUS"}
COLUMNS = {"NormShares": "norm_shares", "EffectvUsage": "effective_usage", "LevelFS": "level_fs", "FairShare": "factor"}


def deep_tree(depth: int) -> str:
    """Accounts a1 … below each other, each with two users, who are in all of them, and one account without usage."""
    lines = [f"Cluster - '{CLUSTER}':Fairshare=1:QOS='normal'", "Parent - 'root'", "Account - 'a1':Fairshare=7"]
    for level in range(1, depth):
        inner = "parent" if level % 3 == 2 else level + 2
        lines += [f"Parent - 'a{level}'", f"Account - 'a{level + 1}':Fairshare={inner}"]
        lines += [f"Account - 'unused{level}':Fairshare={level}"]
        lines += [
            f"User - 'ann':DefaultAccount='a1':Fairshare={level}",
            "User - 'bob':DefaultAccount='a1':Fairshare=2",
        ]
        lines += [f"Parent - 'unused{level}'", "User - 'cat':Fairshare=1"]
    return "\n".join(lines) + "\n"


def case_of(tree: TreeColumns, algorithm: Mapping[str, Any], usage: Mapping[str, float]) -> dict[str, Any]:
    """The imported tree as a case of the engine."""
    nodes = tree.nodes()
    made: list[dict[str, Any]] = []
    for i, node in enumerate(nodes):
        made.append({"name": node.name, "kind": node.kind, "shares": node.field_json("shares")})
        if i:
            made[int(tree.parent[i])].setdefault("children", []).append(made[-1])
    return {"algorithm": dict(algorithm), "policy": made[0], "usage": dict(usage)}


def test_a_deep_tree_with_slurm_usage_equals_sshare(slurm: SlurmSite) -> None:
    slurm.load(deep_tree(9))
    ids = sorted(who for who in slurm.associations() if who[1] not in ("", "root"))
    usage = {who: float(100 * 3**n % 99_991) for n, who in enumerate(ids) if not who[0].startswith("unused")}
    for algorithm, flags in FLAGS.items():
        slurm.configure(PriorityFlags=flags, PriorityDecayHalfLife="3650-0")
        slurm.set_usage(usage)
        tree = tree_of_document(read("sacctmgr", slurm.dump()), get_format("sacctmgr"))
        by_path = {row["Path"]: usage.get((row["Account"], row["User"]), 0.0) for row in slurm.shares() if row["User"]}
        nodes = solve(case_of(tree, {"name": algorithm}, by_path))["nodes"]
        # Depth-oblivious numbers are wrong in the first PriorityCalcPeriod after a start of the controller.
        eventually(
            lambda: differences(slurm, nodes) == [],  # noqa: B023 - called within this pass
            f"{algorithm} as sshare has it",
            within_s=150,
            describe=lambda: str(differences(slurm, nodes)[:10]),  # noqa: B023
        )


def differences(slurm: SlurmSite, nodes: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str, str, Any]]:
    rows = slurm.shares()[1:]
    assert nodes.keys() == {row["Path"] for row in rows}
    return [
        (row["Path"], column, row[column], nodes[row["Path"]][ours])
        for row in rows
        for column, ours in COLUMNS.items()
        if is_stated(row, column) and not is_close(float(row[column]), nodes[row["Path"]][ours])
    ]


def is_close(slurms: float, ours: float | str | None) -> bool:
    return ours is not None and slurms == pytest.approx(float(ours), rel=1e-6, abs=1e-6)


def is_stated(row: Mapping[str, str], column: str) -> bool:
    """Slurm leaves cells empty; its NormShares of shares=parent just below the root is a sign, not a number."""
    is_sign = column == "NormShares" and row["RawShares"] == "parent" and row["Path"].count("/") == 1
    return bool(row.get(column)) and not is_sign
