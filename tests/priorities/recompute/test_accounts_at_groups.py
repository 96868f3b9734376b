"""Accounts that count at an entry that has no members, or at a group: the Grid-wide paper's figure 1.

Its users of P-A1 have shares of their own; P-A2, VO-B and the local users are entries without any.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from apps.accounts.actor import COMMAND, Actor
from apps.pages.changes.review.reviewed_change import get_review_page
from apps.policies.changesets.checks import Check
from apps.policies.files.import_export import FileImport, import_policy
from apps.policies.records import NewChangeSet
from apps.policies.services import make_change_set, publish_change_set
from apps.policies.tree.stored import load_tree
from apps.priorities.serving import store
from apps.priorities.serving.leaf_lines import every_leaf
from tests.priority_site import AS_OF, NO_AGING, Site

FIGURE_1 = """path,kind,shares
/VO-A,vo,50
/VO-A/P-A1,project,25
/VO-A/P-A1/U1,user,50
/VO-A/P-A1/U2,user,50
/VO-A/P-A2,project,25
/VO-B,vo,25
/local,group,25
"""
GROUPS = {"": "/", "a1": "/VO-A/P-A1", "a2": "/VO-A/P-A2", "vo-b": "/VO-B", "local": "/local"}
ALGORITHMS: list[dict[str, Any]] = [
    {"name": "gridwide"},
    {"name": "aequus"},
    {"name": "aequus", "factor_from": "key"},
]


@pytest.fixture
def paper(make_site: Callable[..., Site]) -> Callable[[dict[str, Any]], Site]:
    def build(algorithm: dict[str, Any]) -> Site:
        site = make_site()
        site.publish([], {**NO_AGING, "algorithm": algorithm})
        import_policy(
            file=FileImport(policy_slug="grid", format="csv", content=FIGURE_1.encode(), keep_missing=False),
            publish=True,
            reason="figure 1",
            at=AS_OF,
            actor=COMMAND,
        )
        site.policy.refresh_from_db()
        site.map(
            *(
                site.rule(path, kind="group", group_pattern=group, suffix="/{user}")
                for group, path in GROUPS.items()
                if group
            )
        )
        for user, group, hours in (("U1", "a1", 30), ("U2", "a1", 5), ("eve", "a2", 5), ("ben", "vo-b", 40)):
            site.job(user, group, hours)
        return site

    return build


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=str)
def test_an_empty_entry_not_declared_as_a_group_competes_like_a_leaf(
    paper: Callable[[dict[str, Any]], Site], algorithm: dict[str, Any]
) -> None:
    site = paper(algorithm)
    site.recompute()
    got = store.newest("grid")
    lines = {line["entry"]: line for line in every_leaf(got)}
    assert set(lines) == {"/VO-A/P-A1/U1", "/VO-A/P-A1/U2", "/VO-A/P-A2", "/VO-B", "/local"}
    assert {line["of"] for line in lines.values()} == {5}
    ranks = {path: line["rank"] for path, line in lines.items()}
    assert (ranks["/local"], ranks["/VO-B"]) == (1, 5), "idle is first, over its share is last"
    assert sorted(ranks.values()) == [1, 2, 3, 4, 5]
    (eve,) = got.lookup(["eve"])
    assert (eve["entry"], eve["rank"], eve["factor"]) == (
        "/VO-A/P-A2",
        ranks["/VO-A/P-A2"],
        lines["/VO-A/P-A2"]["factor"],
    )
    assert lines["/local"]["identities"] == [{"group": "local"}], "any user of that group"


@pytest.mark.parametrize(
    "algorithm", [ALGORITHMS[0], *(pytest.param(each, marks=pytest.mark.deep) for each in ALGORITHMS[1:])], ids=str
)
@pytest.mark.parametrize("is_group", [False, True])
@pytest.mark.paper("4.13", "4.32")
def test_an_account_at_a_group_ranks_by_the_padded_vector_of_the_group(
    paper: Callable[[dict[str, Any]], Site], algorithm: dict[str, Any], is_group: bool
) -> None:
    site = paper(algorithm)
    tree = load_tree(site.policy)
    if is_group:
        uid = str(tree.uuid(tree.index_of_path("/VO-B") or 0))
        declared = {"op": "set_kind", "entry": uid, "kind": "vo", "is_group": True}
        made = make_change_set(
            policy_slug="grid", new=NewChangeSet(operations=[declared], reason="declared"), at=AS_OF, actor=COMMAND
        )
        publish_change_set(id=made.pk, version=1, reason="declared", at=AS_OF, actor=COMMAND)
    site.job("new", "a1", 2)  # counts at /VO-A/P-A1, which has members
    site.recompute()
    got = store.newest("grid")
    found = {one["account"]: one for one in got.lookup(["U1", "U2", "eve", "ben", "new"])}
    ben, new = found["ben"], found["new"]
    assert ben["entry"] == "/VO-B"
    assert ben["of"] == 5, "the ranked leaves, itself among them or counted with them"
    assert (new["entry"], new["of"]) == ("/VO-A/P-A1", 5 if is_group else 6)
    for one in found.values():
        assert 1 <= one["rank"] <= one["of"]
        ahead = [leaf for leaf in every_leaf(got) if leaf["entry"] not in ("/VO-A/P-A1", one["entry"])]
        ahead = [leaf for leaf in ahead if not (is_group and leaf["entry"] == "/VO-B") and _before(leaf, one)]
        assert one["rank"] == 1 + len({leaf["entry"] for leaf in ahead}), one
    assert ben["factor"] != 0.5 or algorithm.get("factor_from") == "key"
    assert 0 < ben["factor"] < found["eve"]["factor"]


def _before(leaf: dict[str, Any], one: dict[str, Any]) -> bool:
    """By their tuples, padded with what is on target."""
    if one["vector"] is not None:
        pad = [5000] * 3
        return [*leaf["vector"], *pad][:3] > [*one["vector"], *pad][:3]
    return [*leaf["priorities"], 0.0, 0.0, 0.0][:3] > [*one["priorities"], 0.0, 0.0, 0.0][:3]


def test_a_declared_group_has_no_rank(make_site: Callable[..., Site]) -> None:
    site = make_site()
    site.publish(
        [
            {"name": "declared", "kind": "group", "shares": 1, "children": []},
            {"name": "leaf", "kind": "project", "shares": 1},
        ]
    )
    site.recompute()
    values, tree = store.newest("grid").values, store.newest("grid").tree
    ranked = {tree.name[i] for i in range(len(tree)) if values.is_ranked[i]}
    assert ranked == {"leaf"}
    assert not values.has_rank[tree.index_of_path("/declared")]


def test_a_review_counts_accounts_mapped_to_groups(paper: Callable[[dict[str, Any]], Site], as_eva: Actor) -> None:
    site = paper({"name": "gridwide"})
    site.job("new", "a1", 2)
    site.recompute()

    def check(*operations: dict[str, Any]) -> Check:
        made = make_change_set(
            policy_slug="grid", new=NewChangeSet(operations=operations, reason="x"), at=AS_OF, actor=COMMAND
        )
        (found,) = [one for one in get_review_page(id=made.pk, actor=as_eva, at=AS_OF).checks if one.code == "groups"]
        return found

    as_before = check({"op": "set_shares", "entry": "/local", "shares": 30})
    assert (as_before.state, as_before.text.split(".")[0]) == ("ok", "/VO-A/P-A1 (1)")
    more = check({"op": "add", "parent": "/VO-B", "name": "P-B1", "kind": "project"})
    assert (more.state, more.title) == ("warn", "2 accounts are mapped to groups")
    assert "/VO-B (1)" in more.text
    none = check({"op": "add", "parent": "/VO-A/P-A1", "name": "new", "kind": "user"})
    assert (none.state, none.title) == ("ok", "No account is mapped to a group"), "the rules are asked in the new tree"
