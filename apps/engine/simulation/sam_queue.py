"""Sites with SAM's queue instead of priorities: before the first event, during the run, and booked in the end.

A site with SAM's queue instead of priorities: jobs are put at its front or its back when they come, and stay there.
Source: *Generic Fair Share Scheduling Using Priority-Based Queuing*; the decision is that of the job algorithm `sam`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np

from apps.engine.algorithms.inputs import prepare
from apps.engine.arrays import FloatArray, IntArray
from apps.engine.fast import compiled
from apps.engine.simulation.columns import (
    N_EVENTS,
    N_RUNNING,
    NEXT_ARRIVAL,
    NEXT_LEAVING,
    PENDING,
    WITHDRAWN,
    Arrivals,
    Column,
    Jobs,
    Leavings,
    State,
    form_for,
)
from apps.engine.simulation.next_job import add_busy, drop_busy, may_backfill, reservation
from apps.engine.simulation.scenario import BOOKED_AT, Scenario
from apps.engine.simulation.sites import empty_state, flat_nodes, plan_of
from apps.engine.simulation.workload import Workload

AT_START, AT_END, AT_SUBMIT = range(3)  # in the order of a scenario's words
BACK, FRONT = 0, 1
TIE = 1e-12  # relative; a group that comes to exactly its share goes to the back
BACKFILL_DEPTH = 100


class Line(NamedTuple):
    """The queues of all sites. Class 0 is the back, 1 the front, the rest are priority groups, highest last.

    first, last: job by site · classes + class, −1 for none. behind: by job, the next one in its class. share: by queue
    (entry). received, total: benefit by ledger · queues + queue and by ledger; a ledger is a site, or all of them.
    class_of: by stream, −1 for the fair ones.
    """

    first: Column
    last: Column
    behind: Column
    share: Column
    received: Column
    total: Column
    class_of: Column
    classes: int
    sites: int
    queues: int
    ledgers: int
    booked_at: int
    is_lifo: bool
    backfills: bool


@compiled
def book(job: int, moment: int, jobs: Jobs, line: Line) -> None:
    """Count the job's benefit, processors × run time, for its group if this is the moment for it."""
    if line.booked_at != moment or line.class_of[jobs.stream[job]] >= 0:
        return
    benefit = jobs.cpus[job] * jobs.run_s[job]
    ledger = jobs.place[job] // line.queues if line.ledgers > 1 else 0
    line.received[ledger * line.queues + jobs.place[job] % line.queues] += benefit
    line.total[ledger] += benefit


@compiled
def goes_to_front(job: int, jobs: Jobs, line: Line) -> bool:
    """(B[g] + b) / (ΣB + b) < share[g], by what is booked now."""
    benefit = jobs.cpus[job] * jobs.run_s[job]
    queue = jobs.place[job] % line.queues
    ledger = jobs.place[job] // line.queues if line.ledgers > 1 else 0
    fraction = (line.received[ledger * line.queues + queue] + benefit) / (line.total[ledger] + benefit)
    return line.share[queue] - fraction > TIE * max(line.share[queue], fraction)  # type: ignore[no-any-return]


@compiled
def line_up(job: int, jobs: Jobs, line: Line) -> None:
    """Put the job in its class: at the very front under `lifo`, else behind those who came before."""
    chosen = line.class_of[jobs.stream[job]]
    if chosen < 0:
        chosen = FRONT if goes_to_front(job, jobs, line) else BACK
    book(job, AT_SUBMIT, jobs, line)
    at = jobs.place[job] // line.queues * line.classes + chosen
    if line.first[at] < 0:
        line.first[at] = line.last[at] = job
    elif chosen == FRONT and line.is_lifo:
        line.behind[job] = line.first[at]
        line.first[at] = job
    else:
        line.behind[line.last[at]] = job
        line.last[at] = job


@compiled
def first_in_line(site: int, line: Line, state: State) -> int:
    """The job that is next, −1 for none; drops those from the head that are gone."""
    for chosen in range(line.classes - 1, -1, -1):
        at = site * line.classes + chosen
        while line.first[at] >= 0 and state.machines.started_s[line.first[at]] != PENDING:
            line.first[at] = line.behind[line.first[at]]
        if line.first[at] >= 0:
            return line.first[at]  # type: ignore[no-any-return]
    return -1


