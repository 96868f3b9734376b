"""The event loop: arrivals, ends, withdrawals and refreshes in order of time; at each free processor one decision.

At one instant ends come first, then withdrawals, then a refresh, then arrivals. Written over single elements, so that
the same source runs on lists as plain Python and on arrays as machine code, with the same bits.
"""

from __future__ import annotations

import math
from heapq import heappop, heappush

from apps.engine.fast import compiled
from apps.engine.simulation.choosing import choose, refresh
from apps.engine.simulation.columns import (
    ACTIVE,
    HISTORICAL,
    N_EVENTS,
    N_HEARD,
    N_RUNNING,
    N_TOLD,
    NEXT_ARRIVAL,
    NEXT_LEAVING,
    NEXT_REFRESH,
    PENDING,
    PREDICTIVE,
    WITHDRAWN,
    Arrivals,
    Column,
    Jobs,
    Leavings,
    Nodes,
    Plan,
    Rule,
    State,
)
from apps.engine.simulation.reserving import add_busy, drop_busy, may_backfill, reservation

BACKFILL_DEPTH = 100  # pending jobs of one entry that are looked at for backfill


@compiled
def book(amount: float, slope: float, job: int, is_local: bool, jobs: Jobs, nodes: Nodes, plan: Plan, state: State) -> None:
    """Add to usage as a line over time: `amount + slope · t`."""
    place = jobs.place[job]
    if not is_local:
        state.pooled_base[place % plan.queues] += amount
        state.pooled_rate[place % plan.queues] += slope
        return
    queue = place % plan.queues
    slot = place // plan.queues * plan.width
    for i in range(nodes.booked_first[queue], nodes.booked_first[queue + 1]):
        n = slot + nodes.booked[i]
        state.base[n] += amount
        state.rate[n] += slope


@compiled
def book_start(at_s: float, job: int, jobs: Jobs, nodes: Nodes, plan: Plan, state: State) -> None:
    """What usage data says of a job once it runs: nothing, its elapsed time, or what it requested."""
    cpus = jobs.counted[job]
    for is_local in (True, False):
        approach = plan.local_approach if is_local else plan.global_approach
        if approach == ACTIVE:
            book(-cpus * at_s, cpus, job, is_local, jobs, nodes, plan, state)
        elif approach == PREDICTIVE:
            book(cpus * jobs.requested_s[job], 0.0, job, is_local, jobs, nodes, plan, state)


@compiled
def book_end(at_s: float, job: int, jobs: Jobs, nodes: Nodes, plan: Plan, state: State) -> None:
    """What usage data says of a job once it has ended: its run time, whatever was said before."""
    cpus = jobs.counted[job]
    for is_local in (True, False):
        approach = plan.local_approach if is_local else plan.global_approach
        if approach == HISTORICAL:
            book(cpus * jobs.run_s[job], 0.0, job, is_local, jobs, nodes, plan, state)
        elif approach == ACTIVE:
            book(cpus * at_s, -cpus, job, is_local, jobs, nodes, plan, state)
        else:
            book(cpus * (jobs.run_s[job] - jobs.requested_s[job]), 0.0, job, is_local, jobs, nodes, plan, state)


@compiled
def tell(at_s: float, told: int, jobs: Jobs, nodes: Nodes, plan: Plan, state: State) -> None:
    """A job started (its number) or ended (−1 − its number): booked at once, or put down for later."""
    if plan.delay_s > 0.0:
        n = state.counters[N_TOLD]
        state.told_s[n] = at_s
        state.told_job[n] = told
        state.counters[N_TOLD] = n + 1
    elif told >= 0:
        book_start(at_s, told, jobs, nodes, plan, state)
    else:
        book_end(at_s, -1 - told, jobs, nodes, plan, state)


@compiled
def hear(now_s: float, jobs: Jobs, nodes: Nodes, plan: Plan, state: State) -> None:
    """Book what was put down and is known by now."""
    n = state.counters[N_HEARD]
    while n < state.counters[N_TOLD] and state.told_s[n] <= now_s - plan.delay_s:
        told = state.told_job[n]
        if told >= 0:
            book_start(state.told_s[n], told, jobs, nodes, plan, state)
        else:
            book_end(state.told_s[n], -1 - told, jobs, nodes, plan, state)
        n += 1
    state.counters[N_HEARD] = n


