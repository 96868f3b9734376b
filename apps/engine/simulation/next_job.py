"""Which entry a site starts next: components level by level among those with pending jobs.

Written over single elements, so that one source runs on lists as plain Python and on arrays as machine code, with
the same bits. Source: Elmroth, Gardfjäll, *Decentralized System for Grid-wide Fairshare Scheduling*, §4.
"""

from __future__ import annotations

import math
from heapq import heapify, heappop

from apps.engine import codecs, operators
from apps.engine.fast import compiled
from apps.engine.simulation.columns import (
    PENDING,
    Books,
    Busy,
    Column,
    Jobs,
    Machines,
    Nodes,
    Paths,
    Plan,
    Queues,
    Rule,
    Sheet,
)

GRIDWIDE, ABSOLUTE, RELATIVE, RELATIVE_N, SIGMOID, SIGMOID_N, SLURM, COMBINED = range(8)
ON_TARGET_TOLERANCE = operators.ON_TARGET_TOLERANCE
SMALLEST = operators.SMALLEST
_component_of = compiled(codecs.component_of)


@compiled
def component(target: float, actual: float, rule: Rule) -> float:
    """The component of an entry: deviation in points for `gridwide`, else the operator at resolution r."""
    if rule.coarse > 0.0:
        actual = math.floor(actual * rule.coarse + 0.5) / rule.coarse
    larger = target if target > actual else actual
    gap = target - actual
    if abs(gap) <= ON_TARGET_TOLERANCE * larger:
        value = 0.0
    elif rule.kind == GRIDWIDE:
        value = gap * 100.0
    elif rule.kind == ABSOLUTE:
        value = gap
    elif rule.kind == RELATIVE:
        value = gap / larger
    elif rule.kind == RELATIVE_N:
        value = math.copysign(max(abs(gap / larger) ** rule.exponent, SMALLEST), gap)
    elif rule.kind == SIGMOID:
        value = math.sin(math.pi / 2 * (gap / larger))
    elif rule.kind == SIGMOID_N:
        value = math.copysign(abs(math.sin(math.pi / 2 * (gap / larger))) ** (1.0 / rule.exponent), gap)
    elif rule.kind == SLURM:
        value = math.pow(rule.two, 1.0 - actual / target) - 1.0 if target > 0.0 else -1.0
    else:
        value = rule.mix * gap + (1.0 - rule.mix) * math.copysign(abs(gap / larger) ** rule.two, gap)
    if rule.kind == GRIDWIDE:
        return value
    return _component_of(value, rule.resolution)


@compiled
def refresh(seen_s: float, nodes: Nodes, paths: Paths, rule: Rule, plan: Plan, books: Books, sheet: Sheet) -> None:
    """Usage over all sites as of `seen_s`, and the components of all entries compared by it."""
    total, pooled, pooled_first = sheet.measured, paths.pooled, paths.pooled_first
    for n in range(plan.nodes):
        total[n] = 0.0
    for q in range(plan.queues):
        usage = max(0.0, books.pooled_base[q] + books.pooled_rate[q] * seen_s)
        for i in range(pooled_first[q], pooled_first[q + 1]):
            total[pooled[i]] += usage
    for g in range(len(paths.groups)):
        begin = nodes.first[paths.groups[g]]
        end = begin + nodes.count[paths.groups[g]]
        whole = 0.0
        for n in range(begin, end):
            whole += total[n]
        for n in range(begin, end):
            if nodes.is_seat[n]:
                sheet.component[n] = rule.pad
            else:
                sheet.component[n] = component(nodes.target[n], total[n] / whole if whole > 0.0 else 0.0, rule)


@compiled
def measure(
    seen_s: float,
    site: int,
    node: int,
    nodes: Nodes,
    rule: Rule,
    plan: Plan,
    alive: Column,
    base: Column,
    rate: Column,
    measured: Column,
) -> None:
    """The components of a group's children by the usage that the site has booked; only of those who wait."""
    begin = nodes.first[node]
    end = begin + nodes.count[node]
    slot = site * plan.width
    whole = 0.0
    for n in range(begin, end):
        usage = max(0.0, base[slot + n] + rate[slot + n] * seen_s)
        measured[n] = usage
        whole += usage
    waiting = site * plan.nodes
    for n in range(begin, end):
        if alive[waiting + n] > 0:
            if nodes.is_seat[n]:
                measured[n] = rule.pad
            else:
                measured[n] = component(nodes.target[n], measured[n] / whole if whole > 0.0 else 0.0, rule)


