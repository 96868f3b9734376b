"""Simulated sites that have SAM's queue instead of priorities.

An arriving job is put at the front or at the back of the queue of its site, and keeps this position.
Source: *Generic Fair Share Scheduling Using Priority-Based Queuing*; the decision is that of the job algorithm `sam`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, NamedTuple

import numpy as np

from apps.contrib.lab.simulation.columns import (
    N_EVENTS,
    N_RUNNING,
    NEXT_ARRIVAL,
    NEXT_DEPARTURE,
    PENDING,
    WITHDRAWN,
    Arrivals,
    Column,
    Departures,
    Jobs,
    State,
    execution_for,
)
from apps.contrib.lab.simulation.next_job import add_busy, drop_busy, may_backfill, reservation
from apps.contrib.lab.simulation.scenario import BOOKED_AT, Scenario
from apps.contrib.lab.simulation.sites import empty_state, flat_nodes, plan_of
from apps.contrib.lab.simulation.workload import Workload
from apps.engine.algorithms.inputs import prepare
from apps.engine.arrays import FloatArray, IntArray
from apps.engine.fast import compiled, compiled_borrowing

AT_START, AT_END, AT_SUBMIT = range(3)  # in the order of `scenario.BOOKED_AT`
BACK, FRONT = 0, 1
TIE = 1e-12  # relative; jobs of a group that would reach exactly its share go to the back
BACKFILL_DEPTH = 100


class SamQueues(NamedTuple):
    """The queues of all sites. Each has classes: 0 is the back, 1 the front, the others priority groups, highest last.

    first, last: job by site · classes + class, −1 for none. behind: by job, the next job of its class. share: by entry.
    received: booked benefit by ledger · queues + entry. total: by ledger. There is one ledger for each site, or one for
    all sites. class_of: by stream, −1 for streams under fair share.
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


@compiled_borrowing
def book(job: int, moment: int, jobs: Jobs, sam: SamQueues) -> None:
    """Book the job's benefit, processors × run time, for its group if benefit is booked at this `moment`."""
    if sam.booked_at != moment or sam.class_of[jobs.stream[job]] >= 0:
        return
    benefit = jobs.cpus[job] * jobs.run_s[job]
    ledger = jobs.site_queue[job] // sam.queues if sam.ledgers > 1 else 0
    sam.received[ledger * sam.queues + jobs.site_queue[job] % sam.queues] += benefit
    sam.total[ledger] += benefit


@compiled_borrowing
def goes_to_front(job: int, jobs: Jobs, sam: SamQueues) -> bool:
    """Whether (B[g] + b) / (ΣB + b) < share[g] for the job's benefit b and the benefit B booked so far."""
    benefit = jobs.cpus[job] * jobs.run_s[job]
    queue = jobs.site_queue[job] % sam.queues
    ledger = jobs.site_queue[job] // sam.queues if sam.ledgers > 1 else 0
    fraction = (sam.received[ledger * sam.queues + queue] + benefit) / (sam.total[ledger] + benefit)
    return sam.share[queue] - fraction > TIE * max(sam.share[queue], fraction)  # type: ignore[no-any-return]


@compiled_borrowing
def enqueue(job: int, jobs: Jobs, sam: SamQueues) -> None:
    """Put the job in its class: at the very front under `lifo`, else behind earlier arrivals."""
    chosen = sam.class_of[jobs.stream[job]]
    if chosen < 0:
        chosen = FRONT if goes_to_front(job, jobs, sam) else BACK
    book(job, AT_SUBMIT, jobs, sam)
    at = jobs.site_queue[job] // sam.queues * sam.classes + chosen
    if sam.first[at] < 0:
        sam.first[at] = sam.last[at] = job
    elif chosen == FRONT and sam.is_lifo:
        sam.behind[job] = sam.first[at]
        sam.first[at] = job
    else:
        sam.behind[sam.last[at]] = job
        sam.last[at] = job


