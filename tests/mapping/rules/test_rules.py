"""One rule: which accounts it is for, where an index finds it, and which rules are refused."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.accounts.account_keys import AccountKey, canonical
from apps.mapping.rules.rule import KINDS, Person, Rule, rule_problems
from apps.mapping.rules.rule_index import RuleIndex
from tests.examples import examples
from tests.oracles import mapping as oracle

ENTRY = UUID(int=1)
NAMES = ("", "alice", "alan", "bob", "x[1]")
PATTERNS = st.sampled_from(["", "", "alice", "a*", "*ce", "*l*", "?ob", "[ab]*", "al[io]ce", "*", "a"])
DNS = ("", "/DC=org/CN=alice", "CN=bob,DC=org")
FQANS = ("", "/atlas", "/atlas/Role=NULL", "/atlas/Role=production", "/atlassian", "/cms/x")
USERS_AND_DNS = [(user, dn) for user in NAMES for dn in DNS if user or dn]
ACCOUNTS = [
    canonical(AccountKey(("c1", "c2")[n % 2], user, NAMES[n % 5], dn, FQANS[n % 6]))
    for n, (user, dn) in enumerate(30 * USERS_AND_DNS)
][::4]
PEOPLE = [None, *(Person("bob", frozenset(groups)) for groups in ([], ["staff"], ["st", "board"]))]
RULES = st.builds(
    Rule,
    st.sampled_from(KINDS),
    st.just(ENTRY),
    namespace=st.sampled_from(["", "", "c1"]),
    user_pattern=PATTERNS | st.sampled_from(["CN=alice,DC=org", "/DC=org/CN=a*", "/DC=org/*"]),
    group_pattern=PATTERNS,
    fqan_pattern=st.sampled_from(["", "", "/atlas", "/atlas/Role=NULL", "/atlas/Role=*", "/a*"]),
    people=st.sampled_from(["", "", "staff", "st*", "?oard"]),
)


@examples(1_000, fixed=120)
@given(RULES)
def test_a_rule_is_for_the_accounts_that_the_documentation_says(rule: Rule) -> None:
    spelled = rule.spelled
    for n, account in enumerate(ACCOUNTS):
        person = PEOPLE[n % len(PEOPLE)]
        assert spelled.matches(account, person) is oracle.matches(rule, account, person), (account, person)


@examples(1_000, fixed=60)
@given(st.lists(RULES, min_size=2, max_size=6))
def test_an_index_finds_each_rule_of_an_account_in_order_and_none_that_names_another(rules: list[Rule]) -> None:
    spelled = [rule.spelled for rule in rules]
    index = RuleIndex(spelled)
    for n, account in enumerate(ACCOUNTS):
        person = PEOPLE[n % len(PEOPLE)]
        numbers = list(index.numbers(account, person))
        assert numbers == sorted(set(numbers))
        assert {at for at, rule in enumerate(spelled) if rule.matches(account, person)} <= set(numbers)
        for number in numbers:
            assert may_be_for(spelled[number], account, person), (spelled[number], account)


def may_be_for(rule: Rule, account: AccountKey, person: Person | None) -> bool:
    """By the first property that all accounts of a rule have: a name, an owner's group, the ends of a name, or the
    namespace."""
    named = [(rule.user_pattern, {account.user_name, account.dn}), (rule.group_pattern, {account.group_name})]
    if rule.kind != "default":
        for pattern, names in named:
            if pattern and (rule.kind == "exact" or not set(pattern) & set("*?[")):
                return pattern in names
        if rule.people and not set(rule.people) & set("*?["):
            return person is not None and rule.people in person.groups
        for pattern, names in [*named, (rule.fqan_pattern, {account.fqan})]:
            begins = pattern.replace("?", "*").replace("[", "*").partition("*")[0]
            ends = "" if "[" in pattern else pattern.replace("?", "*").rpartition("*")[2]
            if begins:
                return any(name.startswith(begins) for name in names)
            if ends and pattern != rule.fqan_pattern:
                return any(name.endswith(ends) for name in names)
    return rule.namespace in ("", account.namespace)


@pytest.mark.parametrize("suffix", ["", "/{group}/x-{user}", "/{project}{project}", "//{user}/", "/a/{group}"])
def test_names_below_an_entry_are_the_suffix_with_the_account_s_names(suffix: str) -> None:
    for kind, people, account, person in product(KINDS, ("", "staff"), ACCOUNTS[:12], PEOPLE):
        rule, of_project = Rule(kind, ENTRY, suffix=suffix, people=people), account._replace(project="p1")
        assert rule.names_below(of_project, person) == oracle.names_below(rule, of_project, person)


@examples(100, fixed=20)
@given(RULES, st.sampled_from([None, ENTRY]), st.sampled_from(["", "2026-01-01"]), st.sampled_from(["user", "group"]))
def test_a_rule_is_read_as_it_was_written(rule: Rule, reach: UUID | None, written_at: str, kind: str) -> None:
    rule = replace(rule, reach_uid=reach, written_at=written_at, member_kind=kind, archive_after_idle_days=7)
    assert Rule.from_json(rule.to_json()) == rule
    assert rule.stated == replace(rule, reach_uid=None, written_at="")


WITHOUT_PROBLEMS: list[dict[str, Any]] = [
    {"kind": "exact", "user_pattern": "u"},
    {"kind": "exact", "group_pattern": "g"},
    {"kind": "exact", "fqan_pattern": "/f"},
    {"kind": "group", "group_pattern": "g"},
    {"kind": "group", "fqan_pattern": "/f"},
    {"kind": "glob"},
    {"kind": "share_tree"},
    {"kind": "default"},
    {"kind": "association"},
    {"kind": "each", "member_shares": 0},
    {"kind": "each", "member_shares": 1e15},
    {"suffix": "/a" * 8},
    {"suffix": "/" + "x" * 255},
    {"suffix": "/{user}/{group}-{project}"},
    {"namespace": "n" * 128},
    {"source": "s" * 64},
    {"user_pattern": "u" * 256},
    {"group_pattern": "g" * 256},
    {"fqan_pattern": "/" + "f" * 511},
    {"user_pattern": "all names\u00a0of åsa"},
]
WITH_PROBLEMS: list[tuple[dict[str, Any], str]] = [
    ({"kind": "regex"}, ".kind"),
    ({"kind": "exact"}, ""),
    ({"kind": "group", "user_pattern": "u"}, ""),
    ({"kind": "share_tree", "suffix": "/x"}, ".suffix"),
    ({"people": "staff"}, ".people"),
    ({"suffix": "/{other}"}, ".suffix"),
    ({"suffix": "/}"}, ".suffix"),
    ({"suffix": "/{"}, ".suffix"),
    ({"suffix": "/a" * 9}, ".suffix"),
    ({"suffix": "/" + "x" * 256}, ".suffix"),
    ({"member_shares": -1e-9}, ".member_shares"),
    ({"member_shares": 1.1e15}, ".member_shares"),
    ({"member_shares": float("nan")}, ".member_shares"),
    ({"namespace": "@entries"}, ".namespace"),
    ({"namespace": "c1", "source": "s"}, ".source"),
    ({"namespace": "n" * 129}, ".namespace"),
    ({"source": "s" * 65}, ".source"),
    ({"user_pattern": "u" * 257}, ".user_pattern"),
    ({"group_pattern": "g" * 257}, ".group_pattern"),
    ({"fqan_pattern": "/" + "f" * 512}, ".fqan_pattern"),
    *(({name: "a\x7fb"}, f".{name}") for name in ("namespace", "user_pattern", "group_pattern", "fqan_pattern")),
    *(({name: "a\tb"}, f".{name}") for name in ("suffix", "source")),
]


@pytest.mark.parametrize("fields", WITHOUT_PROBLEMS, ids=str)
def test_a_rule_within_its_bounds_has_no_problem(fields: dict[str, Any]) -> None:
    assert rule_problems(Rule(**{"kind": "glob", "target_uid": ENTRY, **fields}), "rule") == []


@pytest.mark.parametrize(("fields", "where"), WITH_PROBLEMS, ids=lambda value: str(value)[:40])
def test_a_rule_outside_its_bounds_is_refused_at_that_field(fields: dict[str, Any], where: str) -> None:
    problems = rule_problems(Rule(**{"kind": "glob", "target_uid": ENTRY, **fields}), "rule")
    assert [problem.where for problem in problems] == [f"rule{where}"]
    assert all(problem.message for problem in problems)
