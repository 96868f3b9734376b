"""Choose the queue that a site starts a job from: compare components level by level among entries with pending jobs.

Written over single elements, so that one source runs on lists as plain Python and on arrays as machine code, with
the same bits. Source: Elmroth, Gardfjäll, *Decentralized System for Grid-wide Fairshare Scheduling*, §4.
"""

from __future__ import annotations

import math
from heapq import heapify, heappop

from apps.contrib.lab.simulation.columns import (
    PENDING,
    Busy,
    Column,
    Jobs,
    Machines,
    Model,
    Rule,
    State,
)
from apps.contrib.lab.simulation.kinds import (
    ABSOLUTE,
    GRIDWIDE,
    RELATIVE,
    RELATIVE_N,
    SIGMOID,
    SIGMOID_N,
    SLURM,
)
from apps.engine import codecs, operators
from apps.engine.fast import compiled, compiled_borrowing

ON_TARGET_TOLERANCE = operators.ON_TARGET_TOLERANCE
SMALLEST = operators.SMALLEST
_component_of = compiled_borrowing(codecs.component_of)


@compiled_borrowing
def component(target: float, actual: float, rule: Rule) -> float:
    """The component of an entry: deviation in points for `gridwide`, else the operator's priority at resolution r."""
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


@compiled_borrowing
def refresh(seen_s: float, model: Model, state: State) -> None:
    """Recompute the components that are compared by usage over all sites, from usage booked by `seen_s`."""
    nodes, paths, plan = model.nodes, model.paths, model.plan
    usage_sums, components = state.usage_sums, state.components
    total, pooled, pooled_first = components.measured, paths.pooled, paths.pooled_first
    for n in range(plan.nodes):
        total[n] = 0.0
    for q in range(plan.queues):
        usage = max(0.0, usage_sums.pooled_base[q] + usage_sums.pooled_rate[q] * seen_s)
        for i in range(pooled_first[q], pooled_first[q + 1]):
            total[pooled[i]] += usage
    for g in range(len(paths.groups)):
        begin = nodes.first[paths.groups[g]]
        end = begin + nodes.count[paths.groups[g]]
        group_total = 0.0
        for n in range(begin, end):
            group_total += total[n]
        for n in range(begin, end):
            if nodes.is_padding[n]:
                components.component[n] = model.rule.pad
            else:
                actual = total[n] / group_total if group_total > 0.0 else 0.0
                components.component[n] = component(nodes.target[n], actual, model.rule)


@compiled_borrowing
def measure(seen_s: float, site: int, node: int, model: Model, state: State) -> None:
    """Compute the components of a group's children from usage booked at the site; only those with pending jobs."""
    nodes, plan, measured = model.nodes, model.plan, state.components.measured
    base, rate, n_waiting = state.usage_sums.base, state.usage_sums.rate, state.queues.n_waiting
    begin = nodes.first[node]
    end = begin + nodes.count[node]
    slot = site * plan.width
    group_usage = 0.0
    for n in range(begin, end):
        usage = max(0.0, base[slot + n] + rate[slot + n] * seen_s)
        measured[n] = usage
        group_usage += usage
    waiting = site * plan.nodes
    for n in range(begin, end):
        if n_waiting[waiting + n] > 0:
            if nodes.is_padding[n]:
                measured[n] = model.rule.pad
            else:
                actual = measured[n] / group_usage if group_usage > 0.0 else 0.0
                measured[n] = component(nodes.target[n], actual, model.rule)


