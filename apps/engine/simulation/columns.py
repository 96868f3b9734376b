"""The numbers that event loops read and write: the same columns as lists or, for machine code, as arrays."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np

from apps.engine import fast

Column = Any  # a list of numbers, or an array of the same ones: a loop only takes and sets single elements
Record = TypeVar("Record", bound=tuple[Any, ...])

PENDING, WITHDRAWN = -1.0, -2.0  # in place of the instant at which a job started
HISTORICAL, ACTIVE, PREDICTIVE = range(3)
NEXT_ARRIVAL, NEXT_LEAVING, NEXT_REFRESH, N_EVENTS, N_RUNNING, N_TOLD, N_HEARD = range(7)
N_COUNTERS = 7


class Jobs(NamedTuple):
    """Jobs by place and order. place = site · queues + queue; order: number in order of arrival over all sites.

    counted: processors as usage data has them, 0 for a job whose data gets lost.
    """

    place: Column
    order: Column
    run_s: Column
    requested_s: Column
    cpus: Column
    counted: Column
    stream: Column


class Arrivals(NamedTuple):
    """One row a job, in order of arrival."""

    at_s: Column
    place: Column
    job: Column


class Leavings(NamedTuple):
    """When a stream stops and its pending jobs are withdrawn, in order of time. queue: −1 where it has many."""

    at_s: Column
    stream: Column
    queue: Column


class Nodes(NamedTuple):
    """Who competes, breadth-first: children of node n are `first[n]` … + `count[n]`.

    is_shared: the children's components are kept (by refreshes) instead of measured at each start. is_seat: a queue
    that has no component of its own: its vector is its parent's. queue: −1 for groups. Then for each queue a run
    `x_first[q]:x_first[q + 1]` of nodes: `climb` all from its node to the root, `booked` those whose usage at the site
    it counts in, `pooled` those whose usage over all sites it counts in. groups: nodes with `is_shared`.
    """

    first: Column
    count: Column
    target: Column
    is_shared: Column
    is_seat: Column
    queue: Column
    climb_first: Column
    climb: Column
    booked_first: Column
    booked: Column
    pooled_first: Column
    pooled: Column
    groups: Column


class Rule(NamedTuple):
    """How target and actual become a component. tie: components this near are equal. pad: of a missing level.

    coarse: actual shares are known in steps of 1/coarse, 0 for exactly.
    """

    kind: int
    exponent: float
    mix: float
    two: float  # 2.0, out of sight of a compiler that would put another function in the place of a power of it
    resolution: float
    coarse: float
    tie: float
    pad: float


class Plan(NamedTuple):
    """Sizes and switches. width: slots a site has in `base` and `rate`. stride: a site's slots in `component`."""

    sites: int
    queues: int
    nodes: int
    width: int
    stride: int
    local_approach: int
    global_approach: int
    refresh_s: float
    delay_s: float
    backfills: bool


class State(NamedTuple):
    """What changes. Usage at time t is `base + rate · t`: at sites by slot, pooled over sites by queue.

    free, busy_first, n_busy: by site. head, tail: by place, the job numbers that wait (started ones skipped). alive:
    by site and node, queues below that wait. busy: jobs that run, by site; seat: where in it. told: the starts and ends
    that usage data will hear of, with a delay. The rest is room to work in.
    """

    free: Column
    head: Column
    tail: Column
    alive: Column
    base: Column
    rate: Column
    pooled_base: Column
    pooled_rate: Column
    pooled_total: Column
    component: Column
    measured: Column
    front: Column
    front_value: Column
    hidden: Column
    started_s: Column
    running_end_s: Column
    running_job: Column
    busy_first: Column
    n_busy: Column
    busy: Column
    seat: Column
    due_s: Column
    due_cpus: Column
    told_s: Column
    told_job: Column
    counters: Column


def indexable(record: Record) -> Record:
    """The record as the loops take it now: arrays for machine code, else lists, which plain Python indexes faster."""
    if fast.is_on():
        return record
    columns = (value.tolist() if isinstance(value, np.ndarray) else value for value in record)
    return type(record)(*columns)
