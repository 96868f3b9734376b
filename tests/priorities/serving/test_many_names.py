"""A look-up of many names gives each the entries that a look-up of it alone gives."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
from hypothesis import example, given
from hypothesis import strategies as st

from apps.accounts.account_keys import AccountKey
from apps.core.strings import Strings
from apps.mapping.rules.rule import Rule
from apps.priorities.serving.lookup import AccountQuery, LookupIndex, Query
from tests.examples import examples
from tests.mapping.rules.test_placement import _KEYS, _RULES, _TREE, _UIDS
from tests.priorities.serving.test_named_entries import _index

_NAMES = ["alice", "bob", "carol", "Alice", "", "nobody", "a=b", "/DC=org/CN=alice", "x/y", "physics", "dan", "eve"]


@examples(400)
@given(st.lists(_RULES, max_size=4), st.lists(_KEYS, max_size=12))
@example([Rule("glob", _UIDS[0], suffix="/{group}/{user}")], [AccountKey("c1", "alice", "physics")])
@example([Rule("each", _UIDS[0])], [AccountKey("c1", "alice"), AccountKey("c1", "bob")])
def test_many_names_are_found_as_each_alone(rules: list[Rule], known: list[AccountKey]) -> None:
    queries: list[Query] = [
        *_NAMES,
        *_TREE.name,
        *dict.fromkeys(key.user_name for key in known),
        AccountQuery("alice"),
        AccountQuery("", "physics"),
    ]
    together, alone = _index(_TREE, *rules, known=known), _index(_TREE, *rules, known=known)
    assert together.find_many(queries) == [alone.find(query) for query in queries]
    assert [together.choices(query) for query in queries] == [alone.choices(query) for query in queries]
    mapped = LookupIndex.of_columns(_TREE, *together.to_columns(), together.digest)
    assert mapped.find_many(queries) == [alone.find(query) for query in queries]
    assert [mapped.accounts_of(at) for at in range(len(_TREE))] == [alone.accounts_of(at) for at in range(len(_TREE))]


def test_known_users_of_plain_rules_are_found_without_looking_at_each_rule() -> None:
    lone = _TREE.index_of_path("/lone")
    assert lone is not None
    rules = [Rule("glob", _TREE.uuid(lone), suffix="/{user}")]
    known = [AccountKey("c1", "carol"), AccountKey("c1", "alice"), AccountKey("c2", "bob")]
    index = _index(_TREE, *rules, known=known)
    users = ["alice", "carol", "nobody", "bob", "\udc80", "Zoë", "a=b", ""]
    entries = index.plain_entries(users)
    assert {name: index.path(at) for name, at in zip(users, entries.tolist(), strict=True) if at >= 0} == {
        "carol": "/lone/carol"
    }, "alice and bob are names of other entries, too"


def test_unknown_users_of_plain_rules_are_found_by_the_names_of_entries() -> None:
    rules = [Rule("glob", _TREE.uuid(0), suffix="/{group}/{user}")]
    index, alone = _index(_TREE, *rules), _index(_TREE, *rules)
    unique = [name for name in dict.fromkeys(_TREE.name) if list(_TREE.name).count(name) == 1]
    *entries, of_nobody = index.plain_entries([*unique, "nobody"]).tolist()
    assert of_nobody == -1
    plain = {name: (entry,) for name, entry in zip(unique, entries, strict=True) if entry >= 0}
    assert len(plain) > 1, "at least some need no look at each rule"
    assert plain == {name: alone.find(name).entries for name in plain}


def test_users_whose_hash_is_that_of_another_name_are_not_taken_for_it() -> None:
    rules = [Rule("glob", _TREE.uuid(0), suffix="/{group}/{user}")]
    known, few = ["nn-known", "mm-known"], ["-"] * 8

    def first_two(names: Strings) -> npt.NDArray[np.uint64]:
        return np.array([int.from_bytes(name.encode()[:2], "little") for name in names], np.uint64)

    with patch.object(Strings, "hashes", first_two):
        index = _index(replace(_TREE), *rules, known=[AccountKey("c1", name, "physics") for name in known])
        asked = [*dict.fromkeys(_TREE.name), *known]
        is_found = index.plain_entries([*asked, *few]) >= 0
        assert is_found[: len(asked) - len(known)].any(), "by the name of an entry"
        assert is_found[len(asked) - len(known) : len(asked)].any(), "by an account"
        assert not (index.plain_entries([*(f"{name[:2]}zz" for name in asked), *few]) >= 0).any()


def test_the_accounts_of_an_entry_are_found_without_a_copy_of_all() -> None:
    """A list of all accounts asks this for each entry: a copy each time made it quadratic."""
    n_known = 20_000
    lone = _TREE.index_of_path("/lone")
    assert lone is not None
    rule = Rule("default", _TREE.uuid(lone))
    index = _index(_TREE, rule, known=[AccountKey("c1", f"user{n}") for n in range(n_known)])
    assert len(index.accounts_of(lone)) == n_known
    tracemalloc.start()
    try:
        assert index.accounts_of(lone - 1) == []
        assert index.accounts_of_each(np.zeros(0, np.int64)) == []
        assert tracemalloc.get_traced_memory()[1] < n_known
    finally:
        tracemalloc.stop()
