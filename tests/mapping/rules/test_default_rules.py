"""Rules from the names of a tree: which accounts find their entries by them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given

from apps.accounts.account_keys import AccountKey
from apps.mapping.name_rules import default_rules
from apps.mapping.rules.resolver import Resolver
from apps.policies.files.document import read_document
from tests.examples import examples
from tests.mapping.rules.test_documented_places import trees
from tests.oracles import mapping as oracle


@examples(500, fixed=60)
@given(trees())
def test_a_user_of_a_group_whose_name_is_unique_counts_at_their_entry_in_it(document: dict[str, Any]) -> None:
    tree, root = read_document({"policy": "grid", "root": document}).tree, oracle.tree_of(document)
    groups = [node for node in root.nodes() if node is not root and node.may_have_children]
    counts = Counter(group.name for group in groups)
    resolver = Resolver(default_rules(tree, "c1"), tree)

    def counts_at(user: str, group: str, namespace: str = "c1") -> str:
        entry = resolver.resolve(AccountKey(namespace, user, group)).entry
        return tree.path(entry) if entry >= 0 else ""

    for group in groups:
        is_found = len(group.names) == 1 or (counts[group.name] == 1 and root.child(group.name) is None)
        for user in group.below:
            if is_found and user.kind != "reserve":
                assert counts_at(user.name, group.name) == user.path
                assert counts_at(user.name, group.name, "elsewhere") == ""
        if len(group.names) > 1 and counts[group.name] > 1 and not root.child(group.name):
            assert counts_at("nobody", group.name) == "", "which of them is meant is not guessed"
    for user in root.below:
        if not user.may_have_children and user.kind != "reserve":
            assert counts_at(user.name, "") == user.path
    kinds = [rule.kind for rule in resolver.rules]
    n_nested = sum(len(group.names) > 1 and counts[group.name] == 1 for group in groups)
    assert kinds.count("group") == n_nested
    decided = default_rules(tree, "c1", [{"entry": str(root.uid), "user_pattern": "u", "group_pattern": "g"}])
    assert [(rule.kind, rule.user_pattern, rule.group_pattern) for rule in decided[:1]] == [("exact", "u", "g")]
    assert decided[1:] == resolver.rules


@examples(200, fixed=20)
@given(trees())
def test_by_dotted_paths_each_group_gets_a_rule_that_adds_its_users(document: dict[str, Any]) -> None:
    tree, root = read_document({"policy": "grid", "root": document}).tree, oracle.tree_of(document)
    groups = [node for node in root.nodes() if node is not root and node.may_have_children]
    resolver = Resolver(default_rules(tree, "c1", maps_by="each"), tree)
    assert len(resolver.rules) == len(groups)
    for group in groups:
        match = resolver.resolve(AccountKey("c1", "nobody", ".".join(group.names)))
        assert (tree.path(match.entry), match.joins is not None) == (group.path, True)
    assert resolver.resolve(AccountKey("c1", "nobody", "no.such")).entry < 0
