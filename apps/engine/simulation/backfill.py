"""EASY backfill's one reservation: when the job at the head can start at the latest, and what remains free then."""

from __future__ import annotations

from heapq import heapify, heappop

from apps.engine.fast import compiled
from apps.engine.simulation.columns import PENDING, Busy, Jobs, Machines


@compiled
def add_busy(site: int, job: int, busy: Busy) -> None:
    """The job runs now."""
    last = busy.count[site]
    busy.job[busy.first[site] + last] = job
    busy.seat[job] = last
    busy.count[site] = last + 1


@compiled
def drop_busy(site: int, job: int, busy: Busy) -> None:
    """The job runs no longer; the last one takes its seat."""
    first, last = busy.first[site], busy.count[site] - 1
    moved = busy.job[first + last]
    busy.job[first + busy.seat[job]] = moved
    busy.seat[moved] = busy.seat[job]
    busy.count[site] = last


@compiled
def reservation(now_s: float, site: int, needed: int, jobs: Jobs, machines: Machines, busy: Busy) -> tuple[float, int]:
    """(instant, remaining): by when `needed` processors are free if all jobs run as long as they requested.

    A job that has run longer than it requested is assumed to end now.
    """
    first = busy.first[site]
    due = [(now_s, 0) for _ in range(0)]
    for i in range(busy.count[site]):
        job = busy.job[first + i]
        due.append((max(now_s, machines.started_s[job] + jobs.requested_s[job]), jobs.cpus[job]))
    heapify(due)
    free = machines.free[site]
    at_s = now_s
    while free < needed and len(due) > 0:
        at_s, cpus = heappop(due)
        free += cpus
    return at_s, free - needed


@compiled
def may_backfill(
    now_s: float, site: int, job: int, at_s: float, left_over: int, jobs: Jobs, machines: Machines
) -> bool:
    """Pending, fits now, and is gone by the reservation or fits beside it."""
    if machines.started_s[job] != PENDING or jobs.cpus[job] > machines.free[site]:
        return False
    return now_s + jobs.requested_s[job] <= at_s or jobs.cpus[job] <= left_over  # type: ignore[no-any-return]
