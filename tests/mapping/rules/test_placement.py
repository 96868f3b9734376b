"""Accounts that are placed together are placed as the resolver decides for each of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch
from uuid import UUID

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apps.accounts.account_index import AccountKeys
from apps.accounts.account_keys import AccountKey
from apps.accounts.entry_accounts import entry_account
from apps.core.strings import Strings
from apps.mapping.rules import placement as placing
from apps.mapping.rules.placement import place_accounts, place_columns
from apps.mapping.rules.resolver import NOTHING_KNOWN, Decided, KnownAccounts, Resolver
from apps.mapping.rules.rule import KINDS, Person, Rule
from apps.policies.files.document import read_document

_USERS = ("alice", "bob", "Carol", "carol", "d=e", "a.b", "keep", "default", "", "x/y")
_GROUPS = ("", "atlas", "Atlas", "cms", "root", "none", "keep")
_DNS = ("", "", "", "/DC=org/CN=alice", "CN=alice,DC=org")
_FQANS = ("", "", "/atlas", "/atlas/Role=NULL", "/cms/Role=production")


def _entry(number: int, name: str, *children: dict[str, Any], **fields: Any) -> dict[str, Any]:
    uid = f"00000000-0000-4000-8000-{number:012d}"
    return {"name": name, "shares": 1, "uid": uid, **fields, **({"children": list(children)} if children else {})}


def _user(number: int, name: str) -> dict[str, Any]:
    return _entry(number, name, kind="user")


_ROOT = _entry(
    1,
    "grid",
    _entry(
        2,
        "physics",
        _entry(3, "atlas", _user(4, "alice"), _user(5, "bob"), _user(6, "d=e"), _user(7, "default")),
        _entry(8, "cms", _user(9, "alice"), _user(10, "a.b"), _entry(11, "keep", kind="reserve")),
        _entry(12, "students", children=[]),
    ),
    _entry(13, "lone", _user(14, "carol"), _entry(15, "keep", kind="reserve"), kind="project"),
    _user(16, "bob"),
)
_TREE = read_document({"policy": "grid", "root": _ROOT}).tree
_UIDS = [_TREE.uuid(at) for at in range(len(_TREE))] + [UUID(int=99)]
_KEYS = st.builds(
    AccountKey,
    st.sampled_from(["c1", "c2"]),
    st.sampled_from(_USERS),
    st.sampled_from(_GROUPS),
    st.sampled_from(_DNS),
    st.sampled_from(_FQANS),
    st.sampled_from(["", "lone", "atlas"]),
).filter(lambda key: bool(key.user_name or key.dn or key.group_name)) | st.sampled_from(_UIDS).map(entry_account)
_SUFFIXES = (
    "",
    "/{user}",
    "/{group}/{user}",
    "/atlas/{user}",
    "/{project}/{user}",
    "/{group}",
    "/u-{user}",
    "/atlas",
    "/{group}/{user}/x",
    "/{user}/{user}",
)
_RULES = st.builds(
    Rule,
    st.sampled_from(KINDS),
    st.sampled_from(_UIDS),
    namespace=st.sampled_from(["", "", "c1"]),
    user_pattern=st.sampled_from(["", "", "", "alice", "a*", "*b", "CN=alice,DC=org"]),
    group_pattern=st.sampled_from(["", "", "atlas", "[Aa]tlas", "c*"]),
    fqan_pattern=st.sampled_from(["", "", "/atlas"]),
    suffix=st.sampled_from(_SUFFIXES),
    people=st.sampled_from(["", "", "", "staff"]),
    reach_uid=st.sampled_from([None, None, *_UIDS[:9]]),
    written_at=st.sampled_from(["", "2026-01-01", "2026-02-01"]),
)
_PERSONS = st.dictionaries(_KEYS, st.just(Person("alice", frozenset({"staff"}))), max_size=2)
_KNOWN = st.builds(KnownAccounts, st.dictionaries(_KEYS, st.sampled_from(_UIDS), max_size=2), _PERSONS)


@given(st.lists(_RULES, max_size=5), _KNOWN, st.lists(_KEYS, max_size=30))
@example(
    [Rule("association", _UIDS[0])], NOTHING_KNOWN, [AccountKey("c1", "Carol", "lone"), AccountKey("c1", "keep", "cms")]
)
@example([Rule("each", _UIDS[0])], NOTHING_KNOWN, [AccountKey("c1", "alice"), AccountKey("c1", "bob")])
def test_accounts_are_placed_as_each_is_decided(
    rules: list[Rule], known: KnownAccounts, keys: list[AccountKey]
) -> None:
    resolver = Resolver(tuple(rules), _TREE, known)
    placement = place_columns(resolver, AccountKeys.of(keys))
    assert [placement[at] for at in range(len(keys))] == [
        Resolver(tuple(rules), _TREE, known).decide(key) for key in keys
    ]
    assert placement.of_usage.tolist() == resolver.resolve_many(keys).tolist()


@given(st.lists(_RULES, max_size=3), st.lists(_KEYS, max_size=20))
def test_users_whose_names_have_one_hash_are_placed_by_their_names(rules: list[Rule], keys: list[AccountKey]) -> None:
    resolver = Resolver(tuple(rules), _TREE)
    with patch.object(Strings, "hashes", lambda self: np.full(len(self), 7, np.uint64)):
        placement = place_columns(resolver, AccountKeys.of(keys))
    assert list(placement) == [resolver.decide(key) for key in keys]


def test_accounts_that_differ_by_their_users_alone_are_decided_together() -> None:
    """A million of them would take a thousand times as long one by one."""
    users = ("alice", "bob", "zoe", "a.b")
    keys = AccountKeys.of([AccountKey("c1", user, group) for user in users for group in ("atlas", "cms", "none")])
    together = [
        [Rule("glob", _UIDS[0], suffix="/{group}/{user}"), Rule("default", _UIDS[15])],
        [Rule("group", _TREE.uuid(_TREE.index_of_path("/physics") or 0), group_pattern="a*", suffix="/atlas/{user}")],
        [Rule("glob", _UIDS[0], suffix="/{user}"), Rule("glob", _UIDS[0], suffix="/physics/{group}/{user}")],
        [Rule("association", _UIDS[0])],
        [Rule("each", _TREE.uuid(_TREE.index_of_path("/physics/cms") or 0), group_pattern="cms")],
        [Rule("exact", _UIDS[0], group_pattern="none", suffix="/physics")],
    ]
    alone = [[Rule("glob", _UIDS[0], user_pattern="a*")], [Rule("share_tree", _UIDS[0])]]
    for rules, decides_each in [*((each, False) for each in together), *((each, True) for each in alone)]:
        resolver = Resolver(tuple(rules), _TREE)
        right = [Resolver(tuple(rules), _TREE).decide(key) for key in keys]
        decided: list[AccountKey] = []
        decide = Resolver.decide

        def noted(self: Resolver, key: AccountKey) -> Decided:
            decided.append(key)  # noqa: B023 - called within this round
            return decide(self, key)  # noqa: B023

        with patch.object(Resolver, "decide", noted):
            assert list(place_columns(resolver, keys)) == right
        assert bool(decided) is decides_each, rules


_N_GROUPS = 60


@pytest.mark.parametrize("reach", ["whole policy", "part", "own entry"])
@pytest.mark.parametrize("suffix", ["/{user}", ""])
def test_rules_that_match_anyone_are_not_tried_for_each_group(
    monkeypatch: pytest.MonkeyPatch, reach: str, suffix: str
) -> None:
    """Of 400 rules, which lead to 20 entries in each of 20 parts."""
    entries = [_entry(1_000 + n, f"entry{n}", _user(2_000 + n, "alice")) for n in range(400)]
    parts = [_entry(100 + n, f"part{n}", *entries[20 * n : 20 * n + 20]) for n in range(20)]
    tree = read_document({"policy": "grid", "root": _entry(1, "grid", *parts)}).tree
    own, above = [UUID(each["uid"]) for each in entries], [UUID(each["uid"]) for each in parts]
    rules = tuple(
        Rule(
            "glob",
            uid,
            suffix=suffix,
            reach_uid={"whole policy": None, "part": above[n // 20], "own entry": uid}[reach],
            written_at=f"{n:04}",
        )
        for n, uid in enumerate(own)
    )
    keys = AccountKeys.of([AccountKey("c", user, f"g{n}") for n in range(_N_GROUPS) for user in ("alice", "bob")])
    n_tried = 0
    first_matches = Rule.matches_other_names

    def counted(rule: Rule, key: AccountKey) -> bool:
        nonlocal n_tried
        n_tried += 1
        return first_matches(rule, key)

    monkeypatch.setattr(Rule, "matches_other_names", counted)
    placement = place_columns(Resolver(rules, tree, NOTHING_KNOWN), keys)
    assert set(placement.rule.tolist()) == {0}, "the first one takes all, and nobody is in a part of another"
    assert n_tried <= 4 * _N_GROUPS, "and not rules times groups"


def test_only_new_accounts_are_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placing, "_placements", placing._PlacementCache())
    placed: list[int] = []
    by_columns = placing.place_columns

    def counted(resolver: Resolver, keys: AccountKeys) -> placing.Placement:
        placed.append(len(keys))
        return by_columns(resolver, keys)

    monkeypatch.setattr(placing, "place_columns", counted)
    tree = replace(_TREE, digest="stored")
    rules = (Rule("glob", _UIDS[0], suffix="/physics/{group}/{user}"),)
    keys = AccountKeys.of([AccountKey("c1", "alice", "atlas"), AccountKey("c1", "bob", "atlas")])
    first = place_accounts(tree, rules, NOTHING_KNOWN, keys)
    assert place_accounts(tree, rules, NOTHING_KNOWN, keys) is first
    more = AccountKeys.joined([keys, AccountKeys.of([AccountKey("c1", "a.b", "cms")])])
    both = place_accounts(tree, rules, NOTHING_KNOWN, more)
    assert placed == [2, 1]
    assert [tree.path(at) for at in both.of_usage.tolist()] == [
        "/physics/atlas/alice",
        "/physics/atlas/bob",
        "/physics/cms/a.b",
    ]
    renamed = AccountKeys.of([AccountKey("c1", "bob", "atlas"), AccountKey("c1", "bob", "atlas")])
    place_accounts(tree, rules, NOTHING_KNOWN, renamed)
    assert placed == [2, 1, 2]


_TEXTS = st.lists(st.text(max_size=8), max_size=12)


@given(_TEXTS, _TEXTS, st.data())
def test_texts_in_columns_are_those_that_went_in(texts: list[str], more: list[str], data: st.DataObject) -> None:
    strings = Strings.of(texts)
    assert list(strings) == texts == [strings[at] for at in range(len(texts))] == strings[:]
    assert list(Strings.joined([strings, Strings.of(more)])) == texts + more
    places = data.draw(st.lists(st.integers(0, len(texts) - 1), max_size=20) if texts else st.just([]))
    assert list(strings.take(np.array(places, np.int64))) == [texts[at] for at in places]
    distinct, codes = strings.coded
    assert [distinct[code] for code in codes.tolist()] == texts
    assert strings.is_constant == (len(set(texts)) <= 1)
    assert Strings.joined([strings, Strings.of(more)]).starts_with(strings)
    assert strings.is_empty == (not any(texts))
