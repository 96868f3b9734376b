"""Numbers at the ends of what doubles hold, in cases of jobs."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import pytest

from apps.contrib.jobs.algorithms import solve_job_case
from apps.engine.errors import EngineError

JOB_CASES: list[dict[str, Any]] = [
    {
        "algorithm": {"name": "gridengine"},
        "config": {"weight_ticket": 1, "weight_tickets_functional": 100, "weight_user": 1},
        "users": [{"name": "a", "fshare": 3, "oticket": 2}, {"name": "b", "fshare": 1, "oticket": 0}],
        "jobs": [{"id": "1", "user": "a", "submitted_s_ago": 9}, {"id": "2", "user": "b", "submitted_s_ago": 1}],
    },
    {
        "algorithm": {"name": "slurm-multifactor"},
        "weights": {"age": 1000, "fairshare": 100, "tres": 5},
        "jobs": [{"id": "1", "age": 0.5, "fairshare": 0.5, "site": 3, "nice": 2}],
    },
    {
        "algorithm": {"name": "htcondor"},
        "half_life_s": 60,
        "passed_s": 5,
        "default_factor": 10,
        "submitters": [
            {"name": "a", "real": 3, "factor": 2, "cores": 4, "uncharged_core_s": 8},
            {"name": "b", "effective": 70, "factor": 9},
        ],
        "jobs": [{"id": "1.0", "submitter": "a", "job_prio": 3}, {"id": "2", "submitter": "c", "post_job_prio1": 1}],
    },
    {
        "algorithm": {"name": "sam"},
        "shares": {"a": 1, "b": 2},
        "benefit": {"a": 3, "b": 4},
        "jobs": [{"id": "1", "group": "a", "benefit": 1.5}, {"id": "2", "group": "b", "benefit": 2}],
    },
]


@pytest.mark.parametrize("given", JOB_CASES, ids=lambda given: given["algorithm"]["name"])
def test_extreme_job_numbers_are_computed_or_reported(given: dict[str, Any]) -> None:
    numbers, n_answered = (1e300, 1.7e308, 5e-324, 1e-300, 10**400, -1e308, 1e15), 0
    for seed in range(150):
        draw = Random(seed)

        def changed(value: Any, draw: Random = draw) -> Any:
            if isinstance(value, dict):
                return {name: changed(each) for name, each in value.items()}
            if isinstance(value, list):
                return [changed(each) for each in value]
            return draw.choice(numbers) if isinstance(value, int | float) and draw.random() < 0.2 else value

        try:
            answer = solve_job_case(changed(given))
        except EngineError as problem:
            assert problem.place  # noqa: PT017 - it may be answered as well
        else:
            n_answered += 1
            assert json.dumps(answer, allow_nan=False)
    assert n_answered
