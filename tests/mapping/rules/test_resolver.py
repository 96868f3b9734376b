from __future__ import annotations

import unicodedata
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.account_index import AccountKeys
from apps.accounts.account_keys import AccountKey
from apps.mapping.rules.account_places import AccountPlaces, unpack_places
from apps.mapping.rules.entry_names import entry_name, text_of
from apps.mapping.rules.resolver import Match, Resolver
from apps.mapping.rules.rule import Rule, rule_problems
from apps.policies.files.document import read_document
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.names import clean_name
from apps.priorities.serving.lookup import NOTHING, AccountQuery, LookupIndex
from tests.call_counts import count_calls

DOCUMENT = {
    "name": "grid",
    "children": [
        {
            "name": "physics",
            "children": [
                {"name": "atlas", "children": [{"name": "alice", "kind": "user"}, {"name": "bob", "kind": "user"}]},
                {"name": "cms", "children": [{"name": "alice", "kind": "user"}]},
                {"name": "students", "children": []},
            ],
        },
        {"name": "biology", "children": [{"name": "carol", "kind": "user"}, {"name": "keep", "kind": "reserve"}]},
        {"name": "guests", "kind": "user"},
    ],
}


@pytest.fixture(scope="module")
def tree() -> TreeColumns:
    return read_document({"policy": "grid", "root": _with_uids(DOCUMENT, [0])}).tree


def _with_uids(entry: dict[str, Any], count: list[int]) -> dict[str, Any]:
    count[0] += 1
    found = {"shares": 1, **entry, "uid": f"00000000-0000-4000-8000-{count[0]:012d}"}
    if "children" in entry:
        found["children"] = [_with_uids(child, count) for child in entry["children"]]
    return found


def _rule(tree: TreeColumns, kind: str, path: str = "/", **fields: Any) -> Rule:
    at = tree.index_of_path(path)
    assert at is not None
    return Rule(kind, tree.uuid(at), **fields)


def _place(tree: TreeColumns, rules: list[Rule], *key: str) -> str | None:
    entry = Resolver(tuple(rules), tree).resolve(AccountKey("c1", *key)).entry
    return None if entry < 0 else tree.path(entry)


def test_the_first_rule_that_matches_decides(tree: TreeColumns) -> None:
    rules = [
        _rule(tree, "exact", "/guests", user_pattern="alice", group_pattern="special"),
        _rule(tree, "glob", "/physics", group_pattern="at*", suffix="/{group}/{user}"),
        _rule(tree, "group", "/biology", group_pattern="bio*", suffix="/{user}"),
        _rule(tree, "default", "/guests"),
    ]
    assert _place(tree, rules, "alice", "special") == "/guests"
    assert _place(tree, rules, "alice", "atlas") == "/physics/atlas/alice"
    assert _place(tree, rules, "carol", "biology") == "/biology/carol"
    assert _place(tree, rules, "anybody", "else") == "/guests"


def test_an_account_that_matches_no_child_stays_at_the_deepest_entry(tree: TreeColumns) -> None:
    rules = [_rule(tree, "glob", "/physics", suffix="/{group}/{user}")]
    assert _place(tree, rules, "zoe", "atlas") == "/physics/atlas"
    assert _place(tree, rules, "zoe", "nothing") == "/physics"


def test_an_account_that_stays_at_the_root_is_unmapped(tree: TreeColumns) -> None:
    assert _place(tree, [_rule(tree, "glob", suffix="/{group}/{user}")], "zoe", "nothing") is None
    assert _place(tree, [_rule(tree, "default")], "zoe", "nothing") is None


def test_a_rule_that_ends_at_the_root_passes_to_the_next_one(tree: TreeColumns) -> None:
    rules = [_rule(tree, "glob", suffix="/{group}/{user}"), _rule(tree, "default", "/guests")]
    assert _place(tree, rules, "zoe", "nothing") == "/guests"
    assert _place(tree, rules, "zoe", "biology") == "/biology"


def test_certificate_names_match_in_every_spelling(tree: TreeColumns) -> None:
    rules = [
        _rule(tree, "exact", "/biology/carol", user_pattern="CN=Carol, DC=org"),
        _rule(tree, "group", "/physics/atlas", fqan_pattern="/atlas/Role=NULL/Capability=NULL"),
        _rule(tree, "glob", "/guests", user_pattern="CN=*,O=Grid"),
    ]
    for spelled in ("CN=Carol,DC=org", "/DC=org/CN=Carol", "cn=Carol,dc=org"):
        assert _place(tree, rules, "", "", spelled) == "/biology/carol"
    assert _place(tree, rules, "", "", "/CN=X", "/atlas/Role=production/Capability=NULL") == "/physics/atlas"
    assert _place(tree, rules, "", "", "CN=X,O=Grid") == "/guests"
    index = _index(tree, rules, [AccountKey("c1", dn="/DC=org/CN=Carol")])
    for asked in ("CN=Carol,DC=org", AccountQuery(dn="cn=Carol,dc=org"), AccountQuery(user="/dc=org/cn=Carol")):
        assert _paths(index, asked) == ["/biology/carol"]


