"""What sites see of usage: aged by every decay function, and as recomputes get it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from apps.contrib.lab.simulation import simulate
from apps.contrib.lab.simulation.columns import execution_for
from apps.contrib.lab.simulation.long_aging import LongAging
from apps.contrib.lab.simulation.scenario import AGING_STEP_S, read_scenario
from apps.contrib.lab.simulation.sites import Aging, coarse, empty_state, nodes_of, plan_of
from apps.contrib.lab.simulation.workload import draw
from apps.engine import fast
from apps.engine.decay import bucket_weights
from apps.engine.decay_functions import DECAY_FUNCTIONS

WINDOWS: dict[str, dict[str, Any]] = {
    "none": {"length_s": 20_000},
    "exponential": {"half_life_s": 7200},
    "linear": {"length_s": 30_000},
    "step": {"granularity_s": 3600, "factor": 0.5},
    "slurm": {"half_life_s": 7200},
    "gridengine": {"halftime_h": 4},
    "lsf": {"hist_hours": 5},
    "pbs": {"decay_time_s": 7200, "decay_factor": 0.5},
    "flux": {"half_life_s": 7200},
}


def test_every_decay_function_has_an_example() -> None:
    assert set(WINDOWS) == set(DECAY_FUNCTIONS)


@pytest.mark.deep
@pytest.mark.usefixtures("always_compiled")
@pytest.mark.parametrize("aging", sorted(DECAY_FUNCTIONS))
@pytest.mark.parametrize("approach", ["historical", "active", "predictive"])
def test_every_decay_function_applies_to_every_view(aging: str, approach: str, small: dict[str, Any]) -> None:
    small["usage"] = {"local": approach, "global": approach, "window": {"aging": aging} | WINDOWS[aging]}
    result = simulate(small)
    shares = result["reports"][-1]["share_of_parent"]
    assert shares["/a"] == pytest.approx(60, abs=12)  # a short memory swings
    assert shares["/a/x"] > 55
    with fast.switched(False):
        assert simulate(small) == result


@pytest.mark.parametrize("kind", [Aging, LongAging])
@pytest.mark.parametrize("aging", sorted(DECAY_FUNCTIONS))
@pytest.mark.parametrize("delay_s", [0, 1000])
def test_aged_usage_is_the_weighted_sum_of_hours(
    kind: type[Aging | LongAging], aging: str, delay_s: float, small: dict[str, Any]
) -> None:
    """Queue 0 of site 0 uses three processors for three and a half hours, from step to step, and then nothing."""
    small |= {"usage": {"window": {"aging": aging} | WINDOWS[aging]}, "noise": {"usage_delay_s": delay_s}}
    scenario = read_scenario(small, seed=None, traces={})
    workload = draw(scenario)
    nodes, paths = nodes_of(scenario, workload.entries, books_queues=True)
    plan = plan_of(scenario, len(workload.entries), nodes, paths, is_flat=False, books_queues=True)
    state = execution_for(0).columns(empty_state(scenario, workload, plan))
    view = kind(scenario, workload.entries, workload.jobs, paths, plan, state)
    usage_sums, slots = state.usage_sums, [*paths.booked[: paths.booked_first[1]].tolist()]
    from_s, until_s = 4800.0 - delay_s, 17400.0 - delay_s
    for step in range(int(12 * 3600 / AGING_STEP_S) + 1):
        now_s = step * AGING_STEP_S
        for at_s, rate in ((from_s, 3.0), (until_s, -3.0)):
            if at_s == now_s - delay_s:
                for slot in slots:
                    usage_sums.base[slot] -= rate * at_s
                    usage_sums.rate[slot] += rate
        view.step(now_s)
    seen_s = view.seen_s(now_s)
    hours = 3600.0 * np.arange(14)
    overlap_s = np.clip(np.minimum(hours + 3600, until_s) - np.maximum(hours, from_s), 0.0, None)
    expected = float((3.0 * overlap_s * bucket_weights(hours, seen_s, scenario.window)).sum())
    assert view.usage(seen_s)[0, 0] == pytest.approx(expected, rel=1e-9, abs=1e-6)
    assert view.usage(seen_s)[1:].sum() == pytest.approx(0.0, abs=1e-6)


def test_coarse_usage_has_quantised_shares(small: dict[str, Any]) -> None:
    tree = read_scenario(small, seed=None, traces={}).policy.tree
    own = np.array([0.0, 0, 0, 311, 97, 53, 39])
    known = coarse(tree, own, 10)
    assert known[3:].sum() == pytest.approx(500)
    assert known[3] + known[4] == pytest.approx(500 * 0.8)  # 408 of 500
    assert known[3] / (known[3] + known[4]) == pytest.approx(0.8)  # 311 of 408
    assert known[5] / (known[5] + known[6]) == pytest.approx(0.6)  # 53 of 92


def test_recomputes_use_usage_as_of_the_last_one(small: dict[str, Any]) -> None:
    """Six hours between recomputes: who is ahead gets everything until the next one, and shares swing."""
    small |= {"algorithm": {"name": "aequus"}, "report_h": [24]}
    rare, often = (simulate(small | {"priority_refresh_s": each})["rms_points"]["/b"] for each in (6 * 3600, 60))
    assert rare > 3 * often


def test_noise_affects_recomputes(small: dict[str, Any]) -> None:
    small |= {"algorithm": {"name": "slurm-fair-tree"}, "priority_refresh_s": 300}
    clean = simulate(small)
    assert simulate(small | {"noise": {"resolution": 10}}) != clean
    assert simulate(small | {"noise": {"usage_delay_s": 1200}}) != clean
