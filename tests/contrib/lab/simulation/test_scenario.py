"""Scenarios that can't be simulated are refused with the field named, whatever is wrong with them."""

from __future__ import annotations

import contextlib
import copy
import json
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from apps.contrib.lab.simulation import simulate
from apps.contrib.lab.simulation.scenario import is_incremental
from apps.engine.errors import EngineError
from tests.each_case import each_case
from tests.examples import examples

Change = dict[str, Any]
NAN, INF = math.nan, math.inf


def line(**changes: Any) -> dict[str, Any]:
    return {"entry": "/a/x", "every_s": 300, "run_h": [0.6, 1.4]} | changes


def without(name: str, **changes: Any) -> dict[str, Any]:
    return {key: value for key, value in line(**changes).items() if key != name}


REFUSED: list[tuple[Change, str]] = [
    ({"sites": []}, "sites"),
    ({"sites": None}, "sites"),
    ({"sites": "R1"}, "sites"),
    ({"sites": [5]}, "sites[0]"),
    ({"sites": [{"name": "a"}]}, "sites[0].cpus"),
    ({"sites": [{"cpus": 1}]}, "sites[0].name"),
    ({"sites": [{"name": "a", "cpus": 0}]}, "sites[0].cpus"),
    ({"sites": [{"name": "a", "cpus": -1}]}, "sites[0].cpus"),
    ({"sites": [{"name": "a", "cpus": 1.5}]}, "sites[0].cpus"),
    ({"sites": [{"name": "a", "cpus": NAN}]}, "sites[0].cpus"),
    ({"sites": [{"name": "a", "cpus": 1}] * 2}, "sites[1].name"),
    ({"sites": [{"name": "s", "cpus": 1}] * 1_000_000}, "sites"),
    ({"hours": 0}, "hours"),
    ({"hours": -1}, "hours"),
    ({"hours": None}, "hours"),
    ({"hours": NAN}, "hours"),
    ({"hours": INF}, "hours"),
    ({"hours": 1e300}, "hours"),
    ({"hours": 10**400}, "hours"),
    ({"hours": "24"}, "hours"),
    ({"hours": True}, "hours"),
    (
        {
            "hours": 1e6,
            "policy": {"name": "r", "children": [{"name": str(i), "shares": 1} for i in range(50)]},
            "workload": [],
            "usage": {"global_refresh_s": 3600},
        },
        "hours",
    ),
    ({"seed": -1}, "seed"),
    ({"seed": 1.5}, "seed"),
    ({"seed": "x"}, "seed"),
    ({"policy": None}, "policy"),
    ({"policy": {"name": "r", "scope": "world", "children": []}}, "policy.scope"),
    ({"algorithm": None}, "algorithm"),
    ({"algorithm": {"name": "magic"}}, "algorithm.name"),
    ({"algorithm": {"name": "aequus", "operator": "magic"}}, "algorithm.operator"),
    ({"dispatch": "lottery"}, "dispatch"),
    ({"dispatch": "sam", "booked_at": "never"}, "booked_at"),
    ({"dispatch": "sam", "front": "random"}, "front"),
    ({"backfill": "yes"}, "backfill"),
    ({"priority_refresh_s": -5}, "priority_refresh_s"),
    ({"priority_refresh_s": 1e-9}, "priority_refresh_s"),
    ({"algorithm": {"name": "slurm-fair-tree"}, "priority_refresh_s": 0}, "priority_refresh_s"),
    ({"algorithm": {"name": "flux"}, "priority_refresh_s": 1, "hours": 1e4, "workload": []}, "priority_refresh_s"),
    ({"usage": {"local": "future"}}, "usage.local"),
    ({"usage": {"global": 7}}, "usage.global"),
    ({"usage": {"global_refresh_s": 0}}, "usage.global_refresh_s"),
    ({"usage": {"global_refresh_s": NAN}}, "usage.global_refresh_s"),
    ({"usage": {"globl": "active"}}, "usage"),
    ({"usage": {"window": {"aging": "dust"}}}, "usage.window.aging"),
    ({"usage": {"window": {"aging": "exponential"}}}, "usage.window.half_life_s"),
    ({"usage": {"window": {"aging": "exponential", "half_life_s": -1}}}, "usage.window.half_life_s"),
    ({"usage": {"window": {"aging": "exponential", "half_life_s": NAN}}}, "usage.window.half_life_s"),
    ({"usage": {"window": {"aging": "exponential", "half_life_s": "day"}}}, "usage.window"),
    ({"usage": {"window": {"speed": 1}}}, "usage.window"),
    ({"noise": {"loss": 1.5}}, "noise.loss"),
    ({"noise": {"usage_delay_s": -1}}, "noise.usage_delay_s"),
    ({"noise": {"resolution": 1}}, "noise.resolution"),
    ({"noise": {"volume": 11}}, "noise"),
    ({"report_h": [25]}, "report_h[0]"),
    ({"report_h": [1, -1]}, "report_h[1]"),
    ({"report_h": [NAN]}, "report_h[0]"),
    ({"report_h": 24}, "report_h"),
    ({"workload": None}, "workload"),
    ({"workload": [7]}, "workload[0]"),
    ({"workload": [line(entry="/nobody")]}, "workload[0].entry"),
    ({"workload": [without("entry")]}, "workload[0].entry"),
    ({"workload": [without("run_h")]}, "workload[0].run_h"),
    ({"workload": [without("every_s")]}, "workload[0]"),
    ({"workload": [line(load=1)]}, "workload[0]"),
    ({"workload": [line(every_s=0)]}, "workload[0].every_s"),
    ({"workload": [line(), line(every_s=-15)]}, "workload[1].every_s"),
    ({"workload": [line(every_s=NAN)]}, "workload[0].every_s"),
    ({"workload": [line(every_s=0.001)], "hours": 1e5}, "workload"),
    ({"workload": [without("every_s", poisson_s=-1)]}, "workload[0].poisson_s"),
    ({"workload": [without("every_s", load=-0.5)]}, "workload[0].load"),
    ({"workload": [without("every_s", load=1e12)]}, "workload"),
    ({"workload": [without("every_s", load=INF)]}, "workload[0].load"),
    ({"workload": [line(run_h=0)]}, "workload[0].run_h"),
    ({"workload": [line(run_h=[2, 1])]}, "workload[0].run_h"),
    ({"workload": [line(run_h=[1, 2, 3])]}, "workload[0].run_h"),
    ({"workload": [line(run_h=[-1, 1])]}, "workload[0].run_h"),
    ({"workload": [line(run_h=[1, NAN])]}, "workload[0].run_h"),
    ({"workload": [line(requested_factor=[0, 1])]}, "workload[0].requested_factor"),
    ({"workload": [line(cpus=11)]}, "workload[0].cpus"),
    ({"workload": [line(cpus=0)]}, "workload[0].cpus"),
    ({"workload": [line(cpus="all")]}, "workload[0].cpus"),
    ({"workload": [line(sites=["R9"])]}, "workload[0].sites"),
    ({"workload": [line(sites=[])]}, "workload[0].sites"),
    ({"workload": [line(sites=["R1", "R1"])]}, "workload[0].sites"),
    ({"workload": [line(from_h=-1)]}, "workload[0].from_h"),
    ({"workload": [line(from_h=9, until_h=8)]}, "workload[0].from_h"),
    ({"workload": [line(until_h=NAN)]}, "workload[0].until_h"),
    ({"workload": [line(priority=10)]}, "workload[0].priority"),
    ({"workload": [line()] * 10_001}, "workload"),
    ({"workload": [{"trace": "log.swf", "entry": "/a/x"}]}, "workload[0].trace"),
    ({"workload": [{"trace": 5, "entry": "/a/x"}]}, "workload[0].trace"),
]


