"""Siblings keep the order in which they were created: through import, revisions and renames.

Slurm's Fair Tree lets tied accounts and users follow each other in this order, so that ranks depend on it.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from apps.accounts.actor import COMMAND
from apps.engine.algorithms import compute
from apps.engine.cases import solve
from apps.policies import services
from apps.policies.files.import_export import FileImport, import_policy
from apps.policies.formats.registry import FORMATS
from apps.policies.models import Policy
from apps.policies.records import NewChangeSet
from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.names import creation_ranks, new_uid, new_uids
from apps.policies.tree.stored import load_tree, load_tree_from_rows
from apps.policies.tree.working_tree import columns_of
from tests.examples import new_uid as random_uid
from tests.instants import AT
from tests.policies.formats.round_trip import text_of_tree

FAIR_TREE = {"name": "slurm-fair-tree"}


def user(name: str, shares: int = 1) -> dict[str, Any]:
    return {"name": name, "kind": "user", "shares": shares}


def account(name: str, *children: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "kind": "account", "shares": 1, "children": list(children)}


CHILDREN = [
    account("beta", user("b1"), user("b0", 0)),
    account("alpha", user("a1"), user("a0", 0)),
    account("Zoo", user("u"), user("t"), user("s")),
]


def ranks_of_document(children: list[dict[str, Any]]) -> dict[str, int]:
    case = {"algorithm": FAIR_TREE, "policy": {"name": "root", "children": children}, "usage": {}}
    return {path: node["rank"] for path, node in solve(case)["nodes"].items() if node["rank"]}


def ranks(tree: TreeColumns) -> dict[str, int]:
    result = compute(tree.engine_tree(), np.zeros(len(tree)), algorithm=FAIR_TREE)
    return {tree.path(i): int(result.rank[i]) for i in np.flatnonzero(result.has_rank).tolist()}


def listed(tree: TreeColumns, parent: int = 0) -> list[str]:
    """Names of children in the order in which the engine lists them."""
    place = creation_ranks(tree.uid)
    return [tree.name[i] for i in sorted(tree.children(parent), key=lambda i: place[i])]


@pytest.fixture
def slurm(db: None) -> Policy:
    services.make_policy(slug="slurm", name="Slurm", at=AT, actor=COMMAND)
    document = {"root": {"name": "slurm", "children": CHILDREN}}
    services.publish_document(policy_slug="slurm", document=document, reason="The start.", at=AT, actor=COMMAND)
    return Policy.objects.get(slug="slurm")


def publish(*operations: dict[str, Any]) -> None:
    made = services.make_change_set(
        policy_slug="slurm", new=NewChangeSet(operations=operations, reason="Why."), at=AT, actor=COMMAND
    )
    services.publish_change_set(id=made.pk, version=made.version, reason="Why.", at=AT, actor=COMMAND)


def test_a_document_gives_the_ranks_of_compute(slurm: Policy) -> None:
    tree = load_tree(slurm)
    assert [tree.name[i] for i in tree.children(0)] == ["Zoo", "alpha", "beta"]  # stored, and shown, by name
    assert listed(tree) == ["beta", "alpha", "Zoo"]
    assert ranks(tree) == ranks_of_document(CHILDREN)
    assert ranks(load_tree_from_rows(slurm)) == ranks(tree)


def test_a_rename_changes_no_rank(slurm: Policy) -> None:
    before = ranks(load_tree(slurm))
    publish({"op": "rename", "entry": "/beta", "name": "zeta"}, {"op": "rename", "entry": "/Zoo/u", "name": "zz"})
    slurm.refresh_from_db()
    after = ranks(load_tree(slurm))
    renamed = {path.replace("/beta", "/zeta").replace("/Zoo/u", "/Zoo/zz"): rank for path, rank in before.items()}
    assert after == renamed
    assert ranks(load_tree_from_rows(slurm)) == renamed


def test_new_entries_come_last_and_changed_ones_stay(slurm: Policy) -> None:
    publish(
        {"op": "add", "parent": "/", "name": "first", "kind": "account", "shares": 1},
        {"op": "add", "parent": "/", "name": "Another", "kind": "account", "shares": 1},
        {"op": "set_shares", "entry": "/alpha", "shares": 5},
    )
    publish({"op": "move", "entry": "/beta/b0", "parent": "/Zoo", "name": "b0"})
    slurm.refresh_from_db()
    tree = load_tree(slurm)
    assert listed(tree) == ["beta", "alpha", "Zoo", "first", "Another"]
    assert listed(tree, tree.index_of_path("/Zoo") or 0) == ["b0", "u", "t", "s"]  # as old as beta's others


@pytest.mark.parametrize(
    ("format", "content"),
    [
        ("csv", "path,kind,shares\n/new,account,1\n/new/z,user,1\n/new/A,user,1\n/new/m,user,1\n"),
        (
            "yaml",
            "root:\n  name: slurm\n  children:\n  - {name: new, kind: account, shares: 1, children: ["
            "{name: z, kind: user}, {name: A, kind: user}, {name: m, kind: user}]}\n",
        ),
    ],
)
def test_an_import_keeps_the_order_of_the_file(slurm: Policy, format: str, content: str) -> None:
    import_policy(
        file=FileImport(policy_slug="slurm", format=format, content=content.encode(), keep_missing=True),
        publish=True,
        reason="Why.",
        at=AT,
        actor=COMMAND,
    )
    slurm.refresh_from_db()
    tree = load_tree(slurm)
    assert listed(tree) == ["beta", "alpha", "Zoo", "new"]
    assert listed(tree, tree.index_of_path("/new") or 0) == ["z", "A", "m"]


def test_uids_increase_within_a_process() -> None:
    made = [new_uid() for _ in range(5)]
    many = new_uids(20_000)
    after = new_uid()
    assert made == sorted(made)
    assert {uid.version for uid in made} == {7}
    assert (np.diff(creation_ranks(many)) == 1).all()
    assert made[-1].bytes < many[0].tobytes()
    assert many[-1].tobytes() < after.bytes


def test_older_entries_keep_a_stable_order_and_come_first() -> None:
    root = Node(random_uid(), None, "root")
    old = sorted((Node(random_uid(), root.uid, f"o{n}") for n in range(4)), key=lambda node: node.uid.bytes)
    young = [Node(new_uid(), root.uid, f"a{9 - n}") for n in range(4)]
    assert listed(columns_of([*young, root, *old])) == [node.name for node in (*old, *young)]


@pytest.mark.parametrize("name", list(FORMATS))
def test_an_export_keeps_the_order_in_another_installation(slurm: Policy, name: str) -> None:
    """Without uids: the order of the file is all that it goes by."""
    text = without_uids(name, text_of_tree(name, load_tree(slurm)))
    services.make_policy(slug="copy", name="Copy", at=AT, actor=COMMAND)
    import_policy(
        file=FileImport(policy_slug="copy", format=name, content=text.encode()),
        publish=True,
        reason="Why.",
        at=AT,
        actor=COMMAND,
    )
    copy = load_tree(Policy.objects.get(slug="copy"))
    assert [each.lower() for each in listed(copy)] == ["beta", "alpha", "zoo"]
    for path, users in {"/beta": ["b1", "b0"], "/alpha": ["a1", "a0"]}.items():
        assert listed(copy, copy.index_of_path(path) or 0) == users
    zoo = copy.index_of_path("/zoo") or copy.index_of_path("/Zoo") or 0
    assert listed(copy, zoo) == ["u", "t", "s"]


def without_uids(name: str, text: str) -> str:
    if name == "csv":
        return "".join(f"{line.rpartition(',')[0]}\n" for line in text.splitlines())
    without = re.sub(r'"uid": "[^"]*", |uid: "?[0-9a-f-]+"?\n *', "", text)
    assert "uid" not in without
    return without
