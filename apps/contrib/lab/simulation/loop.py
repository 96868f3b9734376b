"""The event loop: arrivals, ends, withdrawals and refreshes in order of time, and decisions at free processors.

At one instant ends come first, then withdrawals, then a refresh, then arrivals. Written over single elements, so that
one source runs on lists as plain Python and on arrays as machine code, with the same bits.
"""

from __future__ import annotations

import math
from heapq import heappop, heappush

from apps.contrib.lab.simulation.columns import (
    ACTIVE,
    HISTORICAL,
    N_DELAYED,
    N_DELAYED_BOOKED,
    N_EVENTS,
    N_RUNNING,
    NEXT_ARRIVAL,
    NEXT_DEPARTURE,
    NEXT_REFRESH,
    PENDING,
    PREDICTIVE,
    WITHDRAWN,
    Arrivals,
    Column,
    Departures,
    Jobs,
    Model,
    Paths,
    Plan,
    Queues,
    State,
    UsageSums,
)
from apps.contrib.lab.simulation.next_job import add_busy, choose, drop_busy, may_backfill, refresh, reservation
from apps.engine.fast import compiled, compiled_borrowing

BACKFILL_DEPTH = 100  # pending jobs of one entry that are tried for backfill


@compiled_borrowing
def book(
    amount: float, slope: float, site_queue: int, is_local: bool, paths: Paths, plan: Plan, usage_sums: UsageSums
) -> None:
    """Add `amount + slope · t` to the usage over time, at the site (is_local) or over all sites."""
    queue = site_queue % plan.queues
    if not is_local:
        usage_sums.pooled_base[queue] += amount
        usage_sums.pooled_rate[queue] += slope
        return
    slot = site_queue // plan.queues * plan.width
    for i in range(paths.booked_first[queue], paths.booked_first[queue + 1]):
        n = slot + paths.booked[i]
        usage_sums.base[n] += amount
        usage_sums.rate[n] += slope


@compiled_borrowing
def book_start(at_s: float, job: int, model: Model, usage_sums: UsageSums) -> None:
    """Book a started job: nothing, its elapsed time, or its requested time, by approach."""
    jobs, plan = model.jobs, model.plan
    cpus, site_queue = jobs.counted[job], jobs.site_queue[job]
    for is_local in (True, False):
        approach = plan.local_approach if is_local else plan.global_approach
        if approach == ACTIVE:
            book(-cpus * at_s, cpus, site_queue, is_local, model.paths, plan, usage_sums)
        elif approach == PREDICTIVE:
            book(cpus * jobs.requested_s[job], 0.0, site_queue, is_local, model.paths, plan, usage_sums)


@compiled_borrowing
def book_end(at_s: float, job: int, model: Model, usage_sums: UsageSums) -> None:
    """Book the run time of an ended job, less what was booked at its start."""
    jobs, plan = model.jobs, model.plan
    cpus, site_queue = jobs.counted[job], jobs.site_queue[job]
    for is_local in (True, False):
        approach = plan.local_approach if is_local else plan.global_approach
        if approach == HISTORICAL:
            book(cpus * jobs.run_s[job], 0.0, site_queue, is_local, model.paths, plan, usage_sums)
        elif approach == ACTIVE:
            book(cpus * at_s, -cpus, site_queue, is_local, model.paths, plan, usage_sums)
        else:
            amount = cpus * (jobs.run_s[job] - jobs.requested_s[job])
            book(amount, 0.0, site_queue, is_local, model.paths, plan, usage_sums)


@compiled_borrowing
def report(at_s: float, message: int, model: Model, state: State) -> None:
    """Report the start of a job (its number) or its end (−1 − its number): book it now, or after the delay."""
    if model.plan.delay_s > 0.0:
        n = state.counters[N_DELAYED]
        state.delayed.at_s[n] = at_s
        state.delayed.job[n] = message
        state.counters[N_DELAYED] = n + 1
    elif message >= 0:
        book_start(at_s, message, model, state.usage_sums)
    else:
        book_end(at_s, -1 - message, model, state.usage_sums)


@compiled_borrowing
def book_delayed(now_s: float, model: Model, state: State) -> None:
    """Book the delayed reports whose delay is over."""
    delayed, counters = state.delayed, state.counters
    n = counters[N_DELAYED_BOOKED]
    while n < counters[N_DELAYED] and delayed.at_s[n] <= now_s - model.plan.delay_s:
        if delayed.job[n] >= 0:
            book_start(delayed.at_s[n], delayed.job[n], model, state.usage_sums)
        else:
            book_end(delayed.at_s[n], -1 - delayed.job[n], model, state.usage_sums)
        n += 1
    counters[N_DELAYED_BOOKED] = n