@compiled_borrowing
def next_pending(site: int, sam: SamQueues, state: State) -> int:
    """The next pending job of the site, −1 for none; removes started and withdrawn jobs from the heads."""
    for chosen in range(sam.classes - 1, -1, -1):
        at = site * sam.classes + chosen
        while sam.first[at] >= 0 and state.machines.started_s[sam.first[at]] != PENDING:
            sam.first[at] = sam.behind[sam.first[at]]
        if sam.first[at] >= 0:
            return sam.first[at]  # type: ignore[no-any-return]
    return -1


@compiled_borrowing
def start(now_s: float, site: int, job: int, jobs: Jobs, sam: SamQueues, state: State) -> float:
    """Start the job now; return when it ends."""
    state.machines.started_s[job] = now_s
    state.machines.free[site] -= jobs.cpus[job]
    book(job, AT_START, jobs, sam)
    if sam.backfills:
        add_busy(site, job, state.busy)
    return now_s + jobs.run_s[job]  # type: ignore[no-any-return]


@compiled
def dispatch(
    now_s: float, site: int, running: list[tuple[float, int]], jobs: Jobs, sam: SamQueues, state: State
) -> None:
    """Start jobs from the head of the queue; behind one that doesn't fit, only jobs that don't delay it."""
    while state.machines.free[site] > 0:
        job = next_pending(site, sam, state)
        if job < 0:
            return
        if jobs.cpus[job] > state.machines.free[site]:
            if sam.backfills:
                backfill(now_s, site, job, running, jobs, sam, state)
            return
        heappush(running, (start(now_s, site, job, jobs, sam, state), job))


@compiled
def backfill(
    now_s: float, site: int, blocked: int, running: list[tuple[float, int]], jobs: Jobs, sam: SamQueues, state: State
) -> None:
    """EASY backfill in the order of the queue."""
    at_s, n_spare = reservation(now_s, site, jobs.cpus[blocked], jobs, state.machines, state.busy)
    n_tried = 0
    for chosen in range(sam.classes - 1, -1, -1):
        job = sam.first[site * sam.classes + chosen]
        while job >= 0 and n_tried < BACKFILL_DEPTH and state.machines.free[site] > 0:
            n_tried += 1 if state.machines.started_s[job] == PENDING else 0
            if job != blocked and may_backfill(now_s, site, job, at_s, n_spare, jobs, state.machines):
                if now_s + jobs.requested_s[job] > at_s:
                    n_spare -= jobs.cpus[job]
                heappush(running, (start(now_s, site, job, jobs, sam, state), job))
            job = sam.behind[job]


@compiled_borrowing
def withdraw(stream: int, only_queue: int, jobs: Jobs, sam: SamQueues, first_job: Column, started_s: Column) -> None:
    """Withdraw the pending jobs of a stream that has stopped, from one queue or (only_queue < 0) from all."""
    for site in range(sam.sites):
        for queue in range(sam.queues) if only_queue < 0 else range(only_queue, only_queue + 1):
            site_queue = site * sam.queues + queue
            last = first_job[site_queue + 1] if site_queue + 1 < len(first_job) else len(started_s)
            for job in range(first_job[site_queue], last):
                if jobs.stream[job] == stream and started_s[job] == PENDING:
                    started_s[job] = WITHDRAWN


