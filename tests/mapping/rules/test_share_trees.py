"""Grid Engine's share tree: a job's node by project and user, and the leaf `default` for users without a node."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from apps.accounts.account_index import AccountKeys
from apps.accounts.account_keys import AccountKey
from apps.mapping.name_rules import default_rules
from apps.mapping.rules.account_places import AccountPlaces
from apps.mapping.rules.problems import problems_of
from apps.mapping.rules.resolver import Resolver
from apps.mapping.rules.rule import Rule, rule_problems
from apps.policies.formats.registry import get_format, maps_by, read_file
from apps.policies.publishing.direct import tree_of_document
from apps.policies.tree.columns import TreeColumns
from apps.priorities.serving.hints import Hints
from apps.priorities.serving.lookup import AccountQuery, LookupIndex

# (name, project or not, children): users and a department outside of projects, a project with nodes, one without.
NODES = (
    ("Root", 0, (1, 2, 3, 4, 5)),
    ("P1", 1, (6, 7, 8)),
    ("P2", 1, ()),
    ("P3", 1, (11,)),
    ("dept", 0, (9, 10)),
    ("default", 0, ()),
    ("u1", 0, ()),
    ("default", 0, ()),
    ("team", 0, (12,)),
    ("u2", 0, ()),
    ("u1", 0, ()),
    ("u3", 0, ()),
    ("u4", 0, ()),
)


def tree_of(text: bytes) -> TreeColumns:
    found = get_format("ge")
    return tree_of_document(read_file(found, text), found)


@pytest.fixture(scope="module")
def tree() -> TreeColumns:
    lines = (
        f"id={id}\nname={name}\ntype={kind}\nshares=1\nchildnodes={','.join(map(str, below)) or 'NONE'}\n"
        for id, (name, kind, below) in enumerate(NODES)
    )
    return tree_of("".join(lines).encode())


@pytest.fixture(scope="module")
def rule(tree: TreeColumns) -> Rule:
    (rule,) = default_rules(tree, "sge", maps_by=maps_by("ge"))
    return rule


def paths(tree: TreeColumns, rule: Rule, *names: tuple[str, str]) -> list[str | None]:
    resolver = Resolver((rule,), tree)
    found = [resolver.resolve(AccountKey("sge", user, "g1", project=project)).entry for user, project in names]
    return [tree.path(entry) if entry > 0 else None for entry in found]


@pytest.mark.parametrize(
    ("user", "project", "path"),
    [
        ("u1", "P1", "/P1/u1"),
        ("u4", "P1", "/P1/team/u4"),  # at any depth of the project
        ("u8", "P1", "/P1/default"),
        ("u2", "P1", "/P1/default"),  # its node is outside of the project
        ("u8", "P2", "/P2"),  # a project without nodes is one itself
        ("u3", "P3", "/P3/u3"),
        ("u8", "P3", "/P3"),  # no leaf default: the project's usage all the same
        ("u1", "", "/dept/u1"),  # the one of the project is none of its
        ("u2", "", "/dept/u2"),
        ("u3", "", "/default"),
        ("u9", "", "/default"),
        ("u9", "elsewhere", None),  # Grid Engine gives such jobs no tickets
    ],
)
def test_a_job_counts_at_the_node_that_grid_engine_finds(
    tree: TreeColumns, rule: Rule, user: str, project: str, path: str | None
) -> None:
    assert paths(tree, rule, (user, project)) == [path]


def test_without_a_leaf_default_other_users_have_no_node(golden_dir: Path) -> None:
    tree = tree_of((golden_dir / "gridengine/samples/qconf-sstree.txt").read_bytes())
    (rule,) = default_rules(tree, "", maps_by="share_tree")
    assert paths(tree, rule, ("gea", ""), ("ged", ""), ("gee", "")) == ["/grp1/gea", "/grp2/ged", None]


def test_the_trees_of_the_field_map_alike(golden_dir: Path) -> None:
    for name in ("e01_stree.txt", "e02_backslash.txt"):
        tree = tree_of((golden_dir / "field" / name).read_bytes())
        (rule,) = default_rules(tree, "", maps_by="share_tree")
        jobs = ("u1", "P1"), ("u8", "P1"), ("u9", "")
        assert paths(tree, rule, *jobs) == ["/P1/u1", "/P1/default", "/default"]


def index_of(tree: TreeColumns, rule: Rule, keys: Sequence[AccountKey] = ()) -> LookupIndex:
    return LookupIndex(
        tree, AccountPlaces(AccountKeys.of(keys), Resolver((rule,), tree).resolve_many(keys), (rule,)), "d"
    )


def test_lookups_find_users_by_name_and_project(tree: TreeColumns, rule: Rule) -> None:
    index = index_of(tree, rule)

    def found(**asked: str) -> set[str]:
        return {tree.path(entry) for entry in index.find(AccountQuery(**asked)).entries}

    assert found(user="u1", project="P1") == {"/P1/u1"}
    assert found(user="u8", project="P1") == {"/P1/default"}
    assert found(user="u1") == {"/P1/u1", "/dept/u1"}
    assert found(user="u4") == {"/P1/team/u4"}
    assert found(user="u9") == {"/default"}
    assert found(user="u9", project="elsewhere") == set()
    entry = tree.index_of_path("/P1/team/u4")
    assert entry is not None
    assert index.identities(entry) == (AccountKey("sge", "u4", project="P1"),)
    assert "Send project too" in Hints(index, "p").unmapped("x", is_restricted=False)["hint"]
    known = index_of(tree, rule, [AccountKey("sge", "u8", "g1", project="P1")])
    assert {tree.path(entry) for entry in known.find("u8").entries} == {"/P1/default"}


def test_names_in_another_letter_case_are_likely_and_not_the_same(tree: TreeColumns, rule: Rule) -> None:
    resolver = Resolver((rule,), tree)

    def likely(user: str, project: str) -> str | None:
        entry = resolver.likely_entry(AccountKey("sge", user, project=project))
        return None if entry is None else tree.path(entry)

    assert [likely("U1", "P1"), likely("u1", "p1"), likely("U2", "")] == ["/P1/u1", "/P1/u1", "/dept/u2"]
    assert [likely("u1", "P1"), likely("u8", "P1"), likely("x", "y")] == [None, None, None]


def test_a_share_tree_has_no_path_below_its_entry(tree: TreeColumns, rule: Rule) -> None:
    assert problems_of(Resolver((rule,), tree), 0, ["sge"]) == []
    problem = rule_problems(Rule("share_tree", tree.uuid(0), suffix="/{user}"), "rule")[0]
    assert (problem.where, problem.message) == ("rule.suffix", "must be empty: the share tree decides the path")
