"""Look-ups find who is in the tree, whether they ran or not, and whichever fields are sent."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pytest

from apps.accounts.account_index import AccountKeys
from apps.accounts.account_keys import AccountKey
from apps.mapping.rules.account_places import AccountPlaces, unpack_places
from apps.mapping.rules.resolver import Resolver
from apps.mapping.rules.rule import Rule
from apps.policies.files.document import read_document
from apps.policies.tree.columns import TreeColumns
from apps.priorities.serving.hints import Hints
from apps.priorities.serving.lookup import AccountQuery, LookupIndex, Query
from tests.call_counts import count_calls


def _user(name: str) -> dict[str, Any]:
    return {"name": name, "kind": "user", "shares": 1}


def _group(name: str, *children: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "kind": "group", "shares": 1, "children": list(children)}


def _tree(*children: dict[str, Any]) -> TreeColumns:
    root = _group("grid", *children)
    waiting = [root]
    for number, entry in enumerate(waiting):
        entry["uid"] = f"00000000-0000-4000-8000-{number:012d}"
        waiting += entry.get("children", [])
    return read_document({"policy": "grid", "root": root}).tree


@pytest.fixture(scope="module")
def tree() -> TreeColumns:
    return _tree(
        _group("physics", _user("alice"), _user("bob"), _group("imaging", _user("eli"))),
        _group("biology", _user("carol"), _user("dn%2Fx")),
        _group("linux-users", _user("zoe")),
        _group("grid-users", _user("zoe")),
        _group("cloud-users", _user("zoe")),
        {"name": "P-A2", "kind": "project", "shares": 1},
    )


def _rule(tree: TreeColumns, kind: str = "glob", path: str = "/", **fields: Any) -> Rule:
    at = tree.index_of_path(path)
    assert at is not None
    return Rule(kind, tree.uuid(at), **fields)


def _index(tree: TreeColumns, *rules: Rule, known: list[AccountKey] | None = None) -> LookupIndex:
    matches = [(key, Resolver(rules, tree).resolve(key)) for key in known or []]
    placed = [(key, match) for key, match in matches if match.entry > 0]
    entries = np.array([match.entry for _, match in placed], np.int32)
    joins = np.array([-1 if match.joins is None else match.joins for _, match in placed], np.int32)
    places = AccountPlaces(AccountKeys.of(key for key, _ in placed), entries, rules, joins)
    return LookupIndex(tree, unpack_places(*places.packed), "digest")


def _paths(index: LookupIndex, query: Query) -> list[str]:
    return sorted(index.path(entry) for entry in index.find(query).entries)


LINUX = {"namespace": "linux", "suffix": "/{group}/{user}"}


@pytest.mark.parametrize(
    "query",
    [
        "bob",
        AccountQuery("bob", "physics"),
        AccountQuery("bob", namespace="linux"),
        AccountQuery("bob", "physics", "linux"),
    ],
)
def test_a_user_without_jobs_is_found_without_a_namespace(tree: TreeColumns, query: Query) -> None:
    index = _index(tree, _rule(tree, **LINUX), known=[AccountKey("linux", "alice", "physics")])
    assert _paths(index, query) == ["/physics/bob"]
    assert index.choices(query) == ()
    assert _paths(index, AccountQuery("bob", namespace="other")) == []


@pytest.mark.parametrize(
    ("kind", "path", "fields"),
    [
        ("exact", "/physics/bob", {"namespace": "linux", "user_pattern": "bob"}),
        ("exact", "/physics/bob", {"user_pattern": "bob", "group_pattern": "phys"}),
        ("exact", "/physics/bob", {"user_pattern": "bob", "fqan_pattern": "/atlas/Role=NULL/Capability=NULL"}),
        ("group", "/physics", {"namespace": "linux", "group_pattern": "phys", "suffix": "/{user}"}),
        ("group", "/physics", {"group_pattern": "ph[xy]*", "suffix": "/{user}"}),
        ("glob", "/physics", {"user_pattern": "b*", "suffix": "/{user}"}),
        ("glob", "/physics", {"fqan_pattern": "/atlas/*", "suffix": "/{user}"}),
        ("each", "/physics", {"namespace": "linux", "group_pattern": "phys"}),
    ],
)
def test_every_kind_of_rule_can_be_inverted(tree: TreeColumns, kind: str, path: str, fields: dict[str, Any]) -> None:
    index = _index(tree, _rule(tree, kind, path, **fields))
    assert _paths(index, "bob") == ["/physics/bob"]
    bob = tree.index_of_path("/physics/bob")
    assert bob is not None
    (identity,) = index.identities(bob)
    assert identity.user_name == "bob"
    assert identity.namespace == fields.get("namespace", "")


@pytest.mark.deep
def test_two_thousand_group_rules_do_not_slow_a_look_up() -> None:
    """Asked rule by rule, these names and identities would be eight million questions."""
    large = _tree(*(_group(f"g{n}", _user(f"u{n}")) for n in range(2_000)))
    rules = [
        _rule(large, "group", f"/g{n}", group_pattern=f"g{n}", namespace="linux", suffix="/{user}")
        for n in range(2_000)
    ]
    index = _index(large, *rules)
    index.prepare()
    paths, calls = count_calls(lambda: [_paths(index, f"u{n}") for n in range(2_000)])
    assert paths == [[f"/g{n}/u{n}"] for n in range(2_000)]
    assert calls < 500 * 2_000
    identities, calls = count_calls(lambda: [index.identities(i) for i in range(2_001, len(large))])
    assert {len(each) for each in identities} == {1}
    assert calls < 500 * 2_000


def test_group_and_user_find_an_entry_that_also_needs_a_project(tree: TreeColumns) -> None:
    index = _index(tree, _rule(tree, namespace="linux", suffix="/{group}/{project}/{user}"))
    assert _paths(index, AccountQuery("eli", "physics")) == ["/physics/imaging/eli"]
    assert _paths(index, AccountQuery("eli", "biology")) == ["/biology"], "as far as such entries exist"


def test_a_name_in_three_namespaces_is_ambiguous_with_its_choices(tree: TreeColumns) -> None:
    rules = [
        _rule(tree, path=f"/{name}-users", namespace=name, suffix="/{user}") for name in ("linux", "grid", "cloud")
    ]
    index = _index(tree, *rules)
    choices = {name: [index.path(entry) for entry in one.entries] for name, one in index.choices("zoe")}
    assert choices == {name: [f"/{name}-users/zoe"] for name in ("linux", "grid", "cloud")}
    assert index.find_certain("zoe") == ()
    assert _paths(index, AccountQuery("zoe", namespace="grid")) == ["/grid-users/zoe"]
    unseen = {name: [index.path(entry) for entry in one.entries] for name, one in index.choices("nobody")}
    assert unseen == {name: [f"/{name}-users"] for name in ("linux", "grid", "cloud")}


def test_namespaces_that_agree_are_not_ambiguous(tree: TreeColumns) -> None:
    rules = [_rule(tree, namespace=name, suffix="/{group}/{user}") for name in ("linux", "grid")]
    index = _index(tree, *rules, known=[AccountKey("linux", "bob", "physics")])
    assert (_paths(index, "bob"), index.choices("bob")) == (["/physics/bob"], ())


def test_an_entry_of_the_same_name_precedes_other_rules(tree: TreeColumns) -> None:
    rules = [_rule(tree, **LINUX), _rule(tree, "default", "/biology", namespace="grid")]
    index = _index(tree, *rules)
    assert (_paths(index, "bob"), index.choices("bob")) == (["/physics/bob"], ())
    assert _paths(index, "somebody") == ["/biology"]


def test_a_future_member_is_found_without_the_namespace(tree: TreeColumns) -> None:
    index = _index(tree, _rule(tree, "each", "/physics", namespace="linux"))
    found = index.find("newcomer")
    assert ([index.path(entry) for entry in found.entries], found.joins) == (["/physics"], 0)


def test_each_identity_maps_to_its_entry_with_or_without_usage(tree: TreeColumns) -> None:
    rules = [
        _rule(tree, "exact", "/biology", namespace="linux", user_pattern="bob", group_pattern="physics"),
        _rule(tree, **LINUX),
        _rule(tree, "group", "/P-A2", namespace="linux", group_pattern="a2"),
    ]
    known = [AccountKey("linux", "alice", "physics"), AccountKey("linux", "eve", "a2")]
    index = _index(tree, *rules, known=known)
    names = {tree.path(i): index.identities(i) for i in range(1, len(tree))}
    assert names["/physics/alice"] == (AccountKey("linux", "alice", "physics"),)
    assert names["/biology/carol"] == (AccountKey("linux", "carol", "biology"),), "never ran"
    assert names["/physics/bob"] == (), "an earlier rule leads him elsewhere"
    assert names["/biology/dn%2Fx"] == (AccountKey("linux", "dn/x", "biology"),), "as the source writes it"
    any_of = {AccountKey("linux", "", "a2"), AccountKey("linux", "", "P-A2")}
    assert set(names["/P-A2"]) == {AccountKey("linux", "eve", "a2"), *any_of}
    for path, keys in names.items():
        for key in keys:
            query = AccountQuery(key.user_name, key.group_name, key.namespace, key.dn, key.fqan, key.project)
            assert _paths(index, query) == [path]


def test_a_rule_finds_only_entries_below_its_target(tree: TreeColumns) -> None:
    index = _index(tree, _rule(tree, path="/grid-users", suffix="/{user}"))
    assert _paths(index, "zoe") == ["/grid-users/zoe"]


def test_a_literal_level_of_a_suffix_is_the_only_one_it_finds_below(tree: TreeColumns) -> None:
    index = _index(tree, _rule(tree, suffix="/cloud-users/{user}"))
    assert _paths(index, "zoe") == ["/cloud-users/zoe"]
    assert _named(index, "/grid-users/zoe") == []


def _named(index: LookupIndex, path: str) -> list[tuple[str, str]]:
    entry = index.tree.index_of_path(path)
    assert entry is not None
    return [(key.user_name, key.group_name) for key in index.identities(entry)]


def test_a_name_around_the_user_is_taken_off_again() -> None:
    tree = _tree(_group("physics", _user("u-ann.x"), _user("ann"), _user("u.x"), _user("u-.x")))
    rules = [_rule(tree, suffix="/{group}/u-{user}.x"), _rule(tree, suffix="/{group}/{user}", namespace="b")]
    index = _index(tree, rules[0])
    assert _named(index, "/physics/u-ann.x") == [("ann", "physics")]
    assert [_named(index, f"/physics/{name}") for name in ("u.x", "u-.x", "ann")] == [[]] * 3
    assert _paths(index, "ann") == ["/physics/u-ann.x"]
    both = _index(tree, *rules)
    assert _paths(both, AccountQuery("ann", namespace="b")) == ["/physics/u-ann.x"], "the first rule, in any namespace"
    other = _index(tree, rules[1])
    assert _paths(other, AccountQuery("ann", namespace="b")) == ["/physics/ann"]


def test_a_name_of_two_unknown_parts_is_not_taken_apart() -> None:
    """`a-b-c` is of group a or a-b; with the group known from the rule it is one account."""
    tree = _tree(_group("all", _user("a-b-c")))
    assert _named(_index(tree, _rule(tree, path="/all", suffix="/{group}-{user}")), "/all/a-b-c") == []
    known = _rule(tree, "group", "/all", group_pattern="a-b", suffix="/{group}-{user}")
    assert _named(_index(tree, known), "/all/a-b-c") == [("c", "a-b")]


def test_a_rule_for_one_account_of_a_user_finds_no_other_account_of_that_user(tree: TreeColumns) -> None:
    index = _index(tree, _rule(tree, "exact", "/P-A2", user_pattern="bob", group_pattern="phys"))
    assert _paths(index, AccountQuery("bob", "phys")) == _paths(index, "bob") == ["/P-A2"]
    assert _paths(index, AccountQuery("bob", "other")) == []


def test_an_entry_named_after_a_certificate_has_its_dn_as_identity() -> None:
    tree = _tree(_group("physics", _user("%2FDC=org%2FCN=Ann")))
    index = _index(tree, _rule(tree, path="/physics", suffix="/{user}"))
    assert index.identities(2) == (AccountKey("", "", dn="/DC=org/CN=Ann"),)
    assert _paths(index, AccountQuery("", dn="/DC=org/CN=Ann")) == ["/physics/%2FDC=org%2FCN=Ann"]


def test_an_entry_that_anybody_falls_back_to_has_no_names(tree: TreeColumns) -> None:
    index = _index(tree, _rule(tree, "default", "/P-A2", namespace="linux"))
    assert _named(index, "/P-A2") == []
    assert _paths(index, AccountQuery("anybody", namespace="linux")) == ["/P-A2"]


def test_a_hint_names_what_is_missing_and_is_the_same_for_hidden_entries(tree: TreeColumns) -> None:
    hints = Hints(_index(tree, _rule(tree, **LINUX)), "grid")
    found = hints.unmapped("nobody", is_restricted=False)
    assert found["tried"] == [{"user": "nobody", "namespace": "linux"}]
    assert "Send group too" in found["hint"]
    wrong = hints.unmapped(AccountQuery("nobody", namespace="typo"), is_restricted=False)
    assert "send namespace linux, or none" in wrong["hint"]
    of_vo = Hints(_index(tree, _rule(tree, fqan_pattern="/vo", suffix="/{project}")), "grid")
    assert "Send project and fqan too" in of_vo.unmapped("nobody", is_restricted=False)["hint"]
    whole = hints.unmapped(AccountQuery("nobody", "physics", "linux"), is_restricted=False)
    assert "No mapping rule leads this account" in whole["hint"]
    assert "import_policy --map" in Hints(_index(tree), "grid").unmapped("bob", is_restricted=False)["hint"]
    hidden, missing = (hints.unmapped(name, is_restricted=True) for name in ("bob", "nobody"))
    assert hidden["hint"] == missing["hint"]
    assert "linux" not in orjson.dumps(hidden).decode()