@pytest.mark.deep
def test_a_hundred_thousand_accounts_and_two_hundred_rules_are_resolved(tree: TreeColumns) -> None:
    targets = [tree.uuid(at) for at in (2, 3, 4)]
    users = [f"grp{n}-*" for n in range(90)] + [f"*-adm{n}" for n in range(60)]
    rules = (
        *(Rule("glob", targets[n % 3], user_pattern=text) for n, text in enumerate(users)),
        *(Rule("glob", targets[n % 3], group_pattern=f"lab{n}*") for n in range(50)),
    )
    keys = [AccountKey("c1", f"grp{n % 200}-u{n}", f"lab{n % 70}x") for n in range(100_000)]
    resolver = Resolver(rules, tree)
    entries, calls = count_calls(lambda: resolver.resolve_many(keys))
    assert (entries >= 0).sum() > 50_000
    assert calls < 100 * len(keys), "asked one by one it would be 200 for each"


def test_a_reserve_has_no_accounts(tree: TreeColumns) -> None:
    assert _place(tree, [_rule(tree, "glob", "/biology", suffix="/{user}")], "keep", "x") == "/biology"
    assert _place(tree, [_rule(tree, "default", "/biology/keep")], "keep", "x") is None


@pytest.mark.paper("4.27")
def test_namespaces_dns_and_fqans_are_distinguished(tree: TreeColumns) -> None:
    rules = [
        _rule(tree, "glob", "/guests", namespace="c2"),
        _rule(tree, "group", "/physics/atlas", fqan_pattern="/atlas"),
        _rule(tree, "exact", "/biology/carol", user_pattern="/DC=org/CN=Carol"),
    ]
    assert _place(tree, rules, "x", "y") is None
    assert _place(tree, rules, "", "", "/DC=org/CN=X", "/atlas/Role=production") == "/physics/atlas"
    assert _place(tree, rules, "", "", "/DC=org/CN=X", "/atlassian") is None
    assert _place(tree, rules, "", "", "/DC=org/CN=Carol") == "/biology/carol"
    assert Resolver(tuple(rules), tree).resolve(AccountKey("c2", "x")).entry == tree.index_of_path("/guests")


def test_a_rule_of_a_removed_entry_is_skipped(tree: TreeColumns) -> None:
    from uuid import uuid4

    rules = [Rule("default", uuid4()), _rule(tree, "default", "/guests")]
    assert _place(tree, rules, "x", "y") == "/guests"


def test_an_each_rule_maps_to_the_member_or_reports_who_would_join(tree: TreeColumns) -> None:
    resolver = Resolver((_rule(tree, "each", "/physics/atlas", group_pattern="atlas"),), tree)
    atlas, alice = (tree.index_of_path(path) for path in ("/physics/atlas", "/physics/atlas/alice"))
    assert resolver.resolve(AccountKey("c1", "alice", "atlas")) == Match(alice or 0, member=0)
    assert resolver.resolve(AccountKey("c1", "zoe", "atlas")) == Match(atlas or 0, 0)
    assert resolver.resolve(AccountKey("c1", "zoe", "cms")).entry == -1


def test_an_each_rule_at_the_root_accepts_new_users_but_not_their_usage(tree: TreeColumns) -> None:
    resolver = Resolver((_rule(tree, "each"),), tree)
    assert resolver.resolve(AccountKey("c1", "zoe")) == Match(0, 0)
    assert resolver.resolve_many([AccountKey("c1", "zoe"), AccountKey("c1", "guests")]).tolist() == [
        -1,
        tree.index_of_path("/guests"),
    ]


def _index(tree: TreeColumns, rules: list[Rule], known: list[AccountKey]) -> LookupIndex:
    entry = Resolver(tuple(rules), tree).resolve_many(known)
    placed = [(key, at) for key, at in zip(known, entry.tolist(), strict=True) if at >= 0]
    places = AccountPlaces(
        AccountKeys.of(key for key, _ in placed), np.array([at for _, at in placed], np.int32), tuple(rules)
    )
    return LookupIndex(tree, unpack_places(*places.packed), "digest")


