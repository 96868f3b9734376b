"""The event loop against its slow twin, and what holds for every run."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from apps.contrib.lab.simulation import loop, run, simulate
from apps.contrib.lab.simulation.columns import Execution, Model
from apps.contrib.lab.simulation.scenario import Scenario, read_scenario
from apps.contrib.lab.simulation.sites import empty_state, flat_rule, nodes_of, plan_of
from apps.contrib.lab.simulation.workload import Workload, draw
from apps.engine import fast
from apps.engine.algorithms import all_algorithms
from tests.examples import examples
from tests.oracles.simulation import Job, Twin

PATHS = ("/a/x", "/a/y", "/b", "/c/d/z")
APPROACH = st.sampled_from(["historical", "active", "predictive"])
# Primes above the number of jobs: no part of a few equal jobs is on an edge of a component, where the last bit of a
# running sum would decide.
FEW_COMPONENTS, MANY_COMPONENTS = 19, 10007


@st.composite
def scenarios(draw_from: st.DrawFn) -> dict[str, Any]:
    """Few processors, few jobs, uneven depth, any scope, ties where intervals and run times are alike."""
    share = st.integers(1, 4)

    def entry(name: str, *children: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {"name": name, "shares": draw_from(share)}
        if children:
            found["children"] = list(children)
            scope = draw_from(st.sampled_from(["local", "global", None]))
            found |= {"scope": scope} if scope else {}
        return found

    policy = entry("", entry("a", entry("x"), entry("y")), entry("b"), entry("c", entry("d", entry("z"))))
    policy["name"] = "root"
    run_h = draw_from(st.sampled_from([[0.1, 0.4], [0.25, 0.25]]))
    workload = []
    for path in draw_from(st.lists(st.sampled_from(PATHS), min_size=1, max_size=4, unique=True)):
        line = {"entry": path, "every_s": draw_from(st.sampled_from([300, 700])), "run_h": run_h}
        line["requested_factor"] = [1.2, 1.4]
        line |= draw_from(st.sampled_from([{}, {"until_h": 0.5}, {"from_h": 0.3}, {"sites": ["R1"]}]))
        workload.append(line)
    return {
        "id": "drawn",
        "hours": 1.5,
        "seed": draw_from(st.integers(0, 99)),
        "policy": policy,
        "workload": workload,
        "sites": [{"name": "R1", "cpus": draw_from(st.integers(1, 2))}, {"name": "R2", "cpus": 1}],
        "algorithm": draw_from(
            st.sampled_from(
                [
                    {"name": "gridwide"},
                    {"name": "aequus", "resolution": MANY_COMPONENTS},
                    {"name": "aequus", "resolution": FEW_COMPONENTS},
                ]
            )
        ),
        "usage": {"local": draw_from(APPROACH), "global": draw_from(APPROACH), "global_refresh_s": 240},
        "noise": draw_from(st.sampled_from([{}, {"usage_delay_s": 200.0}, {"loss": 0.3}])),
    }


def equal_jobs(entry: str, **more: Any) -> dict[str, Any]:
    return {"entry": entry, "every_s": 300, "run_h": [0.25, 0.25], "requested_factor": [1.2, 1.4], **more}


# At times /a and /b have half of the usage and a quarter of the shares: on an edge at a resolution of 4.
HALF_AND_QUARTER: dict[str, Any] = {
    "id": "half",
    "hours": 1.5,
    "seed": 97,
    "policy": {
        "name": "root",
        "shares": 1,
        "scope": "global",
        "children": [
            {
                "name": "a",
                "shares": 2,
                "scope": "global",
                "children": [{"name": "x", "shares": 1}, {"name": "y", "shares": 2}],
            },
            {"name": "b", "shares": 2},
            {
                "name": "c",
                "shares": 4,
                "scope": "local",
                "children": [{"name": "d", "shares": 1, "scope": "local", "children": [{"name": "z", "shares": 1}]}],
            },
        ],
    },
    "workload": [
        equal_jobs("/a/y"),
        equal_jobs("/b", sites=["R1"]),
        equal_jobs("/a/x"),
        equal_jobs("/c/d/z", from_h=0.3),
    ],
    "sites": [{"name": "R1", "cpus": 2}, {"name": "R2", "cpus": 1}],
    "algorithm": {"name": "aequus", "resolution": FEW_COMPONENTS},
    "usage": {"local": "historical", "global": "active", "global_refresh_s": 240},
    "noise": {"loss": 0.3},
}


def read_and_draw(scenario: dict[str, Any]) -> tuple[Scenario, Workload]:
    read = read_scenario(scenario, seed=None, traces={})
    return read, draw(read)


@pytest.mark.paper("4.42")
def test_each_job_goes_to_a_site_at_random(shipped: Callable[[str], dict[str, Any]]) -> None:
    """Each pair of sites follows each other as often as any, so that neither a turn nor a favourite is left."""
    workload = read_and_draw(shipped("converge-predictive"))[1]
    n_sites, n_queues = 6, len(workload.entries)
    for queue in range(n_queues):
        site = workload.arrivals.site_queue[workload.arrivals.site_queue % n_queues == queue] // n_queues
        pairs = np.bincount(site[:-1] * n_sites + site[1:], minlength=n_sites**2)
        expected = (len(site) - 1) / n_sites**2
        assert expected > 400
        assert abs(pairs - expected).max() < 5 * expected**0.5


def jobs_of(read: Scenario, workload: Workload) -> list[Job]:
    """The drawn jobs in order of arrival, for the twin."""
    found = []
    for number, row in enumerate(workload.arrivals.job.tolist()):
        site, queue = divmod(int(workload.jobs.site_queue[row]), len(workload.entries))
        found.append(
            Job(
                number=number,
                entry=read.policy.paths[int(workload.entries[queue])],
                site=site,
                at_s=float(workload.arrivals.at_s[number]),
                run_s=float(workload.jobs.run_s[row]),
                requested_s=float(workload.jobs.requested_s[row]),
                counts=bool(workload.jobs.counted[row] > 0),
                leaves_s=read.streams[int(workload.jobs.stream[row])].until_s,
            )
        )
    return found


@examples(60)
@example(scenario=HALF_AND_QUARTER)
@given(scenario=scenarios())
def test_job_starts_equal_the_oracle(scenario: dict[str, Any]) -> None:
    read, workload = read_and_draw(scenario)
    with fast.switched(False):
        started_s = run.run_jobs(read, workload).started_s
    found = {number: float(started_s[row]) for number, row in enumerate(workload.arrivals.job) if started_s[row] >= 0}
    expected = Twin(scenario, jobs_of(read, workload)).run()
    assert found.keys() == expected.keys()
    for number, at_s in expected.items():
        assert found[number] == pytest.approx(at_s, abs=1e-6), f"job {number}"


VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "noise": {"noise": {"usage_delay_s": 300, "loss": 0.1, "resolution": 50}},
    "half-life": {"usage": {"local": "predictive", "window": {"aging": "exponential", "half_life_s": 7200}}},
    "linear": {"usage": {"global": "historical", "window": {"aging": "linear", "length_s": 20000}}},
    "sigmoid": {"algorithm": {"name": "aequus", "operator": "sigmoid-3"}},
    "slurm-operator": {"algorithm": {"name": "aequus", "operator": "slurm", "resolution": 7}},
    "recomputed": {"algorithm": {"name": "aequus"}, "priority_refresh_s": 600},
    "fair-tree": {"algorithm": {"name": "slurm-fair-tree"}, "priority_refresh_s": 600},
    "sam": {"dispatch": "sam"},
}
COMPILED_IN_SECONDS = [variant for variant in VARIANTS if variant != "sam"]


@pytest.mark.usefixtures("always_compiled")
@pytest.mark.parametrize(
    "variant",
    [
        pytest.param(name, marks=() if name in ("noise", "linear", "recomputed") else pytest.mark.deep)
        for name in (*COMPILED_IN_SECONDS, "sam")
    ],
)
def test_the_same_scenario_and_seed_give_the_same_bytes_with_and_without_machine_code(
    variant: str, small: dict[str, Any]
) -> None:
    scenario = small | VARIANTS[variant]
    first = json.dumps(simulate(scenario))
    assert json.dumps(simulate(copy.deepcopy(scenario))) == first
    assert json.dumps(simulate(scenario, progress=lambda part: None)) == first
    with fast.switched(False):
        assert json.dumps(simulate(scenario)) == first
    assert json.dumps(simulate(scenario, seed=2)) != first


@pytest.mark.parametrize("variant", VARIANTS)
def test_delivered_usage_is_conserved(variant: str, small: dict[str, Any]) -> None:
    scenario = small | VARIANTS[variant]
    read, workload = read_and_draw(scenario)
    started_s = run.run_jobs(read, workload).started_s
    ran = started_s >= 0
    at_s = np.empty(len(started_s))
    at_s[workload.arrivals.job] = workload.arrivals.at_s
    assert (started_s[ran] >= at_s[ran]).all()
    delivered_s = np.minimum(workload.jobs.run_s[ran], read.end_s - started_s[ran]).sum()
    assert delivered_s <= 20 * read.end_s
    assert delivered_s > 0.9 * 20 * read.end_s  # more is asked for than there is
    for site in range(2):
        here = ran & (workload.jobs.site_queue // len(workload.entries) == site)
        edges = sorted([*((s, 1) for s in started_s[here]), *((e, 0) for e in (started_s + workload.jobs.run_s)[here])])
        running = np.cumsum([1 if kind else -1 for _, kind in edges])
        assert running.max() <= 10


@pytest.mark.parametrize("variant", VARIANTS)
def test_simulated_counts_and_shares_add_up(variant: str, small: dict[str, Any]) -> None:
    result = simulate(small | VARIANTS[variant])
    jobs = result["jobs"]
    assert jobs["submitted"] >= jobs["started"] >= jobs["finished"] > 0
    assert jobs["started"] - jobs["finished"] <= 20
    assert result["events"] >= jobs["submitted"] + jobs["finished"]
    assert [report["hour"] for report in result["reports"]] == [0, 1, 12, 24]
    assert set(result["reports"][0]["share_of_parent"].values()) == {None}
    for report in result["reports"][1:]:
        shares = report["share_of_parent"]
        for group in ("", "/a", "/b"):
            below = [share for path, share in shares.items() if path.rpartition("/")[0] == group]
            assert sum(below) == pytest.approx(100, abs=1e-9)


def test_streams_do_not_disturb_each_other(small: dict[str, Any]) -> None:
    _, before = read_and_draw(small)
    small["workload"].append({"entry": "/b", "poisson_s": 100, "run_h": 1})
    small["workload"][1] = small["workload"][1] | {"run_h": [1, 2]}
    _, after = read_and_draw(small)
    for stream in (0, 2, 3):
        one, other = (workload.jobs.run_s[workload.jobs.stream == stream] for workload in (before, after))
        assert sorted(one) == sorted(other)
    kept = [set(w.arrivals.at_s[w.jobs.stream[w.arrivals.job] == 1].tolist()) for w in (before, after)]
    assert kept[0] == kept[1]  # other run times, the same arrivals


def test_withdrawn_jobs_never_start_and_the_entry_is_idle(small: dict[str, Any]) -> None:
    small["workload"][0]["until_h"] = 6
    read, workload = read_and_draw(small)
    started_s = run.run_jobs(read, workload).started_s
    assert started_s[workload.jobs.stream == 0].max() < 6 * 3600
    assert (started_s[workload.jobs.stream == 1] > 12 * 3600).any()


def test_the_start_of_the_first_job_is_booked_when_the_delay_is_over(small: dict[str, Any]) -> None:
    small |= {"noise": {"usage_delay_s": 300}, "usage": {"local": "predictive", "global": "historical"}}
    read, workload = read_and_draw(small)
    nodes, paths = nodes_of(read, workload.entries, books_queues=True)
    plan = plan_of(read, len(workload.entries), nodes, paths, is_flat=False, books_queues=True)
    plain = Execution(is_compiled=False)
    state = plain.columns(empty_state(read, workload, plan))
    model = plain.columns(Model(workload.jobs, nodes, paths, flat_rule(), plan))
    plain.loop(loop.report)(1000.0, 0, model, state)
    booked = []
    for now_s in (1299.0, 1300.0, 1301.0):
        plain.loop(loop.book_delayed)(now_s, model, state)
        booked.append(max(state.usage_sums.base))
    assert booked == [0.0, *[workload.jobs.counted[0] * workload.jobs.requested_s[0]] * 2]


@pytest.mark.parametrize("name", sorted(all_algorithms()))
def test_every_tree_algorithm_can_dispatch(name: str, small: dict[str, Any]) -> None:
    small |= {"algorithm": {"name": name}, "hours": 12, "report_h": [12]}
    result = simulate(small)
    shares = result["reports"][0]["share_of_parent"]
    expected = {"/a": 60, "/b": 40, "/a/x": 75, "/a/y": 25, "/b/x": 50}
    if name == "slurm-classic":
        # U(1 − s) + s·U(account), over s, is what it makes equal: usage settles at s/(1 − s), not at the shares.
        expected |= {"/a/x": 90, "/a/y": 10}
    for path, share in expected.items():
        assert shares[path] == pytest.approx(share, abs=4), f"{name}: {path}"


def test_global_scope_compensates_uneven_usage_of_sites(small: dict[str, Any]) -> None:
    small["workload"][0]["sites"] = ["R1"]  # /a/x, with three quarters of /a
    small["policy"]["children"][0]["children"][0]["shares"] = 1
    everywhere = simulate(small)["reports"][-1]["share_of_parent"]["/a/x"]
    small["policy"]["children"][0]["scope"] = "local"
    alone = simulate(small)["reports"][-1]["share_of_parent"]["/a/x"]
    assert everywhere == pytest.approx(50, abs=3)
    assert alone == pytest.approx(25, abs=3)


def test_a_short_half_life_forgets_usage_sooner(small: dict[str, Any]) -> None:
    """/a/y alone uses its account's half for twelve hours; then /a/x comes."""
    for line in small["workload"]:
        line["every_s"] = 120
    small["workload"][0]["from_h"] = 12
    ever = simulate(small)["reports"][-1]["share_of_parent"]["/a/x"]
    small["usage"] = small["usage"] | {"window": {"aging": "exponential", "half_life_s": 1800}}
    lately = simulate(small)["reports"][-1]["share_of_parent"]["/a/x"]
    assert ever > lately + 5


def test_jobs_of_inheriting_entries_and_groups_use_the_vector_of_the_parent(
    shipped: Callable[..., dict[str, Any]],
) -> None:
    scenario = {
        "hours": 48,
        "sites": [{"name": "s", "cpus": 8}],
        "algorithm": {"name": "aequus"},
        "policy": {
            "name": "r",
            "children": [
                {"name": "a", "shares": 1, "children": [{"name": name, "shares": "parent"} for name in "xy"]},
                {"name": "b", "shares": 1, "children": [{"name": "z", "shares": 1}]},
            ],
        },
        "workload": [{"entry": path, "every_s": 900, "run_h": 1} for path in ("/a/x", "/a/y", "/b", "/b/z")],
    }
    result = simulate(scenario)
    shares = result["reports"][0]["share_of_parent"]
    assert shares["/a"] == pytest.approx(50, abs=2)
    assert shares["/a/x"] == pytest.approx(50, abs=3)  # they tie: first come, first served
    assert result["rms_points"]["/a"] is None  # no entry has a target there