@compiled_borrowing
def change_waiting(by: int, site_queue: int, paths: Paths, plan: Plan, n_waiting: Column) -> None:
    """Count a queue as waiting (by = 1) or no longer waiting (−1) in its node and all above it."""
    queue = site_queue % plan.queues
    first = site_queue // plan.queues * plan.nodes
    for i in range(paths.climb_first[queue], paths.climb_first[queue + 1]):
        n_waiting[first + paths.climb[i]] += by


@compiled_borrowing
def skip_started(site_queue: int, paths: Paths, plan: Plan, queues: Queues, started_s: Column) -> None:
    """Advance the head of the queue to the next pending job."""
    job, tail = queues.head[site_queue], queues.tail[site_queue]
    while job < tail and started_s[job] != PENDING:
        job += 1
    queues.head[site_queue] = job
    if job == tail:
        change_waiting(-1, site_queue, paths, plan, queues.n_waiting)


@compiled_borrowing
def start(now_s: float, job: int, model: Model, state: State) -> float:
    """Start the job now; return when it ends."""
    jobs, plan, machines = model.jobs, model.plan, state.machines
    site_queue = jobs.site_queue[job]
    site = site_queue // plan.queues
    machines.started_s[job] = now_s
    machines.free[site] -= jobs.cpus[job]
    report(now_s, job, model, state)
    if plan.backfills:
        add_busy(site, job, state.busy)
    if job == state.queues.head[site_queue]:
        skip_started(site_queue, model.paths, plan, state.queues, machines.started_s)
    return now_s + jobs.run_s[job]  # type: ignore[no-any-return]


@compiled
def dispatch(now_s: float, site: int, running: list[tuple[float, int]], model: Model, state: State) -> None:
    """Start jobs in order of priority until one doesn't fit; others may then only fill the gap before it (backfill)."""
    plan, jobs = model.plan, model.jobs
    if plan.delay_s > 0.0:
        book_delayed(now_s, model, state)
    free, n_waiting, head = state.machines.free, state.queues.n_waiting, state.queues.head
    root = site * plan.nodes
    while free[site] > 0 and n_waiting[root] > 0:
        queue = choose(now_s, site, model, state)
        job = head[site * plan.queues + queue]
        if jobs.cpus[job] > free[site]:
            if plan.backfills:
                backfill(now_s, site, job, running, model, state)
            return
        heappush(running, (start(now_s, job, model, state), job))


@compiled
def backfill(
    now_s: float, site: int, blocked: int, running: list[tuple[float, int]], model: Model, state: State
) -> None:
    """EASY backfill: in order of priority, start jobs that don't delay the blocked job's reservation."""
    jobs, paths, plan = model.jobs, model.paths, model.plan
    machines, queues = state.machines, state.queues
    at_s, n_spare = reservation(now_s, site, jobs.cpus[blocked], jobs, machines, state.busy)
    n_hidden = 0
    n_left = plan.most_tried
    while machines.free[site] > 0 and queues.n_waiting[site * plan.nodes] > 0 and n_left > 0:
        queue = choose(now_s, site, model, state)
        site_queue = site * plan.queues + queue
        n_tried = 0
        job = queues.head[site_queue]
        while job < queues.tail[site_queue] and n_tried < BACKFILL_DEPTH and n_left > 0:
            is_pending = 1 if machines.started_s[job] == PENDING else 0
            n_tried += is_pending
            n_left -= is_pending
            if job != blocked and may_backfill(now_s, site, job, at_s, n_spare, jobs, machines):
                if now_s + jobs.requested_s[job] > at_s:
                    n_spare -= jobs.cpus[job]
                heappush(running, (start(now_s, job, model, state), job))
            job += 1
        if queues.head[site_queue] < queues.tail[site_queue]:
            change_waiting(-1, site_queue, paths, plan, queues.n_waiting)
            state.busy.hidden[n_hidden] = site_queue
            n_hidden += 1
    for i in range(n_hidden):
        change_waiting(1, state.busy.hidden[i], paths, plan, queues.n_waiting)