@each_case(("change", "place"), REFUSED)
def test_invalid_grant_fields_are_named(change: Change, place: str, small: dict[str, Any]) -> None:
    with pytest.raises(EngineError) as refused:
        simulate(small | change)
    assert refused.value.place == place
    assert refused.value.message


@pytest.mark.parametrize("scenario", [None, 5, "text", [], True])
def test_a_scenario_must_be_an_object(scenario: object) -> None:
    with pytest.raises(EngineError, match="a scenario is an object"):
        simulate(scenario)


def test_a_reserve_runs_no_jobs(small: dict[str, Any]) -> None:
    small["policy"]["children"].append({"name": "spare", "kind": "reserve", "shares": 20})
    small["workload"].append(line(entry="/spare"))
    with pytest.raises(EngineError, match="reserve"):
        simulate(small)
    del small["workload"][-1]
    assert simulate(small)["reports"][-1]["share_of_parent"]["/spare"] == 0.0


RULES: list[tuple[Any, str]] = [
    ([], "workload[0].map"),
    ("all", "workload[0].map"),
    ([5], "workload[0].map[0]"),
    ([{"user": 1}], "workload[0].map[0].entry"),
    ([{"entry": "/nobody"}], "workload[0].map[0].entry"),
    ([{"entry": "/a/x", "user": 1.5}], "workload[0].map[0].user"),
]