@compiled
def start(
    now_s: float, site: int, job: int, running: list[tuple[float, int]], jobs: Jobs, line: Line, state: State
) -> None:
    """The job runs from now on."""
    state.machines.started_s[job] = now_s
    state.machines.free[site] -= jobs.cpus[job]
    heappush(running, (now_s + jobs.run_s[job], job))
    book(job, AT_START, jobs, line)
    if line.backfills:
        add_busy(site, job, state.busy)


@compiled
def dispatch(now_s: float, site: int, running: list[tuple[float, int]], jobs: Jobs, line: Line, state: State) -> None:
    """Start from the head of the line; behind a head that doesn't fit only what doesn't delay it."""
    while state.machines.free[site] > 0:
        job = first_in_line(site, line, state)
        if job < 0:
            return
        if jobs.cpus[job] > state.machines.free[site]:
            if line.backfills:
                backfill(now_s, site, job, running, jobs, line, state)
            return
        start(now_s, site, job, running, jobs, line, state)


@compiled
def backfill(
    now_s: float, site: int, blocked: int, running: list[tuple[float, int]], jobs: Jobs, line: Line, state: State
) -> None:
    """EASY in the order of the line."""
    at_s, left_over = reservation(now_s, site, jobs.cpus[blocked], jobs, state.machines, state.busy)
    n_seen = 0
    for chosen in range(line.classes - 1, -1, -1):
        job = line.first[site * line.classes + chosen]
        while job >= 0 and n_seen < BACKFILL_DEPTH and state.machines.free[site] > 0:
            n_seen += 1 if state.machines.started_s[job] == PENDING else 0
            if job != blocked and may_backfill(now_s, site, job, at_s, left_over, jobs, state.machines):
                if now_s + jobs.requested_s[job] > at_s:
                    left_over -= jobs.cpus[job]
                start(now_s, site, job, running, jobs, line, state)
            job = line.behind[job]


@compiled
def withdraw(stream: int, only_queue: int, jobs: Jobs, line: Line, first_job: Column, started_s: Column) -> None:
    """The stream has stopped: its pending jobs are gone from all lines."""
    for site in range(line.sites):
        for queue in range(line.queues) if only_queue < 0 else range(only_queue, only_queue + 1):
            place = site * line.queues + queue
            last = first_job[place + 1] if place + 1 < len(first_job) else len(started_s)
            for job in range(first_job[place], last):
                if jobs.stream[job] == stream and started_s[job] == PENDING:
                    started_s[job] = WITHDRAWN


