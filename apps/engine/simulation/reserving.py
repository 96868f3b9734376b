"""EASY backfill's one reservation: when the job at the head can start at the latest, and what is left over then."""

from __future__ import annotations

from apps.engine.fast import compiled
from apps.engine.simulation.columns import PENDING, Jobs, State


@compiled
def add_busy(site: int, job: int, state: State) -> None:
    """The job runs now."""
    last = state.n_busy[site]
    state.busy[state.busy_first[site] + last] = job
    state.seat[job] = last
    state.n_busy[site] = last + 1


@compiled
def drop_busy(site: int, job: int, state: State) -> None:
    """The job runs no longer; the last one takes its seat."""
    first, last = state.busy_first[site], state.n_busy[site] - 1
    moved = state.busy[first + last]
    state.busy[first + state.seat[job]] = moved
    state.seat[moved] = state.seat[job]
    state.n_busy[site] = last


@compiled
def reservation(now_s: float, site: int, needed: int, jobs: Jobs, state: State) -> tuple[float, int]:
    """(instant, left over): by when `needed` processors are free if all jobs run as long as they requested.

    A job that has run longer than it requested is taken to end now.
    """
    due_s, due_cpus = state.due_s, state.due_cpus
    n, first = state.n_busy[site], state.busy_first[site]
    for i in range(n):
        job = state.busy[first + i]
        due_s[i] = max(now_s, state.started_s[job] + jobs.requested_s[job])
        due_cpus[i] = jobs.cpus[job]
    free = state.free[site]
    at_s = now_s
    while free < needed and n > 0:
        soonest = 0
        for i in range(1, n):
            if due_s[i] < due_s[soonest]:
                soonest = i
        at_s = due_s[soonest]
        free += due_cpus[soonest]
        n -= 1
        due_s[soonest], due_cpus[soonest] = due_s[n], due_cpus[n]
    return at_s, free - needed


@compiled
def may_backfill(
    now_s: float, site: int, job: int, at_s: float, left_over: int, jobs: Jobs, state: State
) -> bool:
    """Pending, fits now, and is gone by the reservation or fits beside it."""
    if state.started_s[job] != PENDING or jobs.cpus[job] > state.free[site]:
        return False
    return now_s + jobs.requested_s[job] <= at_s or jobs.cpus[job] <= left_over  # type: ignore[no-any-return]