@compiled_borrowing
def choose(now_s: float, site: int, model: Model, state: State) -> int:
    """The queue to start from: level by level the child that is furthest ahead among those with pending jobs."""
    nodes, plan, n_waiting = model.nodes, model.plan, state.queues.n_waiting
    is_shared = nodes.is_shared
    waiting = site * plan.nodes
    node = 0
    while True:
        values, offset = state.components.component, site * plan.stride
        if not is_shared[node]:
            measure(max(0.0, now_s - plan.delay_s), site, node, model, state)
            values, offset = state.components.measured, 0
        best, second, ahead = -math.inf, -math.inf, node
        begin = nodes.first[node]
        for n in range(begin, begin + nodes.count[node]):
            if n_waiting[waiting + n] > 0:
                value = values[offset + n]
                if value > best:
                    best, second, ahead = value, best, n
                elif value > second:
                    second = value
        if best - second <= model.rule.tie:
            return choose_among_ties(now_s, site, node, model, state)
        node = ahead
        if nodes.queue[node] >= 0:
            return nodes.queue[node]  # type: ignore[no-any-return]


@compiled_borrowing
def choose_among_ties(now_s: float, site: int, node: int, model: Model, state: State) -> int:
    """Compare the next level of all tied nodes, shorter vectors padded; in a full tie the first arrival is chosen."""
    nodes, rule, plan = model.nodes, model.rule, model.plan
    front, front_value = state.components.front, state.components.front_value
    queues, order = state.queues, model.jobs.order
    waiting = site * plan.nodes
    front[0] = node
    n_front = 1
    is_open = True
    while is_open:
        is_open = False
        n_found = plan.nodes  # the next front is written behind the present one
        for i in range(n_front):
            parent = front[i]
            if nodes.queue[parent] >= 0:
                front[n_found], front_value[n_found] = parent, rule.pad
                n_found += 1
                continue
            is_open = True
            values, offset = state.components.component, site * plan.stride
            if not nodes.is_shared[parent]:
                measure(max(0.0, now_s - plan.delay_s), site, parent, model, state)
                values, offset = state.components.measured, 0
            begin = nodes.first[parent]
            for n in range(begin, begin + nodes.count[parent]):
                if queues.n_waiting[waiting + n] > 0:
                    front[n_found], front_value[n_found] = n, values[offset + n]
                    n_found += 1
        if is_open:
            n_front = keep_ahead(n_found, rule.tie, plan.nodes, front, front_value)
    first_queue = site * plan.queues
    first = nodes.queue[front[0]]
    for i in range(1, n_front):
        queue = nodes.queue[front[i]]
        if order[queues.head[first_queue + queue]] < order[queues.head[first_queue + first]]:
            first = queue
    return first  # type: ignore[no-any-return]


@compiled_borrowing
def keep_ahead(n_found: int, tie: float, begin: int, front: Column, front_value: Column) -> int:
    """Move the found nodes that are ahead, or tie with one that is, to the beginning of `front`; return how many."""
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


@compiled_borrowing
def add_busy(site: int, job: int, busy: Busy) -> None:
    """Add a started job to the running jobs of its site."""
    last = busy.count[site]
    busy.job[busy.first[site] + last] = job
    busy.offset[job] = last
    busy.count[site] = last + 1


@compiled_borrowing
def drop_busy(site: int, job: int, busy: Busy) -> None:
    """Remove an ended job from the running jobs of its site; the last one takes its index."""
    first, last = busy.first[site], busy.count[site] - 1
    moved = busy.job[first + last]
    busy.job[first + busy.offset[job]] = moved
    busy.offset[moved] = busy.offset[job]
    busy.count[site] = last


@compiled
def reservation(now_s: float, site: int, needed: int, jobs: Jobs, machines: Machines, busy: Busy) -> tuple[float, int]:
    """(instant, spare processors then): when `needed` processors are free if jobs run as long as requested.

    A job that has run longer than requested is assumed to end now.
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


@compiled_borrowing
def may_backfill(now_s: float, site: int, job: int, at_s: float, n_spare: int, jobs: Jobs, machines: Machines) -> bool:
    """Whether the job is pending, fits now, and ends before the reservation or leaves it enough processors."""
    if machines.started_s[job] != PENDING or jobs.cpus[job] > machines.free[site]:
        return False
    return now_s + jobs.requested_s[job] <= at_s or jobs.cpus[job] <= n_spare  # type: ignore[no-any-return]
