"""The event loop: arrivals, ends, withdrawals and refreshes in order of time; at each free processor one decision.

At one instant ends come first, then withdrawals, then a refresh, then arrivals. Written over single elements, so that
one source runs on lists as plain Python and on arrays as machine code, with the same bits.
"""

from __future__ import annotations

import math
from heapq import heappop, heappush

from apps.engine.fast import compiled
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
    Books,
    Column,
    Jobs,
    Leavings,
    Nodes,
    Paths,
    Plan,
    Queues,
    Rule,
    State,
    Told,
)
from apps.engine.simulation.next_job import add_busy, choose, drop_busy, may_backfill, refresh, reservation

BACKFILL_DEPTH = 100  # pending jobs of one entry that are tried for backfill


@compiled
def book(amount: float, slope: float, place: int, is_local: bool, paths: Paths, plan: Plan, books: Books) -> None:
    """Add to usage as a line over time: `amount + slope · t`."""
    queue = place % plan.queues
    if not is_local:
        books.pooled_base[queue] += amount
        books.pooled_rate[queue] += slope
        return
    slot = place // plan.queues * plan.width
    for i in range(paths.booked_first[queue], paths.booked_first[queue + 1]):
        n = slot + paths.booked[i]
        books.base[n] += amount
        books.rate[n] += slope


@compiled
def book_start(at_s: float, job: int, jobs: Jobs, paths: Paths, plan: Plan, books: Books) -> None:
    """What usage data says of a job once it runs: nothing, its elapsed time, or what it requested."""
    cpus, place = jobs.counted[job], jobs.place[job]
    for is_local in (True, False):
        approach = plan.local_approach if is_local else plan.global_approach
        if approach == ACTIVE:
            book(-cpus * at_s, cpus, place, is_local, paths, plan, books)
        elif approach == PREDICTIVE:
            book(cpus * jobs.requested_s[job], 0.0, place, is_local, paths, plan, books)


@compiled
def book_end(at_s: float, job: int, jobs: Jobs, paths: Paths, plan: Plan, books: Books) -> None:
    """What usage data says of a job once it has ended: its run time, whatever was said before."""
    cpus, place = jobs.counted[job], jobs.place[job]
    for is_local in (True, False):
        approach = plan.local_approach if is_local else plan.global_approach
        if approach == HISTORICAL:
            book(cpus * jobs.run_s[job], 0.0, place, is_local, paths, plan, books)
        elif approach == ACTIVE:
            book(cpus * at_s, -cpus, place, is_local, paths, plan, books)
        else:
            book(cpus * (jobs.run_s[job] - jobs.requested_s[job]), 0.0, place, is_local, paths, plan, books)


@compiled
def tell(
    at_s: float, message: int, jobs: Jobs, paths: Paths, plan: Plan, books: Books, told: Told, counters: Column
) -> None:
    """A job started (its number) or ended (−1 − its number): booked at once, or put down for later."""
    if plan.delay_s > 0.0:
        n = counters[N_TOLD]
        told.at_s[n] = at_s
        told.job[n] = message
        counters[N_TOLD] = n + 1
    elif message >= 0:
        book_start(at_s, message, jobs, paths, plan, books)
    else:
        book_end(at_s, -1 - message, jobs, paths, plan, books)


@compiled
def hear(now_s: float, jobs: Jobs, paths: Paths, plan: Plan, books: Books, told: Told, counters: Column) -> None:
    """Book what was put down and is known by now."""
    n = counters[N_HEARD]
    while n < counters[N_TOLD] and told.at_s[n] <= now_s - plan.delay_s:
        if told.job[n] >= 0:
            book_start(told.at_s[n], told.job[n], jobs, paths, plan, books)
        else:
            book_end(told.at_s[n], -1 - told.job[n], jobs, paths, plan, books)
        n += 1
    counters[N_HEARD] = n


@compiled
def change_waiting(by: int, place: int, paths: Paths, plan: Plan, alive: Column) -> None:
    """A queue has begun (1) or ceased (−1) to wait: its node and all above it know."""
    queue = place % plan.queues
    first = place // plan.queues * plan.nodes
    for i in range(paths.climb_first[queue], paths.climb_first[queue + 1]):
        alive[first + paths.climb[i]] += by


