"""Two sites with one policy: each compares local scopes by local usage, and global scopes by global usage.

The numbers are those of the Grid-wide paper's rule, through records, ingest, buckets, mapping and recompute.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from apps.accounts.actor import COMMAND
from apps.mapping.rules.rule import Rule
from apps.policies.tree.stored import load_tree
from apps.priorities.serving import store
from apps.usage.models import Record, Source
from apps.usage.parsers.base import RecordRow
from apps.usage.records.ingest import ingest_batch
from apps.usage.services import NewSource, make_source
from apps.usage.sources.open_listings import ingest_listing
from tests.priority_site import AS_OF, NO_AGING, Site

GRIDWIDE = {"algorithm": {"name": "gridwide"}, **NO_AGING}
OTHER = {"R1": "R2", "R2": "R1"}


@pytest.fixture
def paper(golden_dir: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((golden_dir / "gridwide" / "gridwide.json").read_text())["scope"]
    return found


@pytest.fixture
def grid(make_site: Callable[..., Site], paper: dict[str, Any]) -> Callable[..., Site]:
    """The policy of the paper at one of its sites: usage of both, each from a source of its own."""

    def build(here: str, *, scope_below: str | None = "global", **settings: Any) -> Site:
        site = make_site(slug="grid", site=here)
        there = make_source(
            NewSource(slug="peer", name="peer", namespace="c1", origin=OTHER[here]), at=AS_OF, actor=COMMAND
        )
        site.publish(_children(paper["policy_shares"], "", scope_below), {**GRIDWIDE, **settings})
        site.map(site.rule("/", suffix="/{group}/{user}"), *_user_rules(site))
        for name, source in ((here, site.source), (OTHER[here], there)):
            for user, hours in paper["usage_by_resource"][name].items():
                _job(source, user, float(hours))
        return site

    return build


def _children(shares: dict[str, dict[str, float]], name: str, scope: str | None) -> list[dict[str, Any]]:
    found = []
    for child, n in shares.get(name, {}).items():
        entry: dict[str, Any] = {"name": child, "shares": n}
        if child in shares:
            entry["children"] = _children(shares, child, None)
            entry |= {"scope": scope} if scope else {}
        found.append(entry)
    return found


def _user_rules(site: Site) -> list[Rule]:
    """One rule for each entry with accounts of its own."""
    tree = load_tree(site.policy)
    leaves = [i for i in range(1, len(tree)) if tree.n_children[i] == 0]
    return [Rule(kind="exact", target_uid=tree.uuid(i), user_pattern=tree.name[i], suffix="") for i in leaves]


def _job(source: Source, user: str, hours: float) -> None:
    if not hours:
        return
    end_at = AS_OF - timedelta(hours=1)
    row = RecordRow(
        job=f"{source.slug}-{user}",
        user=user,
        group="",
        state="finished",
        submit_at=end_at - timedelta(hours=1),
        start_at=end_at - timedelta(hours=1),
        end_at=end_at,
        cpus=hours,
    )
    ingest_batch(source=source, rows=[row], at=AS_OF)


def _deviations(site: Site, leaf: str) -> list[float]:
    """Target − actual in points at each level from the top to a leaf, as the newest snapshot has them."""
    snapshot = store.newest(site.slug)
    tree = snapshot.tree
    at = next(i for i in range(len(tree)) if tree.name[i] == leaf)
    return [float(snapshot.values.priority[i]) for i in (*tree.ancestors(at)[1:], at)]


@pytest.mark.django_db
@pytest.mark.parametrize("here", ["R1", "R2"])
@pytest.mark.parametrize(("scope", "numbers"), [("global", "deviations"), (None, "deviations_all_local")])
@pytest.mark.paper("4.8", "4.9", "4.10", "4.11", "4.33")
def test_each_site_gets_the_papers_numbers_by_local_and_global_usage(
    grid: Callable[..., Site], paper: dict[str, Any], here: str, scope: str | None, numbers: str
) -> None:
    site = grid(here, scope_below=scope)
    site.recompute()
    for leaf, wanted in paper[numbers][here].items():
        assert _deviations(site, leaf) == pytest.approx(wanted, abs=1e-8), leaf


@pytest.mark.django_db
@pytest.mark.parametrize("here", ["R1", "R2"])
def test_the_order_is_the_papers(grid: Callable[..., Site], paper: dict[str, Any], here: str) -> None:
    site = grid(here)
    site.recompute()
    values, tree = store.newest(site.slug).values, store.newest(site.slug).tree
    ranked = sorted((int(values.rank[i]), tree.name[i]) for i in range(len(tree)) if values.is_ranked[i])
    assert [name for _rank, name in ranked] == paper["order_best_first"][here]


@pytest.mark.django_db
@pytest.mark.paper("4.17")
def test_a_list_of_sources_restricts_a_scope(grid: Callable[..., Site], paper: dict[str, Any]) -> None:
    site = grid("R1")
    document = _children(paper["policy_shares"], "", "global")
    for vo in document:
        vo["sources"] = ["peer"]  # the other site's usage alone
    site.publish(document, GRIDWIDE)
    site.map(*_user_rules(site))
    site.recompute()
    below = {leaf: numbers[1:] for leaf, numbers in paper["deviations_all_local"]["R2"].items()}
    for leaf, wanted in below.items():
        assert _deviations(site, leaf)[1:] == pytest.approx(wanted, abs=1e-8), leaf


@pytest.mark.django_db
def test_scopes_can_have_different_approaches_in_one_recompute(grid: Callable[..., Site]) -> None:
    """VOs by finished jobs of this site; projects by global usage, with what running ones may still use."""
    site = grid("R1", approach={"local": "historical", "global": "predictive"})
    running = RecordRow(
        job="long",
        user="P-A3",
        group="",
        state="running",
        submit_at=AS_OF - timedelta(hours=1),
        start_at=AS_OF - timedelta(hours=1),
        end_at=None,
        cpus=10,
        requested_s=5 * 3600.0,
    )
    ingest_batch(source=site.source, rows=[running], at=AS_OF)
    site.recompute()
    values, tree = store.newest(site.slug).values, store.newest(site.slug).tree
    usage = {tree.name[i]: float(values.usage[i]) / 3600 for i in range(len(tree))}
    assert usage["P-A3"] == 50  # 1 h elapsed and 4 h to come on 10 cores
    assert usage["VO-A"] == 40  # compared by finished jobs of this site
    assert _deviations(site, "P-A3") == pytest.approx([-10, 20 - 50], abs=1e-8)


@pytest.mark.django_db
@pytest.mark.fault("F12")
def test_a_running_job_is_refreshed_and_counts_as_finished_after_it_vanished(
    make_site: Callable[..., Site],
) -> None:
    site = make_site()
    site.publish(
        [{"name": name, "shares": 1} for name in ("alice", "bob")],
        {**NO_AGING, "approach": {"local": "predictive", "global": "predictive"}},
    )
    site.map(*_user_rules(site))

    def listed(at_h: float, **more: Any) -> None:
        at = AS_OF - timedelta(hours=at_h)
        row = RecordRow(
            **{
                "job": "1",
                "user": "alice",
                "group": "",
                "state": "running",
                "submit_at": AS_OF - timedelta(hours=4),
                "start_at": AS_OF - timedelta(hours=4),
                "end_at": None,
                "cpus": 2,
                "requested_s": 6 * 3600.0,
                **more,
            }
        )
        ingest_listing(site.source, [row] if more.get("job") != "gone" else [], at)

    def core_hours() -> float:
        snapshot = store.newest(site.slug)
        at = snapshot.tree.index_of_path("/alice")
        assert at is not None
        return float(snapshot.values.usage[at]) / 3600

    listed(3)
    site.recompute()
    assert core_hours() == 12  # 4 h elapsed at the instant and 2 h to come, on 2 cores
    listed(2, cpus=3, revision=1)  # it was given a core, and says so in a later version
    site.recompute()
    assert core_hours() == 18
    listed(0.5, job="gone")
    closed = Record.objects.get()
    assert (closed.state, closed.note, closed.end_at) == ("finished", "vanished", AS_OF - timedelta(hours=2))
    site.recompute()
    assert core_hours() == 6  # 2 h on 3 cores, until it was last seen


@pytest.mark.django_db
def test_waiting_jobs_are_demand_and_never_usage(make_site: Callable[..., Site]) -> None:
    site = make_site()
    site.publish(
        [{"name": "physics", "children": [{"name": "alice", "shares": 1}, {"name": "bob", "shares": 1}]}],
        {**NO_AGING, "approach": {"local": "predictive", "global": "predictive"}},
    )
    site.map(*_user_rules(site))
    rows = [
        RecordRow(
            job=job,
            user="alice",
            group="",
            state="pending",
            submit_at=AS_OF,
            start_at=None,
            end_at=None,
            cpus=4,
            requested_s=requested,
        )
        for job, requested in (("1", 7_200.0), ("2", 3_600.0), ("3", None))
    ]
    ingest_batch(source=site.source, rows=rows, at=AS_OF)
    site.recompute()
    values, tree = store.newest(site.slug).values, store.newest(site.slug).tree
    found = {tree.name[i]: (bool(values.has_demand[i]), float(values.demand_core_s[i])) for i in range(1, len(tree))}
    assert found == {"physics": (True, 43_200), "alice": (True, 43_200), "bob": (False, 0)}
    assert not values.usage.any()


@pytest.mark.django_db
@pytest.mark.paper("4.20")
def test_two_policies_count_the_same_records_by_cores_and_by_gpus(make_site: Callable[..., Site]) -> None:
    """Also a reservation, which is charged and no job; and sites of different speed."""
    by_core, by_gpu = make_site("cores", site="fast"), make_site("gpus")
    users = [{"name": name, "shares": 1} for name in ("alice", "bob")]
    rules = {"class_factors": [{"queue": "test", "factor": 0}], "site_factors": [{"site": "fast", "factor": 1.5}]}
    by_core.publish(users, {**NO_AGING, "metric": {"weights": {"cpu_s": 1}, **rules}})
    by_gpu.publish(users, {**NO_AGING, "metric": {"weights": {"gpu_s": 1}}})
    for site in (by_core, by_gpu):
        site.map(*_user_rules(site))
    end_at = AS_OF - timedelta(hours=1)
    more: list[dict[str, Any]] = [
        {"user": "alice", "cpus": 10, "gpus": 1},
        {"user": "bob", "cpus": 2, "gpus": 4},
        {"user": "bob", "cpus": 100, "gpus": 1, "queue": "test"},
        {"user": "bob", "cpus": 4, "gpus": 0, "is_charge": True},
        {"user": "alice", "cpus": 1, "gpus": 0, "site": "slow"},
    ]
    rows = [
        RecordRow(
            **{
                "job": str(number),
                "group": "",
                "state": "finished",
                "submit_at": end_at - timedelta(hours=1),
                "start_at": end_at - timedelta(hours=1),
                "end_at": end_at,
                **each,
            }
        )
        for number, each in enumerate(more)
    ]
    ingest_batch(source=by_core.source, rows=rows, at=AS_OF)
    found = {}
    for site in (by_core, by_gpu):
        site.recompute()
        snapshot = store.newest(site.slug)
        for path in ("/alice", "/bob"):
            at = snapshot.tree.index_of_path(path)
            assert at is not None
            found[site.slug + path] = float(snapshot.values.usage[at]) / 3600
    assert found == {"cores/alice": 16, "cores/bob": 9, "gpus/alice": 1, "gpus/bob": 5}
