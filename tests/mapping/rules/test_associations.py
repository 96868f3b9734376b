"""Slurm's associations: a user in an account, whose entry is found by the account's name at any level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import pytest

from apps.accounts.account_index import AccountKeys
from apps.accounts.account_keys import AccountKey
from apps.accounts.actor import COMMAND
from apps.mapping.name_rules import count_mapped, default_rules
from apps.mapping.rules.account_places import AccountPlaces
from apps.mapping.rules.problems import problem_text, problems_of
from apps.mapping.rules.resolver import Resolver
from apps.mapping.rules.rule import Rule
from apps.mapping.selectors import get_mapping_page
from apps.pages.mapping.api.serializers import other_case_json, rule_json
from apps.pages.mapping.presenters import other_case_line, rule_line
from apps.policies.formats.registry import get_format, read_file
from apps.policies.models import Policy
from apps.policies.publishing.direct import tree_of_document
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.working_tree import columns_of
from apps.priorities.serving.hints import Hints
from apps.priorities.serving.lookup import AccountQuery, LookupIndex
from tests.priority_site import AS_OF, Site, finished

DUMP = b"""\
Cluster - 'c':Fairshare=1
Parent - 'root'
User - 'root':Fairshare=1
Account - 'physics':Fairshare=60
Account - 'biology':Fairshare=39
Parent - 'physics'
Account - 'hep':Fairshare=3
User - 'ada':Fairshare=1
Parent - 'hep'
Account - 'atlas2':Fairshare=1
Account - 'through':Fairshare=parent
User - 'ada':Fairshare=1
User - 'bob':Fairshare=1
Parent - 'atlas2'
User - 'ada':Fairshare=5
Parent - 'through'
Account - 'deep':Fairshare=1
Parent - 'deep'
User - 'eve':Fairshare=1
"""
EVERY = {
    ("root", "root"): "/root",
    ("ada", "physics"): "/physics/ada",
    ("ada", "hep"): "/physics/hep/ada",
    ("ada", "atlas2"): "/physics/hep/atlas2/ada",
    ("bob", "hep"): "/physics/hep/bob",
    ("eve", "deep"): "/physics/hep/through/deep/eve",
}


@pytest.fixture(scope="module")
def tree() -> TreeColumns:
    found = get_format("sacctmgr")
    return tree_of_document(read_file(found, DUMP), found)


@pytest.fixture(params=["", "c"], ids=["any namespace", "namespace c"])
def rules(tree: TreeColumns, request: pytest.FixtureRequest) -> tuple[Rule, ...]:
    return default_rules(tree, request.param, maps_by="association")


def test_one_rule_maps_every_association_at_any_depth(tree: TreeColumns, rules: tuple[Rule, ...]) -> None:
    assert [rule.kind for rule in rules] == ["association"]
    resolver = Resolver(rules, tree)
    found = {names: tree.path(resolver.resolve(AccountKey("c", *names)).entry) for names in EVERY}
    assert found == EVERY


@pytest.mark.parametrize(
    ("user", "account", "path"),
    [
        ("new", "atlas2", "/physics/hep/atlas2"),  # Slurm charges the account before the tree knows the user
        ("ada", "biology", "/biology"),
        ("ada", "nowhere", None),
        ("ada", "", None),
        ("ada", "ada", None),  # a user is no account
        ("new", "root", None),
    ],
)
def test_other_names_map_to_the_account_or_nowhere(
    tree: TreeColumns, rules: tuple[Rule, ...], user: str, account: str, path: str | None
) -> None:
    entry = Resolver(rules, tree).resolve(AccountKey("c", user, account)).entry
    assert (tree.path(entry) if entry > 0 else None) == path


def _index(tree: TreeColumns, rules: Sequence[Rule], keys: Sequence[AccountKey] = ()) -> LookupIndex:
    places = AccountPlaces(AccountKeys.of(keys), Resolver(tuple(rules), tree).resolve_many(keys), tuple(rules))
    return LookupIndex(tree, places, "d")


@pytest.mark.parametrize("namespace", ["", "c"])
def test_lookups_find_names_never_seen_before(tree: TreeColumns, rules: tuple[Rule, ...], namespace: str) -> None:
    index = _index(tree, rules)

    def found(**asked: str) -> set[str]:
        return {tree.path(entry) for entry in index.find(AccountQuery(namespace=namespace, **asked)).entries}

    assert {names: found(user=names[0], group=names[1]) for names in EVERY} == {n: {path} for n, path in EVERY.items()}
    assert found(user="ada") == {path for (user, _account), path in EVERY.items() if user == "ada"}
    assert found(user="bob") == {"/physics/hep/bob"}
    assert found(user="new", group="deep") == {"/physics/hep/through/deep"}
    assert found(user="new") == set()


def test_a_known_user_keeps_the_entries_of_other_accounts(tree: TreeColumns, rules: tuple[Rule, ...]) -> None:
    index = _index(tree, rules, [AccountKey("c", "ada", "hep")])
    found = {tree.path(entry) for entry in index.find(AccountQuery("ada")).entries}
    assert found == {"/physics/ada", "/physics/hep/ada", "/physics/hep/atlas2/ada"}


def test_entries_have_the_names_of_their_associations(tree: TreeColumns, rules: tuple[Rule, ...]) -> None:
    index = _index(tree, rules)
    for (user, account), path in EVERY.items():
        entry = tree.index_of_path(path)
        assert entry is not None
        assert AccountKey(rules[0].namespace, user, account) in index.identities(entry)
    assert "Send group too" in Hints(index, "p").unmapped("new", is_restricted=False)["hint"]


def test_a_rule_at_an_entry_matches_only_accounts_below_it(tree: TreeColumns) -> None:
    top = tree.index_of_path("/physics/hep")
    assert top is not None
    resolver = Resolver((Rule("association", tree.uuid(top)),), tree)
    assert tree.path(resolver.resolve(AccountKey("c", "ada", "atlas2")).entry) == "/physics/hep/atlas2/ada"
    assert resolver.resolve(AccountKey("c", "ada", "physics")).entry < 0
    assert resolver.resolve(AccountKey("c", "ada", "hep")).entry < 0
    assert tree.path(resolver.resolve(AccountKey("c", "ada", "root")).entry) == "/physics/hep/ada"


def _problems(tree: TreeColumns, *rules: Rule, namespaces: Sequence[str] = ("c",)) -> list[str]:
    resolver = Resolver(rules, tree)
    return [one.code for number in range(len(rules)) for one in problems_of(resolver, number, namespaces)]


def test_a_rule_that_can_match_nothing_names_the_reason(tree: TreeColumns) -> None:
    root = tree.uuid(0)
    good = Rule("association", root, namespace="c")
    assert _problems(tree, good, Rule("glob", root, suffix="/{group}/{user}"), Rule("each", root)) == []
    assert _problems(tree, Rule("association", root, namespace="elsewhere")) == ["no_namespace"]
    assert _problems(tree, Rule("association", root, namespace="\0")) == ["no_source"]
    assert _problems(tree, Rule("glob", root)) == ["leads_to_root"]
    assert _problems(tree, Rule("glob", root, suffix="/chemistry/{user}")) == ["leads_to_root"]
    assert _problems(tree, Rule("glob", root, suffix="/physics/{user}")) == []
    assert _problems(tree, Rule("exact", UUID(int=7), user_pattern="x")) == ["no_entry"]
    physics = tree.uuid(tree.index_of_path("/physics") or 0)
    assert _problems(tree, Rule("default", physics), Rule("default", physics, namespace="c")) == ["after_default"]
    assert _problems(tree, Rule("default", physics, namespace="c"), Rule("default", physics)) == []
    empty = columns_of([Node(root, None, "root")])
    assert _problems(empty, Rule("glob", root, suffix="/{group}/{user}")) == ["leads_to_root"]
    assert _problems(empty, Rule("each", root)) == []


def _group(name: str, *children: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "kind": "group", "shares": 1, "children": list(children)}


def _user(name: str) -> dict[str, Any]:
    return {"name": name, "kind": "user", "shares": 1}


@pytest.mark.django_db
def test_an_ambiguous_account_name_is_reported_and_never_guessed(site: Site) -> None:
    site.publish([_group("physics", _group("hep", _user("ada"))), _group("biology", _group("hep", _user("ada")))])
    root = site.rule().target_uid
    site.map(Rule("association", root, namespace=site.source.namespace), Rule("association", root, namespace="typo"))
    page = get_mapping_page(policy_slug=site.slug, at=AS_OF, actor=COMMAND)
    resolver = Resolver(tuple(line.rule for line in page.rules if line.rule), page.rights.tree)
    assert resolver.resolve(AccountKey(site.source.namespace, "ada", "hep")).entry < 0
    assert [[one.code for one in line.problems] for line in page.rules] == [
        ["ambiguous"],
        ["no_namespace", "ambiguous"],
    ]
    ambiguous = page.rules[0].problems[0]
    assert "hep" in problem_text(ambiguous)
    assert not ambiguous.matches_nothing
    of_typo = page.rules[1]
    assert of_typo.rule is not None
    (first, _) = rule_json(page.rights, of_typo, of_typo.rule)["problems"]
    assert (first["code"], first["matches_nothing"]) == ("no_namespace", True)
    assert rule_line(page, of_typo, {})["problems"] == [problem_text(one) for one in of_typo.problems]


def _paths(tree: TreeColumns, rule: Rule, *names: tuple[str, str]) -> list[str | None]:
    found = [Resolver((rule,), tree).resolve(AccountKey("c", *name)).entry for name in names]
    return [tree.path(entry) if entry > 0 else None for entry in found]


def test_accounts_have_no_letter_case_and_users_are_stored_in_lower_case(tree: TreeColumns) -> None:
    rule = Rule("association", tree.uuid(0))
    names = ("Ada", "PHYSICS"), ("ADA", "hep"), ("ada", "Atlas2"), ("Root", "ROOT"), ("New", "Hep")
    assert _paths(tree, rule, *names) == [
        "/physics/ada",
        "/physics/hep/ada",
        "/physics/hep/atlas2/ada",
        "/root",
        "/physics/hep",
    ]
    index = _index(tree, [rule])

    def found(**asked: str) -> set[str]:
        return {tree.path(entry) for entry in index.find(AccountQuery(**asked)).entries}

    assert found(user="Bob") == found(user="BOB", group="Hep") == {"/physics/hep/bob"}
    assert found(user="Bob", group="physics") == {"/physics"}
    assert found(user="ADA") == {path for (user, _account), path in EVERY.items() if user == "ada"}
    known = _index(tree, [rule], [AccountKey("c", "BOB", "HEP")])
    assert {tree.path(entry) for entry in known.find("BOB").entries} == {"/physics/hep/bob"}


def test_a_site_that_preserves_letter_case_has_both_users() -> None:
    found = get_format("sacctmgr")
    head = "Cluster - 'c'\nParent - 'root'\nAccount - 'phys'\nParent - 'phys'\n"
    users = "".join(f"User - '{name}'\n" for name in ("JDoe", "jdoe", "eve"))
    tree = tree_of_document(read_file(found, (head + users).encode()), found)
    rule = Rule("association", tree.uuid(0))
    assert _paths(tree, rule, ("JDoe", "Phys"), ("jdoe", "phys"), ("JDOE", "phys"), ("Eve", "phys")) == [
        "/phys/JDoe",
        "/phys/jdoe",
        "/phys",
        "/phys",
    ]
    likely = [Resolver((rule,), tree).likely_entry(AccountKey("c", name, "phys")) for name in ("Eve", "JDOE", "jdoe")]
    assert [None if at is None else tree.path(at) for at in likely] == ["/phys/eve", None, None]


@pytest.mark.parametrize("suffix", ["/{group}/{user}", "/{project}/{user}", "/{user}"])
def test_other_rules_keep_letter_case_and_name_the_likely_entry(suffix: str) -> None:
    found = get_format("ge")
    text = (
        "id=0\nname=Root\ntype=0\nshares=1\nchildnodes=1,3\nid=1\nname=p1\ntype=1\nshares=1\nchildnodes=2\n"
        "id=2\nname=u8\ntype=0\nshares=1\nchildnodes=NONE\nid=3\nname=u9\ntype=0\nshares=1\nchildnodes=NONE\n"
    )
    tree = tree_of_document(read_file(found, text.encode()), found)
    resolver = Resolver((Rule("glob", tree.uuid(0), suffix=suffix),), tree)
    top = suffix == "/{user}"

    def likely(user: str, group: str) -> str | None:
        at = resolver.likely_entry(AccountKey("c", user, group, project=group))
        return None if at is None else tree.path(at)

    assert likely("U8", "p1") == (None if top else "/p1/u8")
    assert likely("u8", "P1") == (None if top else "/p1/u8")
    assert likely("U9", "") == ("/u9" if top else None)
    assert [likely("u8", "p1"), likely("u9", ""), likely("x", "p1")] == [None, None, None]


@pytest.mark.django_db
def test_an_account_in_another_letter_case_is_named_on_page_and_rest(site: Site) -> None:
    site.publish([_group("phys", _user("jdoe"), _user("u2"))])
    site.map(site.rule())
    site.jobs([finished("JDoe", "phys", 4), finished("u2", "phys", 1), finished("Eve", "phys", 1)])
    page = get_mapping_page(policy_slug=site.slug, at=AS_OF, actor=COMMAND)
    tree = page.rights.tree
    assert [(line.key.user_name, tree.path(line.counts_at), tree.path(line.likely)) for line in page.other_case] == [
        ("JDoe", "/phys", "/phys/jdoe")
    ]
    assert page.other_case[0].usage.core_s == 4 * 3600
    row = other_case_json(page.rights, page.other_case[0])
    assert (row["counts_at"], row["suggestions"][0]["path"]) == ("/phys", "/phys/jdoe")
    assert other_case_line(page, page.other_case[0])["likely"].text == "/phys/jdoe"
    policy = Policy.objects.get(slug=site.slug)
    assert [(key.user_name, path) for key, path in count_mapped(policy, tree).other_case] == [("JDoe", "/phys/jdoe")]


BESIDE = DUMP.replace(
    b"User - 'ada':Fairshare=1\nParent - 'hep'",
    b"User - 'hep':Fairshare=5\nUser - 'hep':Partition='gpu':Fairshare=7\nParent - 'hep'\nUser - 'hep':Fairshare=2",
)


def test_a_user_beside_an_account_of_the_same_name_is_an_entry_of_its_own() -> None:
    sacctmgr = get_format("sacctmgr")
    tree = tree_of_document(read_file(sacctmgr, BESIDE), sacctmgr)
    shares = {tree.path(i): tree.shares[i] for i in range(len(tree))}
    assert [shares[path] for path in ("/physics/hep", "/physics/hep:", "/physics/hep:gpu")] == [3, 5, 7]
    resolver = Resolver(default_rules(tree, "", maps_by="association"), tree)
    expected = {
        AccountKey("c", "hep", "physics"): "/physics/hep:",
        AccountKey("c", "HEP", "Physics"): "/physics/hep:",
        AccountKey("c", "hep", "physics", project="gpu"): "/physics/hep:gpu",
        AccountKey("c", "hep", "physics", project="batch"): "/physics/hep:",
        AccountKey("c", "hep", "hep"): "/physics/hep/hep",
    }
    assert {key: tree.path(resolver.resolve(key).entry) for key in expected} == expected
    assert [tree.path(i) for i in resolver.resolve_many(list(expected)).tolist()] == list(expected.values())
    index = _index(tree, resolver.rules, list(expected))
    assert [index.path(i) for i in index.find(AccountQuery("hep", "physics", "c")).entries] == ["/physics/hep:"]
    text = "".join(sacctmgr.write(sacctmgr.fit(tree), PolicySettings()))
    assert "User - 'hep':DefaultAccount='physics':Fairshare=5" in text
    again = tree_of_document(read_file(sacctmgr, text.encode()), sacctmgr)
    assert {again.path(i): again.shares[i] for i in range(len(again))} == shares


def test_a_user_whom_only_slurm_has_is_not_the_account_of_the_same_name(
    tree: TreeColumns, rules: tuple[Rule, ...]
) -> None:
    """Such a user counts for the account that the job names, as in Slurm."""
    resolver, key = Resolver(rules, tree), AccountKey("c", "hep", "physics")
    assert tree.path(resolver.resolve(key).entry) == "/physics"
    assert [tree.path(i) for i in resolver.resolve_many([key]).tolist()] == ["/physics"]
