"""Suggested entries of unmapped accounts, with reason and certainty."""

from __future__ import annotations

from uuid import UUID

import numpy as np
import pytest

from apps.accounts.account_index import AccountKeys
from apps.accounts.account_keys import AccountKey
from apps.mapping.suggestions import Suggester, find_neighbours, groups_of, normalise_name
from apps.policies.tree.columns import Node, TreeColumns
from apps.policies.tree.working_tree import columns_of

PATHS = [
    ("/physics", True),
    ("/physics/alice", False),
    ("/physics/Åsa Ek", False),
    ("/physics/ksvan", False),
    ("/biology", True),
    ("/biology/alice", False),
    ("/biology/nbis", True),
    ("/biology/nbis/carol", False),
    ("/lqcd", True),
    ("/rest", False),
]


@pytest.fixture(scope="module")
def tree() -> TreeColumns:
    uids = {"": UUID(int=1), **{path: UUID(int=n + 2) for n, (path, _) in enumerate(PATHS)}}
    nodes = [Node(uids[""], None, "root")]
    for path, is_group in PATHS:
        above, _, name = path.rpartition("/")
        kind = "reserve" if name == "rest" else "group" if is_group else "user"
        nodes.append(Node(uids[path], uids[above], name, kind, is_group=is_group))
    return columns_of(nodes)


def guesses(tree: TreeColumns, *mapped: tuple[AccountKey, str], **names: str) -> list[tuple[str, str, float]]:
    key = AccountKey(**{"namespace": "c1", **names})
    keys = AccountKeys.of(one for one, _ in mapped)
    entries = np.array([tree.index_of_path(path) or 0 for _, path in mapped], np.int32)
    suggester = Suggester(tree, find_neighbours(tree, keys, entries, set(groups_of(key))))
    return [(tree.path(one.entry), one.why, round(one.sure, 2)) for one in suggester.suggest(key)]


def test_a_name_in_its_group_is_a_better_suggestion_than_elsewhere(tree: TreeColumns) -> None:
    assert guesses(tree, user_name="alice", group_name="physics") == [
        ("/physics/alice", "same_name", 0.97),
        ("/physics", "group_name", 0.85),
        ("/biology/alice", "same_name", 0.45),
    ]
    assert guesses(tree, user_name="carol")[0] == ("/biology/nbis/carol", "same_name", 0.9)


def test_a_user_of_nested_accounts_has_an_entry_in_each() -> None:
    """Captured from a Slurm site: the first guess for (ann, hep) was the entry in hep/atlas."""
    names = ["", "/hep", "/hep/ann", "/hep/atlas", "/hep/atlas/ann"]
    nodes = [Node(UUID(int=1), None, "root")]
    for n, path in enumerate(names[1:], 2):
        above, _, name = path.rpartition("/")
        is_user = name == "ann"
        kind = "user" if is_user else "group"
        nodes.append(Node(UUID(int=n), UUID(int=names.index(above) + 1), name, kind, is_group=not is_user))
    found = columns_of(nodes)
    for group, path in (("hep", "/hep/ann"), ("atlas", "/hep/atlas/ann")):
        first, *others = guesses(found, user_name="ann", group_name=group)
        assert first == (path, "same_name", 0.97)
        assert all(sure < 0.9 for _path, _why, sure in others)


def test_case_and_diacritics_are_ignored(tree: TreeColumns) -> None:
    assert guesses(tree, user_name="asa.ek")[0] == ("/physics/Åsa Ek", "same_name_folded", 0.84)
    assert guesses(tree, user_name="x", group_name="LQCD") == [("/lqcd", "group_name_folded", 0.8)]
    assert normalise_name("Øyvind-Łuk") == normalise_name("oyvind.luk") == "oyvindluk"


def test_a_realm_is_ignored(tree: TreeColumns) -> None:
    assert guesses(tree, user_name="carol@example.org")[0] == ("/biology/nbis/carol", "without_realm", 0.78)


