"""Whatever algorithm a policy has: answers, new users, explanations and previews agree with a recompute."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4
from zipfile import ZipFile

import numpy as np
import pytest

from apps.accounts.actor import COMMAND, Actor
from apps.core.errors import Invalid
from apps.engine.algorithms import algorithms_of_packages, all_algorithms, read_algorithm
from apps.explain.account_path import explain
from apps.policies.records import NewChangeSet
from apps.policies.services import change_settings, change_shares, make_change_set
from apps.policies.settings import PolicySettings
from apps.policies.tree.stored import load_tree
from apps.priorities.change_effects import simulate_change_set
from apps.priorities.recompute.totals import simulate_totals_or_none
from apps.priorities.serving import new_users, store
from apps.priorities.serving.leaf_lines import every_leaf
from apps.priorities.serving.served_snapshot import AccountQuery, ServedSnapshot
from apps.priorities.shares_preview import preview_shares
from apps.usage.services import NewSource, make_source
from tests.example_package.wheel import build_wheel
from tests.priority_site import AS_OF, Site

NO_AGING = {"window": {"length_s": None, "aging": "none"}}
ALGORITHMS: list[dict[str, Any]] = [
    *({"name": name} for name in sorted(all_algorithms())),
    {"name": "aequus", "operator": "absolute", "factor_from": "key"},
    {"name": "slurm-fair-tree", "ties": "as-documented"},
    {"name": "slurm-classic", "damping_factor": 3},
]
IDS = ["-".join(map(str, one.values())) for one in ALGORITHMS]
QUICK = ("aequus", "flux", "slurm-fair-tree")  # of those that walk, count levels and compare vectors, one each
EACH = [
    pytest.param(one, id=name, marks=() if name in QUICK else pytest.mark.deep)
    for one, name in zip(ALGORITHMS, IDS, strict=True)
]
USED = [("alice", "physics", 40), ("bob", "physics", 15), ("carol", "biology", 45), ("dan", "biology", 0.5)]


def tree(**more: Any) -> list[dict[str, Any]]:
    """Users below two projects, one of them a level deeper, and one entry that is no user."""

    def user(name: str, shares: Any = 1) -> dict[str, Any]:
        return {"name": name, "kind": "user", "shares": shares}

    return [
        {"name": "physics", "shares": 60, "children": [user("alice"), user("bob"), user("eve", 2)]},
        {
            "name": "biology",
            "shares": 40,
            "scope": more.get("scope", ""),
            "children": [{"name": "lab", "shares": 3, "children": [user("carol", 3)]}, user("dan")],
        },
        {"name": "robots", "kind": "service", "shares": 5},
    ]


@pytest.fixture
def make(make_site: Callable[..., Site]) -> Callable[..., Site]:
    def made(algorithm: dict[str, Any], **more: Any) -> Site:
        site = make_site()
        site.publish(tree(**more), {**NO_AGING, "algorithm": algorithm})
        each = site.rule("/physics", kind="each", group_pattern="physics", suffix="")
        site.map(each, site.rule("/biology/lab", kind="exact", user_pattern="carol", suffix="/carol"), site.rule())
        for user, group, hours in USED:
            site.job(user, group, hours)
        site.recompute()
        return site

    return made


def served_now() -> ServedSnapshot:
    return store.newest("grid")


@pytest.mark.parametrize("algorithm", EACH)
def test_every_answer_is_json_and_keys_sort_like_ranks(make: Callable[..., Site], algorithm: dict[str, Any]) -> None:
    make(algorithm)
    snapshot = served_now()
    lines = [line for line in every_leaf(snapshot) if line["rank"] is not None]
    text = json.dumps(list(every_leaf(snapshot)), allow_nan=False)
    assert (
        snapshot.lookup_json(["alice"])
        == json.dumps(snapshot.lookup(["alice"]), separators=(",", ":"), ensure_ascii=False).encode()
    )
    assert len(lines) >= 5
    assert "NaN" not in text
    for one in lines:
        for other in lines:
            assert (one["key"] > other["key"]) == (one["rank"] < other["rank"])
            assert one["rank"] >= other["rank"] or one["factor"] >= other["factor"]
    assert {len(line["key"]) for line in lines} == {len(lines[0]["key"])}


@pytest.mark.parametrize("algorithm", EACH)
def test_a_new_user_has_the_rank_and_factor_of_a_member_who_joins(
    make: Callable[..., Site], algorithm: dict[str, Any]
) -> None:
    site = make(algorithm)
    new = served_now().lookup([AccountQuery("zoe", "physics")])[0]
    eve = served_now().lookup(["eve"])[0]  # idle as well, and as near to the front
    assert (new["provisional"], new["entry"]) == (True, "/physics")
    children = tree()
    children[0]["children"].append({"name": "zoe", "kind": "user", "shares": 1})
    site.publish(children, {**NO_AGING, "algorithm": algorithm})
    site.recompute()
    real = served_now().lookup([AccountQuery("zoe", "physics")])[0]
    assert real["entry"] == "/physics/zoe"
    assert (new["rank"], new["of"]) == (real["rank"], real["of"])
    assert new["factor"] == pytest.approx(real["factor"], rel=1e-3)
    assert new["priorities"] == pytest.approx(real["priorities"], rel=1e-9)
    if algorithm["name"] != "gridwide":
        assert (new["key"] >= eve["key"]) == (new["rank"] <= eve["rank"])


ASSOCIATION = {"kind": "association", "suffix": ""}
LEADS_TO_GROUPS: dict[str, list[dict[str, Any]]] = {
    "default": [ASSOCIATION, {"path": "/physics", "kind": "default", "suffix": ""}],
    "glob": [{"user_pattern": "z*"}, ASSOCIATION],
    "exact": [{"path": "/physics", "kind": "exact", "user_pattern": "zoe", "suffix": ""}, ASSOCIATION],
    "association": [ASSOCIATION],
}


@pytest.mark.parametrize("algorithm", EACH)
def test_an_account_without_an_entry_in_its_group_has_the_place_of_a_member_without_usage(
    make_site: Callable[..., Site], algorithm: dict[str, Any]
) -> None:
    site = make_site()
    children = tree()
    children.append({"name": "closed", "shares": 0, "children": [{"name": "fay", "kind": "user", "shares": 1}]})
    settings = {**NO_AGING, "algorithm": algorithm}
    site.publish(children, settings)
    for user, group, hours in USED:
        site.job(user, group, hours)

    def zoe(group: str) -> dict[str, Any]:
        return served_now().lookup([AccountQuery("zoe", group)])[0]

    def numbers(row: dict[str, Any]) -> tuple[Any, ...]:
        return row["rank"], row["of"], pytest.approx(row["factor"], rel=1e-3)

    answers = {}
    for kind, rules in LEADS_TO_GROUPS.items():
        site.map(*(site.rule(**rule) for rule in rules))
        site.recompute()
        answers[kind] = zoe("nowhere" if kind == "default" else "physics")
        assert (answers[kind]["entry"], answers[kind].get("error")) == ("/physics", "no_own_entry"), kind
        assert numbers(answers[kind]) == numbers(answers["default"]), kind
    answers["closed"] = zoe("closed")
    for group, kind in (("physics", "association"), ("closed", "closed")):
        more = json.loads(json.dumps(children))
        (there,) = [each for each in more if each["name"] == group]
        there["children"].append({"name": "zoe", "kind": "user", "shares": 1})
        site.publish(more, settings)
        site.recompute()
        assert (zoe(group)["entry"], zoe(group).get("error")) == (f"/{group}/zoe", None)
        assert numbers(answers[kind]) == numbers(zoe(group))


def test_where_groups_have_a_vector_an_account_of_a_group_is_placed(make_site: Callable[..., Site]) -> None:
    """Sites that map users to groups on purpose have no user unmapped, and no agent frozen for it."""
    site = make_site()
    site.publish(tree(), NO_AGING)
    for user, group, hours in USED:
        site.job(user, group, hours)
    site.map(site.rule(path="/physics", kind="default", suffix=""))
    site.recompute()
    answer = served_now().lookup([AccountQuery("zoe", "nowhere")])[0]
    assert (answer["entry"], answer.get("error")) == ("/physics", None)
    assert answer["priorities"] == served_now().lookup([AccountQuery("yan", "nowhere")])[0]["priorities"]


def test_in_a_large_tree_a_new_user_is_computed_in_the_background(
    make: Callable[..., Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(new_users, "MOST_ENTRIES_IN_REQUEST", 0)
    make({"name": "slurm-fair-tree"})
    snapshot, zoe = served_now(), AccountQuery("zoe", "physics")
    working = new_users.NewUsers._compute
    monkeypatch.setattr(new_users.NewUsers, "_compute_waiting", lambda self: None)  # no job runs yet
    first = json.loads(snapshot.lookup_json([zoe]))[0]
    assert (first["rank"], first["factor"], first["key"], first["provisional"]) == (None, 0.5, None, True)
    assert snapshot.lookup_columns([zoe]) == (["zoe"], [0.5], [None])
    monkeypatch.undo()
    monkeypatch.setattr(new_users, "MOST_ENTRIES_IN_REQUEST", 0)
    snapshot.lookup([zoe])
    snapshot.new_users.wait()
    later = json.loads(snapshot.lookup_json([zoe]))[0]
    assert later["rank"] == 1
    assert snapshot.lookup_columns([zoe]) == (["zoe"], [later["factor"]], [1])
    assert working is new_users.NewUsers._compute


@pytest.mark.parametrize("name", ["slurm-fair-tree", "slurm-classic", "slurm-depth-oblivious"])
def test_an_unknown_user_gets_the_fallback_factor_with_a_reason(make: Callable[..., Site], name: str) -> None:
    site = make({"name": name})
    robots = [one for one in every_leaf(served_now()) if one["entry"] == "/robots"]
    assert robots == []
    site.map(site.rule("/robots", kind="exact", user_pattern="r2d2", suffix=""), site.rule())
    site.job("r2d2", "c", 1)
    site.recompute()
    found = explain(policy_slug="grid", account="r2d2", actor=COMMAND)["results"][0]
    assert found["rank"] is None
    why = found["sentences"][-1] if name != "slurm-fair-tree" else found["sentences"][-2]
    assert why["key"] == "unranked.not_user"
    assert why["values"] == {"algorithm": name, "name": "robots", "kind": "service"}
    assert why["text"] in found["sentence"]
    if name == "slurm-fair-tree":
        assert found["factor"] == 0.5
        assert found["sentences"][-1]["key"] == "unranked.fallback"
        assert found["sentence"].endswith(found["sentences"][-1]["text"])


@pytest.mark.parametrize("algorithm", EACH)
def test_the_path_names_the_deciding_level_with_numbers_of_the_algorithm(
    make: Callable[..., Site], algorithm: dict[str, Any]
) -> None:
    make(algorithm)
    found = explain(policy_slug="grid", account="alice", actor=COMMAND)["results"][0]
    json.dumps(found, allow_nan=False)
    assert found["deciding"] in ("/physics", "/physics/alice")
    own = set(served_now().values.columns)
    assert all(set(step["columns"]) == own for step in found["steps"])
    last = found["steps"][-1]
    assert (last["n_ahead"], last["n_siblings"]) == (2, 2), "bob and eve used less of as much or more"
    idle = explain(policy_slug="grid", account="eve", actor=COMMAND)["results"][0]["steps"][-1]
    assert idle["n_ahead"] == 0
    if algorithm["name"] == "slurm-fair-tree":
        assert idle["columns"]["level_fs"] == "Infinity"


@pytest.mark.parametrize("scope", ["", "global"])
@pytest.mark.parametrize("algorithm", EACH)
def test_totals_of_a_snapshot_reproduce_its_priorities_bit_for_bit(
    make: Callable[..., Site], algorithm: dict[str, Any], scope: str
) -> None:
    site = make(algorithm, scope=scope)
    if scope:  # what ran elsewhere counts below biology alone
        elsewhere = make_source(
            NewSource(slug="far", name="far", namespace="c1", origin="far"), at=AS_OF, actor=COMMAND
        )
        site.job("dan", "biology", 7, source=elsewhere)
        site.job("bob", "physics", 7, source=elsewhere)
        site.recompute()
    snapshot = served_now()
    assert np.array_equal(snapshot.values.usage, snapshot.values.group_usage) == (scope == "")
    result = simulate_totals_or_none(snapshot.totals, snapshot.tree, algorithm=snapshot.algorithm)
    assert result is not None
    for name in ("target", "actual", "priority", "rank", "factor"):
        assert np.array_equal(getattr(result, name), getattr(snapshot.values, name)), name
    for name, column in result.columns.items():
        assert np.array_equal(column.values, snapshot.values.columns[name].values), name


@pytest.mark.parametrize("algorithm", EACH)
def test_a_preview_of_shares_equals_the_later_recompute(
    make: Callable[..., Site], as_eva: Actor, algorithm: dict[str, Any]
) -> None:
    site = make(algorithm)
    uid = load_tree(site.policy).uuid(load_tree(site.policy).index_of_path("/physics/alice") or 0)
    preview = preview_shares(policy_slug="grid", entry_uid=uid, shares=9, actor=as_eva)
    change_shares(policy_slug="grid", entry_uid=uid, shares=9, reason="more", at=AS_OF, actor=COMMAND)
    site.recompute()
    snapshot = served_now()
    for row in preview.rows:
        at = snapshot.tree.index_of_uid(row.uid)
        assert at is not None
        assert row.moves is not None
        assert row.before.rank is not None
        assert row.before.rank - row.moves.furthest == int(snapshot.values.rank[at])


@pytest.mark.parametrize("algorithm", EACH[1:])
def test_a_draft_of_settings_lists_rank_changes(
    make: Callable[..., Site], as_eva: Actor, algorithm: dict[str, Any]
) -> None:
    site = make({"name": "aequus", "operator": "relative", "factor_from": "key"})
    before = {line["entry"]: line["rank"] for line in every_leaf(served_now())}
    operation = {"op": "set_policy", "settings": {"algorithm": algorithm}}
    draft = make_change_set(
        policy_slug="grid", new=NewChangeSet(operations=[operation], reason="try"), at=AS_OF, actor=COMMAND
    )
    moves = simulate_change_set(draft, actor=as_eva)
    change_settings(policy_slug="grid", settings={"algorithm": algorithm}, reason="do", at=AS_OF, actor=COMMAND)
    site.recompute()
    after = {line["entry"]: line for line in every_leaf(served_now())}
    assert moves is not None
    for move in moves:
        line = after.get(move["path"])
        assert move["rank_after"] == (line["rank"] if line else None)
        assert move["rank_before"] == before[move["path"]]
    unmoved = before.keys() - {move["path"] for move in moves}
    assert all(after[path]["rank"] == before[path] for path in unmoved)


def test_moved_entries_keep_their_usage(make: Callable[..., Site]) -> None:
    site = make({"name": "aequus"})
    snapshot = served_now()
    before = load_tree(site.policy)
    nodes = tree()
    carol = nodes[1]["children"][0]["children"].pop()
    nodes[0]["children"] = [*nodes[0]["children"][1:], carol]  # alice leaves, carol joins physics
    nodes.append({"name": "new", "shares": 1, "children": [{"name": "zoe", "kind": "user", "shares": 1}]})
    for node in nodes:
        _with_uids(node, before, "/" + node["name"], {"/physics/carol": "/biology/lab/carol"})
    site.publish(nodes, {**NO_AGING})
    after = load_tree(site.policy)
    totals = snapshot.totals.carried_to(after)
    hours = {
        path: totals.usage[after.index_of_path(path) or 0] / 3600
        for path in ("/physics", "/biology", "/biology/lab", "/new", "/")
    }
    assert hours == {"/physics": 60.0, "/biology": 0.5, "/biology/lab": 0.0, "/new": 0.0, "/": 60.5}
    assert np.array_equal(totals.usage, totals.group_usage)


def _with_uids(node: dict[str, Any], before: Any, path: str, moved: dict[str, str]) -> None:
    at = before.index_of_path(moved.get(path, path))
    node["uid"] = str(before.uuid(at) if at is not None else uuid4())
    for child in node.get("children", []):
        _with_uids(child, before, f"{path}/{child['name']}", moved)


def test_flux_refuses_inherited_shares_and_names_the_entry(make: Callable[..., Site], as_eva: Actor) -> None:
    site = make({"name": "flux"})
    uid = load_tree(site.policy).uuid(load_tree(site.policy).index_of_path("/physics/bob") or 0)
    changed: dict[str, Any] = {"policy_slug": "grid", "entry_uid": uid, "shares": "parent"}
    flux = {"algorithm": {"name": "flux"}}
    for attempt, where in (
        (lambda: change_shares(**changed, reason="x", at=AS_OF, actor=COMMAND), "/physics/bob"),
        (lambda: preview_shares(**changed, actor=as_eva), "/physics/bob"),
        (lambda: site.publish([{"name": "solo", "shares": "parent", "children": []}], flux), "/solo"),
    ):
        with pytest.raises(Invalid) as refused:
            attempt()
        assert (refused.value.code, refused.value.fields[0].where) == ("no_inherit", where)
    change_settings(policy_slug="grid", settings={"algorithm": {"name": "aequus"}}, reason="x", at=AS_OF, actor=COMMAND)
    change_shares(policy_slug="grid", entry_uid=uid, shares="parent", reason="x", at=AS_OF, actor=COMMAND)
    with pytest.raises(Invalid, match=r"/physics/bob\b.*\bflux\b") as refused:
        change_settings(
            policy_slug="grid", settings={"algorithm": {"name": "flux"}}, reason="x", at=AS_OF, actor=COMMAND
        )
    assert refused.value.code == "no_inherit"


@pytest.fixture
def example_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """The example package as if it were installed; call it to have it uninstalled again."""
    with ZipFile(build_wheel(tmp_path)) as wheel:
        wheel.extractall(tmp_path / "installed")
    before = list(sys.path)
    sys.path.insert(0, str(tmp_path / "installed"))
    algorithms_of_packages.cache_clear()

    def uninstall() -> None:
        sys.path[:] = before
        sys.modules.pop("fairshare_example", None)
        algorithms_of_packages.cache_clear()

    yield uninstall
    uninstall()


def test_a_packaged_algorithm_is_served_even_after_its_package_is_removed(
    example_package: Callable[[], None], make: Callable[..., Site]
) -> None:
    site = make({"name": "aequus"})
    site.publish(
        [entry for entry in tree() if entry["name"] != "robots"],
        {**NO_AGING, "algorithm": {"name": "least-used", "unit": 60}},
    )
    site.recompute()
    found = explain(policy_slug="grid", account="alice", actor=COMMAND)["results"][0]
    assert (found["rank"], found["of"]) == (5, 5)
    assert found["steps"][-1]["columns"]["used_per_share"] == pytest.approx(40 * 3600 / (0.6 / 4))
    new = served_now().lookup([AccountQuery("zoe", "physics")])[0]
    assert (new["rank"], new["of"], new["provisional"]) == (1, 6, True)
    before = served_now().lookup(["alice"])[0]
    example_package()
    store.forget()
    assert served_now().lookup(["alice"])[0] == before
    assert PolicySettings.from_stored({"algorithm": {"name": "least-used", "unit": 60}}).algorithm["unit"] == 60
    change_settings(policy_slug="grid", settings={"algorithm": {"name": "flux"}}, reason="x", at=AS_OF, actor=COMMAND)
    site.recompute()
    assert served_now().algorithm == read_algorithm("flux")
