"""The part of a tree that is simulated: leaving out entries without jobs changes no start and no target."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from apps.contrib.lab.simulated_tree import REST, SimulatedTree, simulated_part
from apps.contrib.lab.simulation.run import run_jobs
from apps.contrib.lab.simulation.scenario import PastUsage, Scenario, read_scenario
from apps.contrib.lab.simulation.workload import draw
from apps.engine.algorithms.inputs import prepare
from tests.examples import first

N_GROUPS, N_USERS = 6, 40


def whole_tree(seed: int, *, is_whole: bool, inherits: bool = False) -> SimulatedTree:
    """Groups of users with random shares; some groups inherit theirs."""
    random = np.random.default_rng(seed)
    n = 1 + N_GROUPS + N_USERS
    parent = np.concatenate([[-1], np.zeros(N_GROUPS), 1 + np.sort(random.integers(0, N_GROUPS, N_USERS))])
    is_group = np.arange(n) <= N_GROUPS
    inheriting = np.zeros(n, dtype=np.bool_)
    if inherits:
        inheriting[[2, 1 + N_GROUPS + 3, 1 + N_GROUPS + 30]] = True
    shares = random.integers(1, 50, n).astype(np.float64) if is_whole else random.random(n)
    uid = np.zeros((n, 16), dtype=np.uint8)
    uid[:, 15] = np.arange(n)
    nothing = np.zeros(n, dtype=np.bool_)
    return SimulatedTree(
        uid=uid,
        parent=parent.astype(np.int64),
        name=["", *(f"g{i}" for i in range(N_GROUPS)), *(f"u{i}" for i in range(N_USERS))],
        shares=np.where(inheriting, 0.0, shares),
        inherits=inheriting,
        is_group=is_group,
        is_reserve=nothing,
        is_user=~is_group,
        is_global=np.arange(n) % 2 == 0,
        is_rest=nothing,
    )


def scenario(tree: SimulatedTree, algorithm: dict[str, Any], entries: Any, past: PastUsage | None) -> Scenario:
    case = {
        "hours": 18,
        "sites": [{"name": "R1", "cpus": 5}, {"name": "R2", "cpus": 4}],
        "policy": {"name": "r", "children": [{"name": "a", "shares": 1}]},
        "algorithm": algorithm,
        "usage": {"local": "active", "global": "active", "window": {"aging": "exponential", "half_life_s": 40_000}},
        "workload": [{"entry": "/a", "poisson_s": 900, "run_h": [0.5, 1.5]}] * len(entries),
    }
    read = read_scenario(case, seed=5, traces={})
    streams = tuple(replace(stream, entry=int(entry)) for stream, entry in zip(read.streams, entries, strict=True))
    return replace(read, policy=tree.policy, scope_is_global=tree.is_global, streams=streams, past=past)


def starts(tree: SimulatedTree, algorithm: dict[str, Any], entries: Any, past: PastUsage | None = None) -> Any:
    """When each job starts, in the order of arrival."""
    read = scenario(tree, algorithm, entries, past)
    workload = draw(read)
    started = run_jobs(read, workload).started_s
    return started[np.argsort(workload.jobs.order)]


def part_of(tree: SimulatedTree, active: Any, used: Any) -> Any:
    takes_part, has_usage = (np.zeros(len(tree), dtype=np.bool_) for _ in range(2))
    takes_part[active] = True
    has_usage[used] = True
    return simulated_part(tree, takes_part, has_usage)


ACTIVE = 1 + N_GROUPS + np.array([0, 1, 5, 9, 20, 21, 33])
ALGORITHMS = ["aequus", "gridwide", "slurm-fair-tree", "slurm-classic", "slurm-depth-oblivious", "flux"]


@pytest.mark.parametrize("algorithm", first(1, ALGORITHMS))
@pytest.mark.parametrize("is_whole", [True, False], ids=["whole shares", "any shares"])
def test_entries_without_jobs_change_no_start(algorithm: str, is_whole: bool) -> None:
    tree = whole_tree(1, is_whole=is_whole)
    part, place, _ = part_of(tree, ACTIVE, [])
    assert len(part) < len(tree) / 2
    settings = {"name": algorithm}
    np.testing.assert_array_equal(starts(part, settings, place[ACTIVE]), starts(tree, settings, ACTIVE))


@pytest.mark.parametrize("algorithm", ["aequus", "gridwide"])
def test_entries_that_inherit_are_left_out_as_well(algorithm: str) -> None:
    tree = whole_tree(2, is_whole=True, inherits=True)
    part, place, _ = part_of(tree, ACTIVE, [])
    settings = {"name": algorithm}
    np.testing.assert_array_equal(starts(part, settings, place[ACTIVE]), starts(tree, settings, ACTIVE))


def test_targets_stay_what_they_are_in_the_whole_tree() -> None:
    tree = whole_tree(3, is_whole=True, inherits=True)
    part, place, _ = part_of(tree, ACTIVE, [])
    kept = np.flatnonzero(place >= 0)
    whole, simulated = (prepare(each.engine_tree) for each in (tree, part))
    target, of_part = whole.spread(whole.target), simulated.spread(simulated.target)
    np.testing.assert_array_equal(of_part[place[kept]], target[kept])
    assert {name for name, is_rest in zip(part.name, part.is_rest, strict=True) if is_rest} == {REST}


@pytest.mark.parametrize("algorithm", first(1, ["aequus", "slurm-fair-tree"]))
def test_usage_before_the_start_of_those_left_out_is_that_of_the_rest(algorithm: str) -> None:
    tree = whole_tree(4, is_whole=True, inherits=algorithm == "aequus")
    users = np.arange(1 + N_GROUPS, len(tree))
    random = np.random.default_rng(1)
    hour, amount = random.integers(-30, 0, len(users)), random.integers(1, 40_000, len(users)).astype(np.float64)
    site = random.integers(-1, 2, len(users))
    part, place, place_of_usage = part_of(tree, ACTIVE, users)
    settings = {"name": algorithm}
    whole = starts(tree, settings, ACTIVE, PastUsage(users, site, hour, amount))
    simulated = starts(part, settings, place[ACTIVE], PastUsage(place_of_usage[users], site, hour, amount))
    np.testing.assert_array_equal(simulated, whole)
    assert not np.array_equal(whole, starts(tree, settings, ACTIVE))


def test_a_simulated_tree_is_freed_at_once() -> None:
    """With the blob that its columns are views of: a worker simulates one experiment after the other."""
    tree = whole_tree(1, is_whole=True)
    assert prepare(tree.engine_tree).has_leaf.any()
    there = weakref.ref(tree)
    gc.disable()
    try:
        del tree
        assert there() is None
    finally:
        gc.enable()