@pytest.mark.parametrize(("rules", "place"), RULES)
def test_rules_of_unknown_entries_are_rejected(rules: Any, place: str, small: dict[str, Any]) -> None:
    small["workload"] = [{"trace": "log", "map": rules}]
    with pytest.raises(EngineError) as refused:
        simulate(small, traces={"log": ""})
    assert refused.value.place == place


def test_an_empty_log_or_no_streams_give_an_empty_run(small: dict[str, Any]) -> None:
    for workload, traces in (([], {}), ([{"trace": "log", "entry": "/a/x"}], {"log": "; empty\n\n"})):
        result = simulate(small | {"workload": workload}, traces=traces)
        assert result["jobs"] == {"submitted": 0, "started": 0, "finished": 0}
        assert set(result["reports"][-1]["share_of_parent"].values()) == {None}
        assert set(result["rms_points"].values()) == {None}


def test_a_group_without_usage_is_reported(small: dict[str, Any]) -> None:
    small["workload"] = small["workload"][:2]
    shares = simulate(small)["reports"][-1]["share_of_parent"]
    assert (shares["/a"], shares["/b"], shares["/b/x"]) == (pytest.approx(100), 0.0, None)


def test_a_number_as_span_and_a_zero_load_are_allowed(small: dict[str, Any]) -> None:
    small["workload"] = [line(run_h=1, requested_factor=2), without("every_s", load=0)]
    assert simulate(small)["jobs"]["submitted"] == 24 * 12


@pytest.mark.deep
def test_load_is_the_requested_fraction_of_processors(small: dict[str, Any]) -> None:
    small["workload"] = [without("every_s", load=0.5, sites=["R1"])]
    result = simulate(small | {"hours": 1000, "report_h": [1000]})
    assert result["jobs"]["submitted"] == pytest.approx(0.5 * 10 * 1000, rel=0.05)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.deep
@examples(100, suppress=HealthCheck, fixed=37)
@given(data=st.data())
def test_no_value_causes_more_than_an_error(small: dict[str, Any], data: st.DataObject) -> None:
    """Any JSON in any one place: a result or an EngineError, at once."""
    scenario = copy.deepcopy(small) | {
        "hours": 1,
        "report_h": [1],
        "noise": {"loss": 0.1},
        "backfill": True,
        "priority_refresh_s": 600,
    }
    node: Any = scenario
    while True:
        keys = sorted(node) if isinstance(node, dict) else list(range(len(node)))
        key = data.draw(st.sampled_from(keys))
        if isinstance(node[key], dict | list) and node[key] and data.draw(st.booleans()):
            node = node[key]
            continue
        node[key] = data.draw(JSON)
        break
    with contextlib.suppress(EngineError):
        json.dumps(simulate(scenario), allow_nan=False)  # "NaN" is a name like others


def test_the_simulator_applies_zero_shares_last_at_recomputes() -> None:
    assert is_incremental({"name": "aequus", "operator": "relative", "resolution": 100})
    assert not is_incremental({"name": "aequus", "operator": "relative", "resolution": 100, "zero_shares": "last"})