@compiled
def change_waiting(by: int, place: int, nodes: Nodes, plan: Plan, state: State) -> None:
    """A queue has begun (1) or ceased (−1) to wait: its node and all above it know."""
    queue = place % plan.queues
    first = place // plan.queues * plan.nodes
    for i in range(nodes.climb_first[queue], nodes.climb_first[queue + 1]):
        state.alive[first + nodes.climb[i]] += by


@compiled
def skip_gone(place: int, nodes: Nodes, plan: Plan, state: State) -> None:
    """Let the queue begin with a job that is still pending."""
    job, tail = state.head[place], state.tail[place]
    while job < tail and state.started_s[job] != PENDING:
        job += 1
    state.head[place] = job
    if job == tail:
        change_waiting(-1, place, nodes, plan, state)


@compiled
def start(
    now_s: float, job: int, running: list[tuple[float, int]], jobs: Jobs, nodes: Nodes, plan: Plan, state: State
) -> None:
    """The job runs from now on."""
    place = jobs.place[job]
    site = place // plan.queues
    state.started_s[job] = now_s
    state.free[site] -= jobs.cpus[job]
    heappush(running, (now_s + jobs.run_s[job], job))
    tell(now_s, job, jobs, nodes, plan, state)
    if plan.backfills:
        add_busy(site, job, state)
    if job == state.head[place]:
        skip_gone(place, nodes, plan, state)


@compiled
def dispatch(
    now_s: float, site: int, running: list[tuple[float, int]],
    jobs: Jobs, nodes: Nodes, rule: Rule, plan: Plan, state: State,
) -> None:  # fmt: skip
    """Start what can be started; the first job that doesn't fit waits, and others may only fill the gap before it."""
    if plan.delay_s > 0.0:
        hear(now_s, jobs, nodes, plan, state)
    root = site * plan.nodes
    while state.free[site] > 0 and state.alive[root] > 0:
        queue = choose(now_s, site, jobs, nodes, rule, plan, state)
        job = state.head[site * plan.queues + queue]
        if jobs.cpus[job] > state.free[site]:
            if plan.backfills:
                backfill(now_s, site, job, running, jobs, nodes, rule, plan, state)
            return
        start(now_s, job, running, jobs, nodes, plan, state)


@compiled
def backfill(
    now_s: float, site: int, blocked: int, running: list[tuple[float, int]],
    jobs: Jobs, nodes: Nodes, rule: Rule, plan: Plan, state: State,
) -> None:  # fmt: skip
    """EASY: in order of priority, start what ends before the blocked job's reservation or leaves it enough."""
    at_s, left_over = reservation(now_s, site, jobs.cpus[blocked], jobs, state)
    n_hidden = 0
    while state.free[site] > 0 and state.alive[site * plan.nodes] > 0:
        place = site * plan.queues + choose(now_s, site, jobs, nodes, rule, plan, state)
        n_seen = 0
        job = state.head[place]
        while job < state.tail[place] and n_seen < BACKFILL_DEPTH:
            n_seen += 1 if state.started_s[job] == PENDING else 0
            if job != blocked and may_backfill(now_s, site, job, at_s, left_over, jobs, state):
                if now_s + jobs.requested_s[job] > at_s:
                    left_over -= jobs.cpus[job]
                start(now_s, job, running, jobs, nodes, plan, state)
            job += 1
        if state.head[place] < state.tail[place]:
            change_waiting(-1, place, nodes, plan, state)
            state.hidden[n_hidden] = place
            n_hidden += 1
    for i in range(n_hidden):
        change_waiting(1, state.hidden[i], nodes, plan, state)


@compiled
def withdraw(stream: int, only_queue: int, jobs: Jobs, nodes: Nodes, plan: Plan, state: State) -> None:
    """The stream has stopped: its pending jobs leave all queues."""
    for place in range(plan.sites * plan.queues):
        if only_queue >= 0 and place % plan.queues != only_queue:
            continue
        if state.head[place] == state.tail[place]:
            continue
        for job in range(state.head[place], state.tail[place]):
            if jobs.stream[job] == stream and state.started_s[job] == PENDING:
                state.started_s[job] = WITHDRAWN
        skip_gone(place, nodes, plan, state)


