"""The numbers that event loops read and write: columns as lists or, for machine code, as arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np

from apps.engine import fast

Column = Any  # a list or an array of numbers: a loop only reads and sets single elements
Record = TypeVar("Record", bound=tuple[Any, ...])
Function = TypeVar("Function", bound=Callable[..., Any])

FEWEST_COMPILED = 5_000  # jobs; fewer are through before machine code is read from disk

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
    that has no component of its own: its vector is its parent's. queue: −1 for groups.
    """

    first: Column
    count: Column
    target: Column
    is_shared: Column
    is_seat: Column
    queue: Column


class Paths(NamedTuple):
    """For each queue q a run `x_first[q]:x_first[q + 1]` of nodes.

    climb: all from its node to the root. booked: those (and slots behind the nodes) whose usage at the site it counts
    in. pooled: those whose usage over all sites it counts in. groups: of no queue, the nodes with `is_shared`.
    """

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
    two: float  # 2.0, hidden from a compiler that would replace its power by another function
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


class Queues(NamedTuple):
    """head, tail: by place, the job numbers that wait (started ones skipped). alive: by site and node, queues below."""

    head: Column
    tail: Column
    alive: Column


class Books(NamedTuple):
    """Usage at time t is `base + rate · t`: at sites by slot, pooled over sites by queue."""

    base: Column
    rate: Column
    pooled_base: Column
    pooled_rate: Column


class Sheet(NamedTuple):
    """Components: kept ones by node (and site), measured ones by node; the rest is room to work in."""

    component: Column
    measured: Column
    front: Column
    front_value: Column


class Machines(NamedTuple):
    """free: processors by site. started_s: by job. The last two hold what runs between two calls of a loop."""

    free: Column
    started_s: Column
    running_end_s: Column
    running_job: Column


class Busy(NamedTuple):
    """Jobs that run, by site, where backfill needs them. seat: where a job is among them. hidden: room to work in."""

    first: Column
    count: Column
    job: Column
    seat: Column
    hidden: Column


class Told(NamedTuple):
    """Starts and ends that usage data will hear of with a delay: when, and the job, −1 − job for an end."""

    at_s: Column
    job: Column


class State(NamedTuple):
    """What changes."""

    queues: Queues
    books: Books
    sheet: Sheet
    machines: Machines
    busy: Busy
    told: Told
    counters: Column


class Form(NamedTuple):
    """How a run goes: on arrays by machine code, or on lists, which plain Python indexes faster; decided once a run."""

    is_compiled: bool

    def columns(self, record: Record) -> Record:
        return record if self.is_compiled else _listed(record)

    def loop(self, function: Function) -> Function:
        return function if self.is_compiled else fast.interpreted(function)


def form_for(n_jobs: int) -> Form:
    """Machine code where it is installed and worth loading, with identical numbers."""
    return Form(fast.is_on() and n_jobs >= FEWEST_COMPILED)


def _listed(record: Record) -> Record:
    columns = (
        _listed(value) if isinstance(value, tuple) else value.tolist() if isinstance(value, np.ndarray) else value
        for value in record
    )
    return type(record)(*columns)