@compiled
def advance_sam_site(
    until_s: float, arrivals: Arrivals, departures: Departures, jobs: Jobs, sam: SamQueues, state: State
) -> None:
    """Process all events before `until_s`, and the ends at exactly that instant."""
    counters: Column = state.counters
    running = [(0.0, 0) for _ in range(0)]
    for i in range(counters[N_RUNNING]):
        running.append((state.machines.running_end_s[i], state.machines.running_job[i]))
    while True:
        n_arrived, n_departed = counters[NEXT_ARRIVAL], counters[NEXT_DEPARTURE]
        departure_s = departures.at_s[n_departed] if n_departed < len(departures.at_s) else math.inf
        arrival_s = arrivals.at_s[n_arrived] if n_arrived < len(arrivals.at_s) else math.inf
        stop_s = min(departure_s, arrival_s, until_s)
        if len(running) > 0 and running[0][0] <= stop_s:
            now_s, job = heappop(running)
            site = jobs.site_queue[job] // sam.queues
            state.machines.free[site] += jobs.cpus[job]
            book(job, AT_END, jobs, sam)
            if sam.backfills:
                drop_busy(site, job, state.busy)
            dispatch(now_s, site, running, jobs, sam, state)
        elif stop_s >= until_s:
            break
        elif departure_s <= arrival_s:
            counters[NEXT_DEPARTURE] += 1
            stream, queue = departures.stream[n_departed], departures.queue[n_departed]
            withdraw(stream, queue, jobs, sam, state.queues.head, state.machines.started_s)
            for site in range(sam.sites):
                dispatch(departure_s, site, running, jobs, sam, state)
        else:
            counters[NEXT_ARRIVAL] += 1
            job = arrivals.job[n_arrived]
            enqueue(job, jobs, sam)
            dispatch(arrival_s, arrivals.site_queue[n_arrived] // sam.queues, running, jobs, sam, state)
        counters[N_EVENTS] += 1
    counters[N_RUNNING] = len(running)
    for i in range(len(running)):
        state.machines.running_end_s[i], state.machines.running_job[i] = running[i]


def run_sam(scenario: Scenario, workload: Workload) -> tuple[Callable[[float], None], State, SamQueues]:
    """(function that runs the sites up to an instant, their state, their queues)."""
    n_queues = len(workload.entries)
    nodes, paths = flat_nodes(n_queues)
    plan = plan_of(scenario, n_queues, nodes, paths, is_flat=True, books_queues=False)
    execution = execution_for(len(workload.jobs.site_queue))
    state = execution.columns(empty_state(scenario, workload, plan))
    sam = execution.columns(empty_queues(scenario, workload.entries, len(workload.jobs.site_queue)))
    columns: tuple[Any, ...] = tuple(map(execution.columns, (workload.arrivals, workload.departures, workload.jobs)))
    advance: Callable[..., None] = execution.loop(advance_sam_site)
    return (lambda until_s: advance(until_s, *columns, sam, state)), state, sam


def empty_queues(scenario: Scenario, entries: IntArray, n_jobs: int) -> SamQueues:
    """Queues before the first event. Each site has a ledger if the root's scope is local, otherwise one is shared."""
    assert scenario.sam is not None  # noqa: S101 - the caller has checked
    classes = sorted({stream.priority for stream in scenario.streams if stream.priority is not None})
    class_of = [-1 if s.priority is None else 2 + classes.index(s.priority) for s in scenario.streams]
    n_sites, n_ledgers = len(scenario.sites), 1 if scenario.scope_is_global[0] else len(scenario.sites)
    n_classes = 2 + len(classes)
    return SamQueues(
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
    """Global shares of the leaves, (n,), with sum 1; 0 for entries that run only jobs of priority groups."""
    tree = scenario.policy.tree
    prepared = prepare(tree)
    share = np.where(tree.is_ranked & ~tree.inherits, prepared.spread(prepared.target_global), 0.0)
    for entry in _entries_of(scenario, is_fair=False) - _entries_of(scenario, is_fair=True):
        share[entry] = 0.0
    total = float(share.sum())
    return share / total if total > 0 else share


def booked_shares(scenario: Scenario, entries: IntArray, sam: SamQueues) -> dict[str, float | None]:
    """Booked benefit as a part of all, by path of the fair-share groups; None if nothing is booked."""
    fair = _entries_of(scenario, is_fair=True)
    received = np.asarray(sam.received, dtype=np.float64).reshape(-1, len(entries)).sum(axis=0)
    total = float(received.sum())
    return {
        scenario.policy.paths[entry]: float(received[queue]) / total if total > 0 else None
        for queue, entry in enumerate(entries.tolist())
        if entry in fair
    }


def _entries_of(scenario: Scenario, *, is_fair: bool) -> set[int]:
    """Entries that run jobs under fair share (is_fair), or those that run jobs of priority groups."""
    entries: set[int] = set()
    for stream in scenario.streams:
        if (stream.priority is None) == is_fair:
            entries |= {stream.entry} if stream.trace is None else set(stream.trace.entry.tolist())
    return entries