def test_a_certificate_is_suggested_by_its_common_name(tree: TreeColumns) -> None:
    assert guesses(tree, dn="/O=x/CN=Åsa Ek 12345")[0] == ("/physics/Åsa Ek", "common_name", 0.74)
    assert guesses(tree, dn="/O=x/CN=Kim Svan")[0] == ("/physics/ksvan", "initial_and_surname", 0.6)
    assert guesses(tree, dn="/O=x/CN=host")[:1] == []


def test_an_fqan_suggests_the_group(tree: TreeColumns) -> None:
    found = guesses(tree, dn="/O=x/CN=X", fqan="/biology/nbis/Role=lead")
    assert found == [("/biology/nbis", "fqan_group", 0.94), ("/biology", "fqan_vo", 0.62)]
    assert guesses(tree, user_name="x", project="lqcd") == [("/lqcd", "project_name", 0.7)]


def test_accounts_of_the_same_group_suggest_the_entry(tree: TreeColumns) -> None:
    def of(user: str, path: str) -> tuple[AccountKey, str]:
        return AccountKey("c1", user, "b2026"), path

    mapped = [of("alice", "/biology/alice"), of("u2", "/biology"), of("u3", "/biology"), of("u4", "/lqcd")]
    assert guesses(tree, *mapped, user_name="u9", group_name="b2026") == [("/biology", "neighbours", 0.75)]
    assert guesses(tree, mapped[0], user_name="u9", group_name="b2026") == [], "one alone says nothing"
    other = AccountKey("c2", "u5", "b2026"), "/biology"
    assert guesses(tree, other, other, user_name="u9", group_name="b2026") == [], "another source's group is another"


def test_neighbours_suggest_an_entry_where_at_least_half_of_them_are_and_the_more_the_surer(tree: TreeColumns) -> None:
    def of(*paths: str) -> list[tuple[AccountKey, str]]:
        return [(AccountKey("c1", f"u{n}", "b2026"), path) for n, path in enumerate(paths)]

    asked = {"user_name": "u9", "group_name": "b2026"}
    half = of("/biology", "/biology", "/lqcd", "/physics")
    assert guesses(tree, *half, **asked) == [("/biology", "neighbours", round(0.5 + 0.45 * 0.5 * (1 - 1 / 3), 2))]
    assert guesses(tree, *half, (AccountKey("c1", "u8", "b2026"), "/physics/alice"), **asked) == []
    assert guesses(tree, *of(*["/biology"] * 9), **asked) == [("/biology", "neighbours", round(0.5 + 0.45 * 0.9, 2))]
    assert guesses(tree, *of("/", "/"), **asked) == [], "at the root no usage counts"


def test_a_reserve_and_the_root_are_never_suggested(tree: TreeColumns) -> None:
    assert guesses(tree, user_name="rest", group_name="root") == []


def test_each_tree_that_was_never_stored_has_suggestions_of_its_own(tree: TreeColumns) -> None:
    """As of a document before it is published: neither has a digest."""
    key = AccountKey("c1", user_name="alice")
    other = columns_of([Node(UUID(int=1), None, "root"), Node(UUID(int=2), UUID(int=1), "alice", is_group=False)])
    nothing = columns_of([Node(UUID(int=1), None, "root")])
    assert [guesses(each, user_name="alice")[:1] for each in (tree, other, nothing, tree)] == [
        [("/biology/alice", "same_name", 0.45)],
        [("/alice", "same_name", 0.9)],
        [],
        [("/biology/alice", "same_name", 0.45)],
    ]
    assert Suggester(nothing, {}).suggest(key) == []


def test_of_equally_sure_suggestions_the_deeper_entry_comes_first() -> None:
    root, group, deep, flat = (UUID(int=n) for n in range(1, 5))
    nodes = [Node(root, None, "root"), Node(flat, root, "alice", is_group=False), Node(group, root, "b")]
    tree = columns_of([*nodes, Node(deep, group, "alice", is_group=False)])
    assert [path for path, _why, _sure in guesses(tree, user_name="alice")] == ["/b/alice", "/alice"]