@compiled
def advance_sam_site(
    until_s: float, arrivals: Arrivals, leavings: Leavings, jobs: Jobs, line: Line, state: State
) -> None:
    """Everything that happens before `until_s`, and the ends at that very instant."""
    counters: Column = state.counters
    running = [(0.0, 0) for _ in range(0)]
    for i in range(counters[N_RUNNING]):
        running.append((state.machines.running_end_s[i], state.machines.running_job[i]))
    while True:
        n_arrived, n_left = counters[NEXT_ARRIVAL], counters[NEXT_LEAVING]
        leaving_s = leavings.at_s[n_left] if n_left < len(leavings.at_s) else math.inf
        arrival_s = arrivals.at_s[n_arrived] if n_arrived < len(arrivals.at_s) else math.inf
        stop_s = min(leaving_s, arrival_s, until_s)
        if len(running) > 0 and running[0][0] <= stop_s:
            now_s, job = heappop(running)
            site = jobs.place[job] // line.queues
            state.machines.free[site] += jobs.cpus[job]
            book(job, AT_END, jobs, line)
            if line.backfills:
                drop_busy(site, job, state.busy)
            dispatch(now_s, site, running, jobs, line, state)
        elif stop_s >= until_s:
            break
        elif leaving_s <= arrival_s:
            counters[NEXT_LEAVING] += 1
            stream, queue = leavings.stream[n_left], leavings.queue[n_left]
            withdraw(stream, queue, jobs, line, state.queues.head, state.machines.started_s)
            for site in range(line.sites):
                dispatch(leaving_s, site, running, jobs, line, state)
        else:
            counters[NEXT_ARRIVAL] += 1
            job = arrivals.job[n_arrived]
            line_up(job, jobs, line)
            dispatch(arrival_s, arrivals.place[n_arrived] // line.queues, running, jobs, line, state)
        counters[N_EVENTS] += 1
    counters[N_RUNNING] = len(running)
    for i in range(len(running)):
        state.machines.running_end_s[i], state.machines.running_job[i] = running[i]


# --- Stations ---------------------------------------------------------------------------------------------------------
def run_sam(scenario: Scenario, workload: Workload) -> tuple[Callable[[float], None], State, Line]:
    """(a function that runs the sites up to an instant, their state, their lines)."""
    n_queues = len(workload.entries)
    nodes, paths = flat_nodes(n_queues)
    plan = plan_of(scenario, n_queues, nodes, paths, is_flat=True, keeps_queues=False)
    form = form_for(len(workload.jobs.place))
    state = form.columns(empty_state(scenario, workload, plan))
    line = form.columns(empty_line(scenario, workload.entries, len(workload.jobs.place)))
    given: tuple[Any, ...] = tuple(map(form.columns, (workload.arrivals, workload.leavings, workload.jobs)))
    advance: Callable[..., None] = form.loop(advance_sam_site)
    return (lambda until_s: advance(until_s, *given, line, state)), state, line


def empty_line(scenario: Scenario, entries: IntArray, n_jobs: int) -> Line:
    """No job waits and nothing is booked; sites keep books of their own where the root's scope is local."""
    assert scenario.sam is not None  # noqa: S101 - the caller has checked
    classes = sorted({stream.priority for stream in scenario.streams if stream.priority is not None})
    class_of = [-1 if s.priority is None else 2 + classes.index(s.priority) for s in scenario.streams]
    n_sites, n_ledgers = len(scenario.sites), 1 if scenario.scope_is_global[0] else len(scenario.sites)
    n_classes = 2 + len(classes)
    return Line(
        first=np.full(n_sites * n_classes, -1, dtype=np.int64),
        last=np.full(n_sites * n_classes, -1, dtype=np.int64),
        behind=np.full(n_jobs, -1, dtype=np.int64),
        share=fair_shares(scenario)[entries],
        received=np.zeros(n_ledgers * len(entries)),
        total=np.zeros(n_ledgers),
        class_of=np.array(class_of, dtype=np.int64),
        classes=n_classes,
        sites=n_sites,
        queues=len(entries),
        ledgers=n_ledgers,
        booked_at=BOOKED_AT.index(scenario.sam.booked_at),
        is_lifo=scenario.sam.front == "lifo",
        backfills=scenario.backfill,
    )


def fair_shares(scenario: Scenario) -> FloatArray:
    """Shares of the leaves in the whole, (n,), sum 1 without those that only run jobs of priority groups."""
    tree = scenario.policy.tree
    prepared = prepare(tree)
    share = np.where(tree.is_ranked & ~tree.inherits, prepared.spread(prepared.target_global), 0.0)
    for entry in _entries_of(scenario, is_fair=False) - _entries_of(scenario, is_fair=True):
        share[entry] = 0.0
    whole = float(share.sum())
    return share / whole if whole > 0 else share


def booked_shares(scenario: Scenario, entries: IntArray, line: Line) -> dict[str, float | None]:
    """Parts of all booked benefit, by path of the fair-share groups; null while nothing is booked."""
    fair = _entries_of(scenario, is_fair=True)
    received = np.asarray(line.received, dtype=np.float64).reshape(-1, len(entries)).sum(axis=0)
    whole = float(received.sum())
    return {
        scenario.policy.paths[entry]: float(received[queue]) / whole if whole > 0 else None
        for queue, entry in enumerate(entries.tolist())
        if entry in fair
    }


def _entries_of(scenario: Scenario, *, is_fair: bool) -> set[int]:
    """Who runs jobs outside (or of) priority groups."""
    found: set[int] = set()
    for stream in scenario.streams:
        if (stream.priority is None) == is_fair:
            found |= {stream.entry} if stream.trace is None else set(stream.trace.entry.tolist())
    return found
