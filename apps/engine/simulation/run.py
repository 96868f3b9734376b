"""A scenario from its text to its result: draw the jobs, run the loop, measure what was delivered."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from apps.engine import fast
from apps.engine.arrays import FloatArray
from apps.engine.simulation import loop
from apps.engine.simulation.columns import N_EVENTS, NEXT_ARRIVAL, indexable
from apps.engine.simulation.contest import nodes_of, rule_of
from apps.engine.simulation.metrics import report
from apps.engine.simulation.scenario import Scenario, read_scenario
from apps.engine.simulation.sites import empty_state, plan_of
from apps.engine.simulation.workload import Workload, draw

Progress = Callable[[float], None]


def simulate(
    scenario: object, *, seed: int | None = None, traces: Mapping[str, str] | None = None, progress: Progress | None = None
) -> dict[str, Any]:
    """The result of one scenario as the contract has it; the same scenario and seed give the same numbers.

    seed: in place of the scenario's own. traces: text of the logs that the scenario names. progress: is called with
    the part that is done, 0..1. Raises EngineError with the field that can't be used.
    """
    read = read_scenario(scenario, seed=seed, traces=traces or {})
    workload = draw(read)
    started_s, events, extra = _run(read, workload, progress or (lambda part: None))
    has_started = started_s >= 0
    has_finished = has_started & (started_s + workload.jobs.run_s <= read.end_s)
    return {
        "id": read.id,
        "seed": read.seed,
        "jobs": {
            "submitted": len(started_s),
            "started": int(has_started.sum()),
            "finished": int(has_finished.sum()),
        },
        **report(read, workload.entries, workload.jobs, started_s),
        "events": events,
        **extra,
    }


def _run(scenario: Scenario, workload: Workload, progress: Progress) -> tuple[FloatArray, int, dict[str, Any]]:
    assert scenario.algorithm is not None
    nodes = nodes_of(scenario, workload.entries, keeps_queues=False)
    plan = plan_of(scenario, len(workload.entries), nodes, is_flat=False, keeps_queues=False)
    state = indexable(empty_state(scenario, workload, plan))
    advance = loop.advance if fast.is_on() else fast.interpreted(loop.advance)
    advance(
        scenario.end_s, indexable(workload.arrivals), indexable(workload.leavings), indexable(workload.jobs),
        indexable(nodes), rule_of(scenario.algorithm, scenario.noise.resolution), plan, state,
    )  # fmt: skip
    return np.array(state.started_s), int(state.counters[N_EVENTS]), {}