@compiled
def skip_gone(place: int, paths: Paths, plan: Plan, queues: Queues, started_s: Column) -> None:
    """Let the queue begin with a job that is still pending."""
    job, tail = queues.head[place], queues.tail[place]
    while job < tail and started_s[job] != PENDING:
        job += 1
    queues.head[place] = job
    if job == tail:
        change_waiting(-1, place, paths, plan, queues.alive)


@compiled
def start(
    now_s: float, job: int, running: list[tuple[float, int]], jobs: Jobs, paths: Paths, plan: Plan, state: State
) -> None:
    """The job runs from now on."""
    place = jobs.place[job]
    site = place // plan.queues
    state.machines.started_s[job] = now_s
    state.machines.free[site] -= jobs.cpus[job]
    heappush(running, (now_s + jobs.run_s[job], job))
    tell(now_s, job, jobs, paths, plan, state.books, state.told, state.counters)
    if plan.backfills:
        add_busy(site, job, state.busy)
    if job == state.queues.head[place]:
        skip_gone(place, paths, plan, state.queues, state.machines.started_s)


@compiled
def dispatch(
    now_s: float,
    site: int,
    running: list[tuple[float, int]],
    jobs: Jobs,
    nodes: Nodes,
    paths: Paths,
    rule: Rule,
    plan: Plan,
    state: State,
) -> None:
    """Start what can be started; the first job that doesn't fit waits, and others may only fill the gap before it."""
    if plan.delay_s > 0.0:
        hear(now_s, jobs, paths, plan, state.books, state.told, state.counters)
    free, alive, head = state.machines.free, state.queues.alive, state.queues.head
    root = site * plan.nodes
    while free[site] > 0 and alive[root] > 0:
        queue = choose(now_s, site, jobs.order, nodes, rule, plan, state.queues, state.books, state.sheet)
        job = head[site * plan.queues + queue]
        if jobs.cpus[job] > free[site]:
            if plan.backfills:
                backfill(now_s, site, job, running, jobs, nodes, paths, rule, plan, state)
            return
        start(now_s, job, running, jobs, paths, plan, state)


@compiled
def backfill(
    now_s: float,
    site: int,
    blocked: int,
    running: list[tuple[float, int]],
    jobs: Jobs,
    nodes: Nodes,
    paths: Paths,
    rule: Rule,
    plan: Plan,
    state: State,
) -> None:
    """EASY: in order of priority, start what ends before the blocked job's reservation or leaves it enough."""
    machines, queues = state.machines, state.queues
    at_s, left_over = reservation(now_s, site, jobs.cpus[blocked], jobs, machines, state.busy)
    n_hidden = 0
    while machines.free[site] > 0 and queues.alive[site * plan.nodes] > 0:
        queue = choose(now_s, site, jobs.order, nodes, rule, plan, queues, state.books, state.sheet)
        place = site * plan.queues + queue
        n_seen = 0
        job = queues.head[place]
        while job < queues.tail[place] and n_seen < BACKFILL_DEPTH:
            n_seen += 1 if machines.started_s[job] == PENDING else 0
            if job != blocked and may_backfill(now_s, site, job, at_s, left_over, jobs, machines):
                if now_s + jobs.requested_s[job] > at_s:
                    left_over -= jobs.cpus[job]
                start(now_s, job, running, jobs, paths, plan, state)
            job += 1
        if queues.head[place] < queues.tail[place]:
            change_waiting(-1, place, paths, plan, queues.alive)
            state.busy.hidden[n_hidden] = place
            n_hidden += 1
    for i in range(n_hidden):
        change_waiting(1, state.busy.hidden[i], paths, plan, queues.alive)


@compiled
def withdraw(
    stream: int, only_queue: int, jobs: Jobs, paths: Paths, plan: Plan, queues: Queues, started_s: Column
) -> None:
    """The stream has stopped: its pending jobs leave all queues."""
    for site in range(plan.sites):
        for queue in range(plan.queues) if only_queue < 0 else range(only_queue, only_queue + 1):
            place = site * plan.queues + queue
            for job in range(queues.head[place], queues.tail[place]):
                if jobs.stream[job] == stream and started_s[job] == PENDING:
                    started_s[job] = WITHDRAWN
            if queues.head[place] < queues.tail[place]:
                skip_gone(place, paths, plan, queues, started_s)


