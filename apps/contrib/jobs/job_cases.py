"""Job cases solved by the engine, with bounds on what one call may ask."""

from __future__ import annotations

from typing import Any

from apps.contrib.jobs.algorithms import solve_job_case
from apps.core.errors import FieldProblem, Invalid, TooLarge
from apps.engine.case_text import name_of
from apps.engine.errors import EngineError

MOST_CASE_JOBS = 10_000
MOST_CASES = 1_000


def explain_jobs(cases: list[Any], *, most_jobs: int | None = None) -> list[dict[str, Any]]:
    """Solve job cases, in order. No actor is needed: nothing is stored, and no data of the site is read.

    Raises:
        TooLarge: too many jobs or cases for one call.
        Invalid: the first invalid case, with the location of the problem.
    """
    refuse_many(cases, most_jobs=most_jobs)
    return [_solve(case, index) for index, case in enumerate(cases)]


def refuse_many(cases: list[Any], *, most_jobs: int | None = None) -> None:
    """Raise TooLarge for too many jobs or cases in one call."""
    if len(cases) > MOST_CASES:
        raise TooLarge(f"{len(cases)} cases in one call; the limit is {MOST_CASES}: send them in parts.")
    n_jobs, limit = sum(_count(case) for case in cases), MOST_CASE_JOBS if most_jobs is None else most_jobs
    if n_jobs > limit:
        raise TooLarge(f"{n_jobs} jobs in one call; the limit is {limit}: send them in parts.")


def _count(case: Any) -> int:
    lists = (case.get("jobs"), case.get("hidden_jobs")) if isinstance(case, dict) else ()
    return sum(len(jobs) for jobs in lists if isinstance(jobs, list))


def _solve(case: Any, index: int) -> dict[str, Any]:
    try:
        return solve_job_case(case)
    except EngineError as error:
        where = error.place or "case"
        message = f"Case {name_of(case, index)}: {where}: {error.message}."
        raise Invalid(message, code=error.code, fields=[FieldProblem(where, error.message)]) from error
