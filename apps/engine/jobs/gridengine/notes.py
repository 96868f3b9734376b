"""What an answer says of a case as a whole: users registered or deleted automatically, jobs beyond a limit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from apps.engine.jobs.fields import plain
from apps.engine.jobs.gridengine.inputs.case import Case, State
from apps.engine.jobs.gridengine.tickets import Dealt

_MOST_LISTED = 6  # names in a sentence


def about_all(case: Case, dealt: Dealt) -> dict[str, Any]:
    """Sums of tickets by state where any job takes part; jobs beyond a limit and notes where there are some."""
    found: dict[str, Any] = {}
    if dealt.of:
        found["totals"] = {"running": _totals(case, dealt, "running"), "pending": _totals(case, dealt, "pending")}
    if dealt.beyond:
        found["beyond_limit"] = {
            "setting": "max_functional_jobs_to_schedule",
            "limit": case.config.max_functional_jobs,
            "n_jobs": len(dealt.beyond),
            "jobs": [job.id for job in dealt.beyond],
        }
    sentences = [*_of_users(case), *_of_limit(case, dealt)]
    return {**found, "notes": sentences} if sentences else found


def _totals(case: Case, dealt: Dealt, state: State) -> dict[str, float]:
    """Tickets of all jobs in this state, by policy; pending jobs may have more than there are to give."""
    rows = [dealt.of[job] for job in case.in_state(state)]
    return {
        "tckts": math.fsum(row.total.value for row in rows),
        "otckt": math.fsum(row.override.value for row in rows),
        "ftckt": math.fsum(row.functional.value for row in rows),
        "stckt": math.fsum(row.share_tree.value for row in rows),
    }


def _of_users(case: Case) -> list[str]:
    config = case.config
    found = []
    is_given = config.auto_user_fshare > 0 or config.auto_user_oticket > 0
    registered = [name for name in case.registered if is_given or name in case.deleted]
    if registered:
        tickets = f" and {plain(config.auto_user_oticket)} override tickets" if config.auto_user_oticket > 0 else ""
        found.append(
            f"{_counted(len(registered), 'user')} without an entry registered automatically, with "
            f"{plain(config.auto_user_fshare)} functional shares{tickets} (auto_user_fshare): {_listed(registered)}."
        )
    if case.deleted:
        found.append(
            f"{_counted(len(case.deleted), 'automatic user')} deleted with shares, tickets and usage after "
            f"{plain(config.auto_user_delete_time_s)} s without jobs (auto_user_delete_time): {_listed(case.deleted)}."
        )
    return found


def _of_limit(case: Case, dealt: Dealt) -> list[str]:
    if not dealt.beyond:
        return []
    limit, n_beyond = case.config.max_functional_jobs, len(dealt.beyond)
    get = "get none" if limit == 0 else "get what the next job of the same owners would get"
    return [
        f"max_functional_jobs_to_schedule is {limit}: of {limit + n_beyond} pending jobs with functional shares "
        f"{n_beyond} are beyond it and {get}: {_listed([job.id for job in dealt.beyond])}."
    ]


def _counted(n: int, what: str) -> str:
    return f"1 {what} is" if n == 1 else f"{n} {what}s are"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MOST_LISTED
    return ", ".join(names[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")
