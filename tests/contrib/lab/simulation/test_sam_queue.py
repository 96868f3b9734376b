"""SAM's queue: its decisions, and what the rule does under load."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apps.contrib.lab.simulation import run, sam_queue, simulate
from apps.contrib.lab.simulation.columns import Execution, Jobs
from apps.contrib.lab.simulation.sam_queue import SamQueues
from apps.contrib.lab.simulation.scenario import read_scenario
from apps.contrib.lab.simulation.workload import draw

SEEDS = (1, 2, 3, 4, 5)


@pytest.fixture(scope="module")
def vectors(golden_dir: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((golden_dir / "sam/sam.json").read_text())
    return found


def name_of(expected: dict[str, Any]) -> str:
    """The shipped scenario for one of the expectations."""
    kind, booked_at, _ = expected["id"].split("/")
    return f"sam-{kind}-{booked_at}"


def parts(shares: dict[str, float], groups: dict[str, Any]) -> dict[str, float]:
    """Of the fair-share groups among themselves."""
    whole = sum(shares[f"/{group}"] for group in groups)
    return {group: shares[f"/{group}"] / whole for group in groups}


@pytest.mark.parametrize("seed", [SEEDS[0], *(pytest.param(seed, marks=pytest.mark.deep) for seed in SEEDS[1:])])
@pytest.mark.paper("3.16")
def test_all_scenarios_are_within_tolerance_on_five_seeds(
    vectors: dict[str, Any], shipped: Callable[..., dict[str, Any]], seed: int
) -> None:
    assert len(vectors["scenarios"]) == 8
    for expected in vectors["scenarios"]:
        scenario = shipped(name_of(expected))
        result = simulate(scenario, seed=seed)
        is_booked = expected.get("measured_on", "").startswith("booked")
        shares = result["booked_share"] if is_booked else result["reports"][-1]["share_of_parent"]
        found = parts(shares, expected["expect"])
        off = {g: found[g] for g, share in expected["expect"].items() if abs(found[g] - share) > expected["tolerance"]}
        assert off == {}, f"{expected['id']}, seed {seed}"


def test_shipped_scenarios_have_the_expected_load(
    vectors: dict[str, Any], shipped: Callable[..., dict[str, Any]]
) -> None:
    for expected in vectors["scenarios"]:
        scenario, params = shipped(name_of(expected)), expected["params"]
        load = {line["entry"][1:]: line["load"] for line in scenario["workload"] if "priority" not in line}
        assert load == params["load"]
        assert [line["priority"] for line in scenario["workload"] if "priority" in line] == [
            number for number, _ in params.get("priority", {}).values()
        ]
        assert scenario["sites"][0]["cpus"] == expected["slots"]
        assert (scenario["booked_at"], scenario["front"]) == (expected["booked_at"], expected["front"])
        assert scenario["hours"] == expected["hours"]


def test_decisions_equal_the_rule(vectors: dict[str, Any]) -> None:
    for example in vectors["decisions"]["examples"]:
        groups = list(example["B"])
        number = groups.index(example["group"])
        jobs = Jobs(
            site_queue=np.array([number]),
            order=np.array([0]),
            run_s=np.array([float(example["benefit"])]),
            requested_s=np.array([1.0]),
            cpus=np.array([1]),
            counted=np.array([1.0]),
            stream=np.array([0]),
        )
        sam = SamQueues(
            first=np.array([-1, -1]),
            last=np.array([-1, -1]),
            behind=np.array([-1]),
            share=np.array([example["share"][group] for group in groups]),
            received=np.array([float(example["B"][group]) for group in groups]),
            total=np.array([float(sum(example["B"].values()))]),
            class_of=np.array([-1]),
            classes=2,
            sites=1,
            queues=len(groups),
            ledgers=1,
            booked_at=0,
            is_lifo=True,
            backfills=False,
        )
        plain = Execution(is_compiled=False)
        decide = plain.loop(sam_queue.goes_to_front)
        assert decide(0, plain.columns(jobs), plain.columns(sam)) is (example["queue"] == "front"), example


def waits_s(scenario: dict[str, Any]) -> dict[str, float]:
    """Mean wait of the started jobs by entry."""
    read = read_scenario(scenario, seed=None, traces={})
    workload = draw(read)
    started_s = run.run_jobs(read, workload).started_s
    at_s = np.empty(len(started_s))
    at_s[workload.arrivals.job] = workload.arrivals.at_s
    found = {}
    for queue, entry in enumerate(workload.entries.tolist()):
        ran = (workload.jobs.site_queue % len(workload.entries) == queue) & (started_s >= 0)
        found[read.policy.paths[entry]] = float(np.mean(started_s[ran] - at_s[ran]))
    return found


def test_a_priority_group_waits_for_a_free_processor_only(shipped: Callable[..., dict[str, Any]]) -> None:
    waits = waits_s(shipped("sam-with-priority-group-start", hours=200, report_h=[200]))
    assert waits["/daq"] < 0.1 * 3600
    assert min(waits[f"/{group}"] for group in ("g1", "g2", "g3")) > 20 * waits["/daq"]


def test_a_front_served_by_arrival_does_not_converge(
    vectors: dict[str, Any], shipped: Callable[..., dict[str, Any]]
) -> None:
    least, _, most = vectors["fifo_front_class"]["largest_deviation_min_mean_max"]
    share = {"/g1": 0.5, "/g2": 0.3, "/g3": 0.2}
    worst = []
    for seed in SEEDS:
        found = simulate(shipped("sam-fifo-front-start"), seed=seed)["booked_share"]
        worst.append(max(abs(found[group] - part) for group, part in share.items()))
    assert 0.5 * least < np.mean(worst) < 1.2 * most


def test_shares_are_near_after_the_first_thousand_jobs(shipped: Callable[..., dict[str, Any]]) -> None:
    report = simulate(shipped("sam-saturated-equal-load-start"))["reports"][0]
    assert report["hour"] == 50  # 20 processors, jobs of an hour: a thousand have run
    for group, share in {"/g1": 50, "/g2": 30, "/g3": 20}.items():
        assert report["share_of_parent"][group] == pytest.approx(share, abs=2)


@pytest.mark.paper("3.5", "3.7")
def test_priority_groups_are_served_in_their_own_order() -> None:
    scenario = {
        "hours": 100,
        "sites": [{"name": "s", "cpus": 4}],
        "dispatch": "sam",
        "policy": {"name": "r", "children": [{"name": name, "shares": 1} for name in ("low", "high", "fair")]},
        "workload": [
            {"entry": "/low", "load": 0.8, "run_h": 1, "priority": 5},
            {"entry": "/high", "load": 0.5, "run_h": 1, "priority": 7.5},
            {"entry": "/fair", "load": 0.5, "run_h": 1},
        ],
    }
    waits = waits_s(scenario)
    assert waits["/high"] < waits["/low"] / 3
    result = simulate(scenario)
    assert set(result["booked_share"]) == {"/fair"}
    parts = result["reports"][-1]["share_of_parent"]
    assert parts["/high"] == pytest.approx(50, abs=5)  # all that it submits
    assert parts["/fair"] < 3, "only what starts while none of the others waits"


def test_sites_have_separate_ledgers_unless_the_root_is_global() -> None:
    scenario: dict[str, Any] = {
        "hours": 200,
        "sites": [{"name": "s", "cpus": 10}, {"name": "t", "cpus": 10}],
        "dispatch": "sam",
        "policy": {"name": "r", "children": [{"name": "a", "shares": 1}, {"name": "b", "shares": 1}]},
        "workload": [
            {"entry": "/a", "load": 4, "run_h": [0.5, 1.5], "sites": ["s"]},
            {"entry": "/b", "load": 2, "run_h": [0.5, 1.5]},
        ],
    }
    own = simulate(scenario)["booked_share"]
    assert own["/a"] == pytest.approx(0.25, abs=0.02)  # half of the only site it uses
    scenario["policy"]["scope"] = "global"
    assert simulate(scenario)["booked_share"]["/a"] == pytest.approx(0.5, abs=0.02)