@compiled_borrowing
def withdraw(
    stream: int, only_queue: int, jobs: Jobs, paths: Paths, plan: Plan, queues: Queues, started_s: Column
) -> None:
    """Withdraw the pending jobs of a stream that has stopped, from one queue or (only_queue < 0) from all."""
    for site in range(plan.sites):
        for queue in range(plan.queues) if only_queue < 0 else range(only_queue, only_queue + 1):
            site_queue = site * plan.queues + queue
            for job in range(queues.head[site_queue], queues.tail[site_queue]):
                if jobs.stream[job] == stream and started_s[job] == PENDING:
                    started_s[job] = WITHDRAWN
            if queues.head[site_queue] < queues.tail[site_queue]:
                skip_started(site_queue, paths, plan, queues, started_s)


@compiled_borrowing
def end(now_s: float, job: int, model: Model, state: State) -> int:
    """End the job and return its site, whose processors are free now."""
    site = model.jobs.site_queue[job] // model.plan.queues
    state.machines.free[site] += model.jobs.cpus[job]
    report(now_s, -1 - job, model, state)
    if model.plan.backfills:
        drop_busy(site, job, state.busy)
    return site  # type: ignore[no-any-return]


@compiled_borrowing
def arrive(stop_s: float, arrivals: Arrivals, paths: Paths, plan: Plan, state: State) -> int:
    """Queue arrivals before `stop_s`, up to the first at a site with a free processor; return that site, else −1."""
    at_s, site_queue_of = arrivals.at_s, arrivals.site_queue
    head, tail, free, counters = state.queues.head, state.queues.tail, state.machines.free, state.counters
    first = next_arrival = counters[NEXT_ARRIVAL]
    n_arrivals = len(at_s)
    n_queues = plan.queues
    site = -1
    while site < 0 and next_arrival < n_arrivals and at_s[next_arrival] < stop_s:
        site_queue = site_queue_of[next_arrival]
        if head[site_queue] == tail[site_queue]:
            change_waiting(1, site_queue, paths, plan, state.queues.n_waiting)
        tail[site_queue] += 1
        next_arrival += 1
        if free[site_queue // n_queues] > 0:
            site = site_queue // n_queues
    counters[NEXT_ARRIVAL] = next_arrival
    counters[N_EVENTS] += next_arrival - first
    return site


@compiled
def advance(until_s: float, arrivals: Arrivals, departures: Departures, model: Model, state: State) -> None:
    """Process all events before `until_s`, and the ends at exactly that instant."""
    counters: Column = state.counters
    plan, machines = model.plan, state.machines
    running = [(0.0, 0) for _ in range(0)]
    for i in range(counters[N_RUNNING]):
        running.append((machines.running_end_s[i], machines.running_job[i]))
    while True:
        n_departed, n_arrived = counters[NEXT_DEPARTURE], counters[NEXT_ARRIVAL]
        departure_s = departures.at_s[n_departed] if n_departed < len(departures.at_s) else math.inf
        refresh_s = counters[NEXT_REFRESH] * plan.refresh_s if plan.refresh_s > 0.0 else math.inf
        stop_s = min(departure_s, refresh_s, until_s)
        is_end = len(running) > 0 and running[0][0] <= stop_s
        if is_end:
            stop_s = running[0][0]
        first_site = last_site = -1
        now_s = arrivals.at_s[n_arrived] if n_arrived < len(arrivals.at_s) else math.inf
        if now_s < stop_s:
            first_site = arrive(stop_s, arrivals, model.paths, plan, state)
            now_s = arrivals.at_s[counters[NEXT_ARRIVAL] - 1]
            last_site = first_site
        if first_site < 0:
            if is_end:
                now_s, job = heappop(running)
                first_site = last_site = end(now_s, job, model, state)
            elif stop_s >= until_s:
                break
            elif departure_s <= refresh_s:
                now_s = departure_s
                counters[NEXT_DEPARTURE] += 1
                stream, queue = departures.stream[n_departed], departures.queue[n_departed]
                withdraw(stream, queue, model.jobs, model.paths, plan, state.queues, machines.started_s)
                first_site, last_site = 0, plan.sites - 1
            else:
                counters[NEXT_REFRESH] += 1
                book_delayed(refresh_s, model, state)
                refresh(max(0.0, refresh_s - plan.delay_s), model, state)
                first_site, last_site = 0, -1
            counters[N_EVENTS] += 1
        for site in range(first_site, last_site + 1):
            dispatch(now_s, site, running, model, state)
    book_delayed(until_s, model, state)
    counters[N_RUNNING] = len(running)
    for i in range(len(running)):
        machines.running_end_s[i], machines.running_job[i] = running[i]