@compiled
def end(
    now_s: float, job: int, running: list[tuple[float, int]],
    jobs: Jobs, nodes: Nodes, rule: Rule, plan: Plan, state: State,
) -> None:  # fmt: skip
    """The job is done and its processors are free."""
    site = jobs.place[job] // plan.queues
    state.free[site] += jobs.cpus[job]
    tell(now_s, -1 - job, jobs, nodes, plan, state)
    if plan.backfills:
        drop_busy(site, job, state)
    dispatch(now_s, site, running, jobs, nodes, rule, plan, state)


@compiled
def arrive(
    stop_s: float, running: list[tuple[float, int]], arrivals: Arrivals,
    jobs: Jobs, nodes: Nodes, rule: Rule, plan: Plan, state: State,
) -> bool:  # fmt: skip
    """Queue what arrives before `stop_s`, until something may have started; whether it did so before that."""
    at_s, place_of = arrivals.at_s, arrivals.place
    head, tail, free = state.head, state.tail, state.free
    first = next_arrival = state.counters[NEXT_ARRIVAL]
    n_arrivals = len(at_s)
    may_have_started = False
    while next_arrival < n_arrivals and at_s[next_arrival] < stop_s and not may_have_started:
        place = place_of[next_arrival]
        if head[place] == tail[place]:
            head[place] = tail[place]
            change_waiting(1, place, nodes, plan, state)
        tail[place] += 1
        if free[place // plan.queues] > 0:
            dispatch(at_s[next_arrival], place // plan.queues, running, jobs, nodes, rule, plan, state)
            may_have_started = True
        next_arrival += 1
    state.counters[NEXT_ARRIVAL] = next_arrival
    state.counters[N_EVENTS] += next_arrival - first
    return may_have_started


@compiled
def advance(
    until_s: float, arrivals: Arrivals, leavings: Leavings, jobs: Jobs, nodes: Nodes, rule: Rule, plan: Plan,
    state: State,
) -> None:  # fmt: skip
    """Everything that happens before `until_s`, and the ends at that very instant."""
    counters: Column = state.counters
    running = [(0.0, 0) for _ in range(0)]
    for i in range(counters[N_RUNNING]):
        running.append((state.running_end_s[i], state.running_job[i]))
    while True:
        n_left = counters[NEXT_LEAVING]
        leaving_s = leavings.at_s[n_left] if n_left < len(leavings.at_s) else math.inf
        refresh_s = counters[NEXT_REFRESH] * plan.refresh_s if plan.refresh_s > 0.0 else math.inf
        stop_s = min(leaving_s, refresh_s, until_s)
        is_end = len(running) > 0 and running[0][0] <= stop_s
        if is_end:
            stop_s = running[0][0]
        if counters[NEXT_ARRIVAL] < len(arrivals.at_s) and arrivals.at_s[counters[NEXT_ARRIVAL]] < stop_s:
            if arrive(stop_s, running, arrivals, jobs, nodes, rule, plan, state):
                continue
        if is_end:
            now_s, job = heappop(running)
            end(now_s, job, running, jobs, nodes, rule, plan, state)
        elif stop_s >= until_s:
            break
        elif leaving_s <= refresh_s:
            counters[NEXT_LEAVING] += 1
            withdraw(leavings.stream[n_left], leavings.queue[n_left], jobs, nodes, plan, state)
            for site in range(plan.sites):
                dispatch(leaving_s, site, running, jobs, nodes, rule, plan, state)
        else:
            counters[NEXT_REFRESH] += 1
            hear(refresh_s, jobs, nodes, plan, state)
            refresh(max(0.0, refresh_s - plan.delay_s), nodes, rule, plan, state)
        counters[N_EVENTS] += 1
    hear(until_s, jobs, nodes, plan, state)
    counters[N_RUNNING] = len(running)
    for i in range(len(running)):
        state.running_end_s[i], state.running_job[i] = running[i]
