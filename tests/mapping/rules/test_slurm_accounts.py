"""Entries of Slurm's accounts, on random trees: against tests/oracles/mapping.py."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apps.accounts.account_keys import AccountKey
from apps.accounts.models import Account
from apps.mapping.partition_accounts import _accounts, register_partitions
from apps.mapping.rules.resolver import Resolver
from apps.mapping.rules.rule import Rule
from apps.mapping.rules.slurm_accounts import account_of_entry, ambiguous_accounts, entry_of_account
from apps.policies.files.document import read_document
from tests.examples import examples
from tests.instants import AT
from tests.mapping.rules.test_documented_places import trees
from tests.oracles import mapping as oracle

# A group without children, which is also named like a user's association, below accounts of one name.
_GROUP_NAMED_LIKE_AN_ASSOCIATION = {
    "name": "grid",
    "uid": str(UUID(int=1)),
    "children": [
        {
            "name": "Atlas",
            "uid": str(UUID(int=2)),
            "shares": 1,
            "children": [
                {
                    "name": "Atlas",
                    "uid": str(UUID(int=3)),
                    "shares": 1,
                    "children": [{"name": "alice:gpu", "uid": str(UUID(int=4)), "kind": "group", "shares": 1}],
                }
            ],
        }
    ],
}
ACCOUNTS = ("", "atlas", "Atlas", "ATLAS", "cms", "p1", "P2", "alice", "default", "root", "Root")


@examples(500, fixed=60)
@given(trees())
def test_an_account_is_the_one_group_of_its_name_below_the_entry_of_the_rule(document: dict[str, Any]) -> None:
    tree, root = read_document({"policy": "grid", "root": document}).tree, oracle.tree_of(document)
    entries = {tree.path(at): at for at in range(len(tree))}
    for top in root.nodes():
        at = entries[top.path]
        ambiguous = ambiguous_accounts(tree, at)
        assert {name: set(map(tree.path, places)) for name, places in ambiguous.items()} == oracle.ambiguous_names(top)
        reached: dict[str, set[str]] = {}
        for account in {*ACCOUNTS, *tree.name}:
            node = oracle.slurm_account(top, account) if account else None
            entry = entry_of_account(tree, at, account)
            assert (None if entry is None else tree.path(entry)) == (None if node is None else node.path), account
            if node is not None:
                reached.setdefault(node.path, set()).add(account)
        for node in top.nodes():
            name = account_of_entry(tree, at, entries[node.path])
            assert name in reached.get(node.path, {None}), node.path


@examples(500, fixed=60)
@given(trees(), st.sampled_from(["", "atlas", "[Aa]t*"]), st.sampled_from(["", "a*", "bob"]))
@example(_GROUP_NAMED_LIKE_AN_ASSOCIATION, "", "")
def test_jobs_of_a_partition_are_of_the_accounts_that_lead_to_its_entries(
    document: dict[str, Any], group: str, user: str
) -> None:
    tree = read_document({"policy": "grid", "root": document}).tree
    rule = Rule("association", tree.uuid(0), namespace="c1", group_pattern=group, user_pattern=user)
    resolver = Resolver((rule,), tree)
    accounts = set(_accounts(tree, [Rule("default", tree.uuid(0)), rule]))
    of_partitions = {tree.path(at) for at, name in enumerate(tree.name) if ":" in name}
    assert {tree.path(resolver.resolve(account).entry) for account in accounts} <= of_partitions
    slurm_accounts = {"root", *(name for name in tree.name if ":" not in name)}
    asked = [AccountKey("c1", "alice", account, project="gpu") for account in slurm_accounts]
    paths = {tree.path(entry) for entry in resolver.resolve_many(asked).tolist() if entry >= 0}
    assert paths & of_partitions == {tree.path(resolver.resolve(account).entry) for account in accounts}


@pytest.mark.django_db
def test_accounts_of_partitions_are_registered_once_and_only_where_associations_lead_to_them() -> None:
    users = [
        {"name": name, "uid": str(UUID(int=n)), "kind": "user", "shares": 1} for n, name in ((3, "a"), (4, "a:gpu"))
    ]
    group = {"name": "hep", "uid": str(UUID(int=2)), "shares": 1, "children": users}
    tree = read_document(
        {"policy": "grid", "root": {"name": "grid", "uid": str(UUID(int=1)), "children": [group]}}
    ).tree
    rules = [Rule(kind, tree.uuid(0), namespace="c1") for kind in ("glob", "association")]
    assert register_partitions(tree, rules[:1], at=AT) == 0
    assert register_partitions(tree, rules, at=AT) == 1
    assert register_partitions(tree, rules, at=AT) == 0
    assert list(Account.objects.values_list("user_name", "group_name", "project")) == [("a", "hep", "gpu")]
