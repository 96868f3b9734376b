"""Accounts count where docs/accounts.md says, on random trees with random rules: against tests/oracles/mapping.py."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.account_index import AccountKeys
from apps.accounts.account_keys import AccountKey, canonical
from apps.mapping.rules import placement
from apps.mapping.rules.placement import place_columns
from apps.mapping.rules.resolver import UNMAPPED, Decided, KnownAccounts, Resolver
from apps.mapping.rules.rule import KINDS, Person, Rule
from apps.mapping.rules.rule_set import in_order
from apps.policies.files.document import read_document
from apps.policies.tree.columns import TreeColumns
from tests.examples import examples
from tests.oracles import mapping as oracle

_USERS = ("alice", "bob", "Carol", "carol")
_GROUPS = ("", "atlas", "Atlas", "cms", "root")
_LEAVES = ("alice", "bob", "carol", "carol", "Carol", "alice:gpu", "default", "keep")
_INNER = ("atlas", "Atlas", "cms", "p1", "p2", "alice", "default")
_DNS = ("", "", "/DC=org/CN=alice", "CN=alice,DC=org", "/DC=org/CN=bob")
_FQANS = ("", "/atlas", "/atlas/Role=NULL", "/atlas/Role=production", "/cms/Role=NULL/Capability=NULL")
_UIDS = [UUID(int=number) for number in range(1, 13)]
_ACCOUNTS = st.builds(
    AccountKey,
    st.sampled_from(["c1", "c2"]),
    st.sampled_from(_USERS),
    st.sampled_from(_GROUPS),
    st.sampled_from(_DNS),
    st.sampled_from(_FQANS),
    st.sampled_from(["", "", "p1", "GPU", "atlas"]),
)
_STORED = _ACCOUNTS.map(canonical)


@st.composite
def trees(draw: st.DrawFn) -> dict[str, Any]:
    """At most twelve entries on four levels, as in a policy file."""
    uids = iter(_UIDS)
    root: dict[str, Any] = {"name": "grid", "uid": str(next(uids)), "children": []}
    inner = [(root, 0)]
    for uid in uids:
        above, depth = draw(st.sampled_from(inner))
        kind = draw(st.sampled_from(["group", "group", "project", "user", "user", "user", "reserve"]))
        has_children = kind in ("group", "project") and depth < 3
        free = sorted(set(_INNER if has_children else _LEAVES) - {child["name"] for child in above["children"]})
        if not free:
            continue
        entry = {"name": draw(st.sampled_from(free)), "uid": str(uid), "kind": kind, "shares": 1}
        above["children"].append(entry)
        if has_children:
            entry["children"] = []
            inner.append((entry, depth + 1))
    return root


def rules(kinds: tuple[str, ...]) -> st.SearchStrategy[Rule]:
    return st.builds(
        Rule,
        st.sampled_from(kinds),
        st.sampled_from(_UIDS),
        namespace=st.sampled_from(["", "", "c1"]),
        user_pattern=st.sampled_from(["", "", "alice", "a*", "?ob", "CN=alice,DC=org"]),
        group_pattern=st.sampled_from(["", "", "atlas", "[Aa]tlas", "c*"]),
        fqan_pattern=st.sampled_from(["", "", "/atlas", "/atlas/Role=NULL"]),
        suffix=st.sampled_from(["", "", "/{user}", "/{group}/{user}", "/atlas/{user}", "/{project}", "/{group}/x"]),
        people=st.sampled_from(["", "", "staff", "st*"]),
        reach_uid=st.sampled_from([None, None, *_UIDS]),
        written_at=st.sampled_from(["", "2026-01-01", "2026-02-01"]),
    )


def placed(resolver: Resolver, tree: TreeColumns, decided: Decided) -> oracle.Place:
    match, number = decided
    if match.entry == UNMAPPED:
        return oracle.NOWHERE
    rule = None if number is None else resolver.rules[number]
    return oracle.Place(tree.path(match.entry), rule, match.joins is not None, match.member is not None)


@pytest.mark.deep
@examples(3_000, fixed=400)  # rules meet in many ways
@given(
    trees(),
    st.lists(rules(tuple(kind for kind in KINDS if kind != "each")), max_size=5),
    st.lists(rules(("each",)), max_size=3),
    st.dictionaries(_STORED, st.sampled_from(_UIDS), max_size=2),
    st.dictionaries(_STORED, st.just(Person("bob", frozenset({"staff"}))), max_size=3),
    st.lists(_ACCOUNTS, min_size=5, max_size=20),
)
def test_accounts_count_where_the_documentation_says(
    document: dict[str, Any],
    stored: list[Rule],
    of_entries: list[Rule],
    attached: dict[AccountKey, UUID],
    people: dict[AccountKey, Person],
    accounts: list[AccountKey],
) -> None:
    tree = read_document({"policy": "grid", "root": document}).tree
    root = oracle.tree_of(document)
    present = {node.uid for node in root.nodes()}
    of_entries = [rule for rule in of_entries if rule.target_uid in present]
    entries = {tree.uuid(at): at for at in range(len(tree))}
    level = {uid: int(tree.level[at]) for uid, at in entries.items()}
    of_entries.sort(key=lambda rule: (-level[rule.target_uid], entries[rule.target_uid]))  # as rules_of_tree does
    resolver = Resolver(in_order(stored, of_entries), tree, KnownAccounts(attached, people))
    tried = oracle.in_documented_order(stored, of_entries, root)
    right = [oracle.place(account, tried, root, attached, people) for account in accounts]
    assert [placed(resolver, tree, resolver.decide(account)) for account in accounts] == right
    for most in (placement._MOST_OF_PARTS, 0):  # rules of parts for all users of a group at once, and for each
        with patch.object(placement, "_MOST_OF_PARTS", most):
            together = place_columns(Resolver(resolver.rules, tree, resolver.known), AccountKeys.of(accounts))
        assert [placed(resolver, tree, decided) for decided in together] == right


@st.composite
def sites(draw: st.DrawFn) -> tuple[dict[str, Any], list[Rule], dict[AccountKey, UUID], dict[AccountKey, Person]]:
    """A tree, stored rules in their order, attached accounts and owners."""
    stored = draw(st.lists(rules(tuple(kind for kind in KINDS if kind != "each")), min_size=1, max_size=4))
    attached = draw(st.dictionaries(_STORED, st.sampled_from(_UIDS), max_size=1))
    people = draw(st.dictionaries(_STORED, st.just(Person("bob", frozenset({"staff"}))), max_size=2))
    return draw(trees()), list(in_order(stored, [])), attached, people


@examples(1_000, fixed=80)
@given(sites(), st.lists(_ACCOUNTS, min_size=5, max_size=15))
def test_the_likely_entry_differs_by_letter_case_alone_and_rules_leave_accounts_outside_of_their_part(
    site: tuple[dict[str, Any], list[Rule], dict[AccountKey, UUID], dict[AccountKey, Person]],
    accounts: list[AccountKey],
) -> None:
    document, stored, attached, people = site
    tree, root = read_document({"policy": "grid", "root": document}).tree, oracle.tree_of(document)
    resolver = Resolver(tuple(stored), tree, KnownAccounts(attached, people))
    for account in accounts:
        at = resolver.likely_entry(account)
        likely = oracle.likely_path(account, stored, root, attached, people)
        assert (None if at is None else tree.path(at)) == likely, account
        for number, rule in enumerate(stored):
            stays = resolver.targets[number] is not None and oracle.stays_outside(
                account, rule, stored, root, attached, people
            )
            assert resolver.leaves(account, [number]) is stays, (account, rule)


def test_of_two_rules_of_different_parts_the_older_one_decides_wherever_they_are() -> None:
    uids = [UUID(int=number) for number in range(1, 4)]
    children = [
        {"name": name, "uid": str(uid), "kind": "group", "shares": 1} for name, uid in zip("ab", uids[1:], strict=True)
    ]
    tree = read_document({"policy": "grid", "root": {"name": "grid", "uid": str(uids[0]), "children": children}}).tree
    account = AccountKey("c1", "alice", "atlas")
    for older, path in ((1, "/a"), (2, "/b")):
        rules = [
            Rule(
                "glob",
                uid,
                group_pattern="atlas",
                reach_uid=uid,
                written_at="2026-01-01" if at == older else "2026-02-01",
            )
            for at, uid in enumerate(uids)
            if at
        ]
        for order in (rules, rules[::-1]):
            resolver = Resolver(tuple(order), tree, KnownAccounts({}, {}))
            assert tree.path(resolver.decide(account)[0].entry) == path
            (together,) = place_columns(resolver, AccountKeys.of([account]))
            assert tree.path(together[0].entry) == path
