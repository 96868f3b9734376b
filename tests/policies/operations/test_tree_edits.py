"""Edits of a tree that have no meaning are refused at their key, and new rules reach no further than their author."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from apps.accounts.actor import COMMAND
from apps.core.errors import Invalid
from apps.policies.models import Policy
from apps.policies.operations.adjustment_edits import read_adjustment
from apps.policies.operations.apply import apply_operations, tree_after
from apps.policies.operations.membership_reach import Author, record_reach
from apps.policies.publishing.direct import publish_operations
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree
from apps.policies.tree.terms import WHOLE_POLICY, MembershipRule
from apps.policies.tree.working_tree import WorkingTree
from tests.instants import AT

OUTAGE = {"op": "adjust_usage", "resource": "cpu_s", "amount_s": -10.0, "at": AT.isoformat()}


def set_shares(path: str, value: Any) -> dict[str, Any]:
    return {"op": "set_shares", "entry": path, "shares": value}


def uid_of(tree: TreeColumns, path: str) -> UUID:
    i = tree.index_of_path(path)
    assert i is not None, path
    return tree.uuid(i)


def publish(*operations: dict[str, Any]) -> TreeColumns:
    publish_operations(policy_slug="grid", operations=operations, reason="r", at=AT, actor=COMMAND)
    return load_tree(Policy.objects.get(slug="grid"))


def place(tree: TreeColumns, *operations: dict[str, Any]) -> str:
    """Where the operations are refused."""
    with pytest.raises(Invalid) as refused:
        apply_operations(tree, operations)
    return refused.value.fields[0].where


@pytest.mark.parametrize(
    ("operation", "key"),
    [
        ({"op": "set_shares", "entry": "/physics"}, "shares"),
        ({"op": "set_scope", "entry": "/physics", "scope": "local", "sources": "cluster"}, "sources"),
        ({"op": "set_kind", "entry": "/physics/bob", "kind": "reserve"}, "kind"),
        (OUTAGE | {"entry": "/reserve"}, "entry"),
        (set_shares("/physics/alice", {"percent": 50}), "shares.percent"),
    ],
)
def test_an_edit_without_a_meaning_is_refused_at_its_key(tree: TreeColumns, operation: Any, key: str) -> None:
    before = set_shares("/physics/bob", "parent" if key == "kind" else 0)
    assert place(tree, before, operation) == f"operations[1].{key}"


def test_an_added_entry_has_the_uid_of_no_other(tree: TreeColumns) -> None:
    added = {"op": "add", "parent": "/biology", "name": "new"}
    assert place(tree, added | {"uid": str(uid_of(tree, "/physics"))}) == "operations[0].uid"
    lab = uid_of(tree, "/biology/lab")
    publish({"op": "archive", "entry": "/biology/lab"})
    with pytest.raises(Invalid) as refused:
        publish(added | {"uid": str(lab)})
    assert refused.value.fields[0].where == "operations[0].uid"
    own = uuid4()
    assert uid_of(publish(added | {"uid": str(own)}), "/biology/new") == own


def test_an_entry_of_an_archived_parent_is_restored_below_another(tree: TreeColumns) -> None:
    lab = str(uid_of(tree, "/biology/lab"))
    publish({"op": "archive", "entry": "/biology/lab"})
    publish({"op": "archive", "entry": "/biology"})
    with pytest.raises(Invalid) as refused:
        publish({"op": "restore", "entry": lab})
    assert refused.value.fields[0].where == "operations[0].parent"
    assert publish({"op": "restore", "entry": lab, "parent": "/physics"}).index_of_path("/physics/lab") is not None


@pytest.mark.parametrize(("others", "percent"), [(1, 75), (0, 100)])
def test_the_present_percentage_changes_no_shares(tree: TreeColumns, others: float, percent: float) -> None:
    tree = tree_after(tree, [set_shares("/physics/alice", others)])
    outcome = apply_operations(tree, [set_shares("/physics/bob", {"percent": percent, "from": "siblings"})])
    assert outcome.changes == {}


@pytest.mark.parametrize("given", [None, 3, "cpu_s", []])
def test_an_adjustment_is_an_object(given: object) -> None:
    with pytest.raises(ValueError, match="object"):
        read_adjustment(given)


@pytest.mark.parametrize(
    ("author", "reach", "recorded"),
    [
        ("/physics", "/physics/bob", "/physics/bob"),
        ("/physics", "/biology", "/physics"),
        ("/physics", "/", "/physics"),
        ("/physics", WHOLE_POLICY, "/physics"),
        ("/physics", "", "/physics"),
        (WHOLE_POLICY, "/biology", "/biology"),
        (WHOLE_POLICY, "", WHOLE_POLICY),
    ],
)
def test_a_rule_reaches_no_further_than_its_author(tree: TreeColumns, author: str, reach: str, recorded: str) -> None:
    def uid(path: str) -> str:
        return str(uid_of(tree, path)) if path.startswith("/") else path

    rule = MembershipRule(group="phy*", reach=uid(reach), written_at="before")
    (found,) = record_reach([rule], standing=(), author=Author(uid(author), "now"), tree=WorkingTree(tree))
    assert found.reach == uid(recorded)


def test_a_rule_with_the_reach_of_an_archived_entry_gets_its_authors(tree: TreeColumns) -> None:
    physics = str(uid_of(tree, "/physics"))
    rule = MembershipRule(group="phy*", reach=str(uuid4()))
    (found,) = record_reach([rule], standing=(), author=Author(physics, "now"), tree=WorkingTree(tree))
    assert found.reach == physics
