"""Job-level priorities: the algorithms by name, and the one call that solves a case."""

from __future__ import annotations

from typing import Any

from apps.contrib.jobs.algorithms.base import CaseField, JobAlgorithm, Term, Variant
from apps.contrib.jobs.algorithms.gridengine import GRID_ENGINE
from apps.contrib.jobs.algorithms.htcondor import HTCONDOR
from apps.contrib.jobs.algorithms.sam import SAM
from apps.contrib.jobs.algorithms.slurm_multifactor import SLURM_MULTIFACTOR
from apps.engine.case_text import RepeatedKeys, read_id, shown
from apps.engine.errors import BadCase

__all__ = [
    "CaseField",
    "JobAlgorithm",
    "Term",
    "Variant",
    "all_job_algorithms",
    "get_job_algorithm",
    "name_of_algorithm",
    "solve_job_case",
]

_GRID_ENGINE_MARKS = ("preset", "weight_ticket", "weight_tickets_functional")
_ALGORITHMS: dict[str, JobAlgorithm] = {
    algorithm.name: algorithm for algorithm in (GRID_ENGINE, SLURM_MULTIFACTOR, HTCONDOR, SAM)
}


def all_job_algorithms() -> dict[str, JobAlgorithm]:
    """Every job algorithm by its name, in the order pages show them."""
    return dict(_ALGORITHMS)


def get_job_algorithm(name: object) -> JobAlgorithm:
    """The job algorithm of this name; BadCase if there is none."""
    algorithm = _ALGORITHMS.get(name) if isinstance(name, str) else None
    if algorithm is None:
        allowed = ", ".join(_ALGORITHMS)
        raise BadCase(f"unknown job algorithm {shown(name)}; allowed are {allowed}", place="algorithm.name")
    return algorithm


def solve_job_case(case: object) -> dict[str, Any]:
    """Compute the result of one case of `jobs`; raises EngineError with the location.

    A case without `algorithm` whose config has Grid Engine's weights is computed as Grid Engine.
    """
    if isinstance(case, BadCase):
        raise case
    if not isinstance(case, dict):
        raise BadCase("a case is an object with algorithm and jobs")
    if isinstance(case, RepeatedKeys):
        raise BadCase("given twice", place=case.repeated)
    read_id(case.get("id"))
    return get_job_algorithm(name_of_algorithm(case)).solve(case)


def name_of_algorithm(case: dict[str, Any]) -> object:
    """The algorithm that the case names, or Grid Engine if its config has its weights; otherwise BadCase."""
    if "algorithm" not in case:
        config = case.get("config")
        if isinstance(config, dict) and any(mark in config for mark in _GRID_ENGINE_MARKS):
            return "gridengine"
        raise BadCase(f'must be given, such as {{"name": "{next(iter(_ALGORITHMS), "sam")}"}}', place="algorithm")
    algorithm = case["algorithm"]
    if not isinstance(algorithm, dict):
        raise BadCase('must be an object such as {"name": "sam"}', place="algorithm")
    if isinstance(algorithm, RepeatedKeys):
        raise BadCase("given twice", place=f"algorithm.{algorithm.repeated}")
    return algorithm.get("name")