@compiled
def end(now_s: float, job: int, jobs: Jobs, paths: Paths, plan: Plan, state: State) -> int:
    """The job is done and its processors are free: the site that may start another."""
    site = jobs.place[job] // plan.queues
    state.machines.free[site] += jobs.cpus[job]
    tell(now_s, -1 - job, jobs, paths, plan, state.books, state.told, state.counters)
    if plan.backfills:
        drop_busy(site, job, state.busy)
    return site  # type: ignore[no-any-return]


@compiled
def arrive(
    stop_s: float, arrivals: Arrivals, paths: Paths, plan: Plan, queues: Queues, free: Column, counters: Column
) -> int:
    """Queue what arrives before `stop_s`, up to the first job whose site has a free processor: that site, else −1."""
    at_s, place_of = arrivals.at_s, arrivals.place
    head, tail = queues.head, queues.tail
    first = next_arrival = counters[NEXT_ARRIVAL]
    n_arrivals = len(at_s)
    n_queues = plan.queues
    site = -1
    while site < 0 and next_arrival < n_arrivals and at_s[next_arrival] < stop_s:
        place = place_of[next_arrival]
        if head[place] == tail[place]:
            change_waiting(1, place, paths, plan, queues.alive)
        tail[place] += 1
        next_arrival += 1
        if free[place // n_queues] > 0:
            site = place // n_queues
    counters[NEXT_ARRIVAL] = next_arrival
    counters[N_EVENTS] += next_arrival - first
    return site


@compiled
def advance(
    until_s: float,
    arrivals: Arrivals,
    leavings: Leavings,
    jobs: Jobs,
    nodes: Nodes,
    paths: Paths,
    rule: Rule,
    plan: Plan,
    state: State,
) -> None:
    """Everything that happens before `until_s`, and the ends at that very instant."""
    counters: Column = state.counters
    running = [(0.0, 0) for _ in range(0)]
    for i in range(counters[N_RUNNING]):
        running.append((state.machines.running_end_s[i], state.machines.running_job[i]))
    while True:
        n_left, n_arrived = counters[NEXT_LEAVING], counters[NEXT_ARRIVAL]
        leaving_s = leavings.at_s[n_left] if n_left < len(leavings.at_s) else math.inf
        refresh_s = counters[NEXT_REFRESH] * plan.refresh_s if plan.refresh_s > 0.0 else math.inf
        stop_s = min(leaving_s, refresh_s, until_s)
        is_end = len(running) > 0 and running[0][0] <= stop_s
        if is_end:
            stop_s = running[0][0]
        first_site = last_site = -1
        now_s = arrivals.at_s[n_arrived] if n_arrived < len(arrivals.at_s) else math.inf
        if now_s < stop_s:
            first_site = arrive(stop_s, arrivals, paths, plan, state.queues, state.machines.free, counters)
            now_s = arrivals.at_s[counters[NEXT_ARRIVAL] - 1]
            last_site = first_site
        if first_site < 0:
            if is_end:
                now_s, job = heappop(running)
                first_site = last_site = end(now_s, job, jobs, paths, plan, state)
            elif stop_s >= until_s:
                break
            elif leaving_s <= refresh_s:
                now_s = leaving_s
                counters[NEXT_LEAVING] += 1
                stream, queue = leavings.stream[n_left], leavings.queue[n_left]
                withdraw(stream, queue, jobs, paths, plan, state.queues, state.machines.started_s)
                first_site, last_site = 0, plan.sites - 1
            else:
                counters[NEXT_REFRESH] += 1
                hear(refresh_s, jobs, paths, plan, state.books, state.told, counters)
                refresh(max(0.0, refresh_s - plan.delay_s), nodes, paths, rule, plan, state.books, state.sheet)
                first_site, last_site = 0, -1
            counters[N_EVENTS] += 1
        for site in range(first_site, last_site + 1):
            dispatch(now_s, site, running, jobs, nodes, paths, rule, plan, state)
    hear(until_s, jobs, paths, plan, state.books, state.told, counters)
    counters[N_RUNNING] = len(running)
    for i in range(len(running)):
        state.machines.running_end_s[i], state.machines.running_job[i] = running[i]