def _paths(index: LookupIndex, query: str | AccountQuery) -> list[str]:
    return sorted(index.path(entry) for entry in index.find(query).entries)


def test_a_bare_name_finds_all_its_accounts_and_its_entries_without_accounts(tree: TreeColumns) -> None:
    rules = [_rule(tree, "glob", "/physics", suffix="/{group}/{user}")]
    index = _index(tree, rules, [AccountKey("c1", "alice", "atlas"), AccountKey("c1", "zoe", "atlas")])
    assert _paths(index, "alice") == ["/physics/atlas/alice", "/physics/cms/alice"]
    assert _paths(index, "bob") == ["/physics/atlas/bob"], "never ran anything, but has an entry"
    assert _paths(index, "zoe") == ["/physics/atlas"]
    assert _paths(index, AccountQuery("alice", "cms")) == ["/physics/cms/alice"]
    assert _paths(index, AccountQuery("zoe", "cms")) == ["/physics/cms"], "never seen there: the rules apply"


def test_names_are_found_only_where_rules_map_them(tree: TreeColumns) -> None:
    index = _index(tree, [_rule(tree, "glob", "/physics", group_pattern="cms", suffix="/{group}/{user}")], [])
    assert _paths(index, "alice") == ["/physics/cms/alice"]
    assert _paths(index, "carol") == []
    assert index.find("atlas") == NOTHING


def test_a_namespace_narrows_the_known_accounts(tree: TreeColumns) -> None:
    rules = [_rule(tree, "default", "/guests", namespace="c2"), _rule(tree, "glob", "/biology", suffix="/{user}")]
    index = _index(tree, rules, [AccountKey("c1", "carol", "x"), AccountKey("c2", "carol", "x")])
    assert _paths(index, "carol") == ["/biology/carol", "/guests"]
    assert _paths(index, AccountQuery("carol", namespace="c2")) == ["/guests"]
    assert _paths(index, AccountQuery("carol", namespace="c1")) == ["/biology/carol"]


def test_a_known_account_that_would_join_is_a_new_user(tree: TreeColumns) -> None:
    index = _index(tree, [_rule(tree, "each", "/physics/atlas")], [AccountKey("c1", "zoe", "atlas")])
    found = index.find("zoe")
    assert (found.joins, [index.path(at) for at in found.entries]) == (0, ["/physics/atlas"])


def test_accounts_with_escaped_names_find_their_entries() -> None:
    root = _with_uids(
        {"name": "p", "children": [{"name": "a%2Fb", "children": [{"name": "x%25", "kind": "user"}]}]}, [0]
    )
    tree = read_document({"policy": "p", "root": root}).tree
    rules = [_rule(tree, "glob", suffix="/{group}/{user}")]
    assert _place(tree, rules, "x%", "a/b") == "/a%2Fb/x%25"
    assert _paths(_index(tree, rules, []), "x%") == ["/a%2Fb/x%25"]


@given(st.text(max_size=60))
def test_every_account_name_becomes_a_valid_entry_name(text: str) -> None:
    name = entry_name(text)
    assert clean_name(name) == name
    assert entry_name(text) == name
    if len(name) < 128 and "\ufffd" not in name and not any("\ud800" <= one <= "\udfff" for one in text):
        assert text_of(name) == unicodedata.normalize("NFC", text)


def test_very_long_names_stay_distinct() -> None:
    names = {entry_name("x" * 200), entry_name("x" * 201)}
    assert len(names) == 2
    assert all(len(clean_name(name)) <= 128 for name in names)


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"kind": "regex"}, "r.kind"),
        ({"kind": "exact"}, "r"),
        ({"kind": "group"}, "r"),
        ({"kind": "glob", "suffix": "/{other}"}, "r.suffix"),
        ({"kind": "glob", "suffix": "/a" * 9}, "r.suffix"),
        ({"kind": "each", "member_shares": -1}, "r.member_shares"),
        ({"kind": "each", "member_shares": float("nan")}, "r.member_shares"),
        ({"kind": "glob", "user_pattern": "x" * 257}, "r.user_pattern"),
    ],
)
def test_an_invalid_rule_is_refused_with_its_location(tree: TreeColumns, fields: dict[str, Any], where: str) -> None:
    rule = Rule(**{"target_uid": tree.uuid(0), **fields})
    assert [problem.where for problem in rule_problems(rule, "r")] == [where]


def test_adversarial_patterns_match_quickly(tree: TreeColumns) -> None:
    rules = [_rule(tree, "glob", "/guests", user_pattern="*a" * 60 + "b")]
    assert _place(tree, rules, "a" * 256, "x") is None
