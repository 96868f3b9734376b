"""A look-up of many names gives each the entries that a look-up of it alone gives."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from apps.accounts.account_ids import AccountKey
from apps.mapping.rules.rule import Rule
from apps.priorities.serving.lookup import AccountQuery, Query
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
        *dict.fromkeys(key.user_name for key in known),
        AccountQuery("alice"),
        AccountQuery("", "physics"),
    ]
    together, alone = _index(_TREE, *rules, known=known), _index(_TREE, *rules, known=known)
    assert together.find_many(queries) == [alone.find(query) for query in queries]
    assert [together.choices(query) for query in queries] == [alone.choices(query) for query in queries]


def test_known_users_of_plain_rules_are_found_without_looking_at_each_rule() -> None:
    lone = _TREE.index_of_path("/lone")
    assert lone is not None
    rules = [Rule("glob", _TREE.uuid(lone), suffix="/{user}")]
    known = [AccountKey("c1", "carol"), AccountKey("c1", "alice"), AccountKey("c2", "bob")]
    index = _index(_TREE, *rules, known=known)
    index._find_users(["alice", "carol", "nobody", "bob"])
    assert {name: [index.path(at) for at in found.entries] for name, found in index._results.items()} == {
        "carol": ["/lone/carol"]
    }, "alice and bob are names of other entries, too"