@compiled
def choose(
    now_s: float,
    site: int,
    order: Column,
    nodes: Nodes,
    rule: Rule,
    plan: Plan,
    queues: Queues,
    books: Books,
    sheet: Sheet,
) -> int:
    """The queue to start from: level by level the child that is furthest ahead among those with pending jobs."""
    alive, is_shared = queues.alive, nodes.is_shared
    waiting = site * plan.nodes
    node = 0
    while True:
        values, offset = sheet.component, site * plan.stride
        if not is_shared[node]:
            seen_s = max(0.0, now_s - plan.delay_s)
            measure(seen_s, site, node, nodes, rule, plan, alive, books.base, books.rate, sheet.measured)
            values, offset = sheet.measured, 0
        best, second, ahead = -math.inf, -math.inf, node
        begin = nodes.first[node]
        for n in range(begin, begin + nodes.count[node]):
            if alive[waiting + n] > 0:
                value = values[offset + n]
                if value > best:
                    best, second, ahead = value, best, n
                elif value > second:
                    second = value
        if best - second <= rule.tie:
            return choose_among_ties(now_s, site, node, order, nodes, rule, plan, queues, books, sheet)
        node = ahead
        if nodes.queue[node] >= 0:
            return nodes.queue[node]  # type: ignore[no-any-return]


@compiled
def choose_among_ties(
    now_s: float,
    site: int,
    node: int,
    order: Column,
    nodes: Nodes,
    rule: Rule,
    plan: Plan,
    queues: Queues,
    books: Books,
    sheet: Sheet,
) -> int:
    """The next level for all whose ancestors tie, shorter vectors padded; finally by the first job."""
    front, front_value, alive = sheet.front, sheet.front_value, queues.alive
    waiting = site * plan.nodes
    front[0] = node
    n_front = 1
    is_open = True
    while is_open:
        is_open = False
        n_found = plan.nodes  # found ones go behind those they come from
        for i in range(n_front):
            above = front[i]
            if nodes.queue[above] >= 0:
                front[n_found], front_value[n_found] = above, rule.pad
                n_found += 1
                continue
            is_open = True
            values, offset = sheet.component, site * plan.stride
            if not nodes.is_shared[above]:
                seen_s = max(0.0, now_s - plan.delay_s)
                measure(seen_s, site, above, nodes, rule, plan, alive, books.base, books.rate, sheet.measured)
                values, offset = sheet.measured, 0
            begin = nodes.first[above]
            for n in range(begin, begin + nodes.count[above]):
                if alive[waiting + n] > 0:
                    front[n_found], front_value[n_found] = n, values[offset + n]
                    n_found += 1
        if is_open:
            n_front = keep_ahead(n_found, rule.tie, plan.nodes, front, front_value)
    place = site * plan.queues
    first = nodes.queue[front[0]]
    for i in range(1, n_front):
        queue = nodes.queue[front[i]]
        if order[queues.head[place + queue]] < order[queues.head[place + first]]:
            first = queue
    return first  # type: ignore[no-any-return]


@compiled
def keep_ahead(n_found: int, tie: float, begin: int, front: Column, front_value: Column) -> int:
    """Move the found ones that are ahead, or tie with the next one ahead, to the beginning; return how many."""
    low = -math.inf
    for i in range(begin, n_found):
        low = max(low, front_value[i])
    is_lower = True
    while is_lower:
        is_lower = False
        for i in range(begin, n_found):
            if front_value[i] < low and low - front_value[i] <= tie:
                low = front_value[i]
                is_lower = True
    n_front = 0
    for i in range(begin, n_found):
        if front_value[i] >= low:
            front[n_front] = front[i]
            n_front += 1
    return n_front


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
