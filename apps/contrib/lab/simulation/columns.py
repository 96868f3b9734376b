"""Records that the event loops read and write: columns are lists or, for machine code, arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np

Column = Any  # a list or an array of numbers: a loop only reads and sets single elements
Record = TypeVar("Record", bound=tuple[Any, ...])
Function = TypeVar("Function", bound=Callable[..., Any])

FEWEST_COMPILED = 5_000  # jobs; fewer are simulated before machine code is loaded from disk

PENDING, WITHDRAWN = -1.0, -2.0  # values of `started_s` for jobs that have not started
HISTORICAL, ACTIVE, PREDICTIVE = range(3)
NEXT_ARRIVAL, NEXT_DEPARTURE, NEXT_REFRESH, N_EVENTS, N_RUNNING, N_DELAYED, N_DELAYED_BOOKED = range(7)
N_COUNTERS = 7


class Jobs(NamedTuple):
    """Jobs by queue, in order of arrival within a queue.

    site_queue: site · queues + queue. order: number in order of arrival over all sites. counted: processors as usage
    data reports them, 0 for a job whose data is lost.
    """

    site_queue: Column
    order: Column
    run_s: Column
    requested_s: Column
    cpus: Column
    counted: Column
    stream: Column


class Arrivals(NamedTuple):
    """One row a job, in order of arrival."""

    at_s: Column
    site_queue: Column
    job: Column


class Departures(NamedTuple):
    """When a stream stops and its pending jobs are withdrawn, in order of time. queue: −1 if it has several."""

    at_s: Column
    stream: Column
    queue: Column


class Nodes(NamedTuple):
    """The competing entries, breadth-first: the children of node n are `count[n]` nodes from `first[n]` on.

    is_shared: the children's components are those of the last refresh, instead of measured at each start. is_padding:
    nodes for queues without a component: their vector is their parent's. queue: −1 for groups.
    """

    first: Column
    count: Column
    target: Column
    is_shared: Column
    is_padding: Column
    queue: Column


class Paths(NamedTuple):
    """For each queue q the nodes `x[x_first[q]:x_first[q + 1]]`.

    climb: all nodes from its own to the root. booked: the nodes (and slots behind the nodes) whose usage at the site
    includes the queue. pooled: the nodes whose usage over all sites includes it. groups: the nodes with `is_shared`,
    not by queue.
    """

    climb_first: Column
    climb: Column
    booked_first: Column
    booked: Column
    pooled_first: Column
    pooled: Column
    groups: Column


class Rule(NamedTuple):
    """How a component is computed from target and actual share.

    tie: components at most this far apart are equal. pad: component of a missing level. coarse: actual shares are
    known in steps of 1/coarse, 0 for exactly.
    """

    kind: int
    exponent: float
    mix: float
    two: float  # 2.0 as a variable: a compiler would replace a constant power by another function
    resolution: float
    coarse: float
    tie: float
    pad: float


class Plan(NamedTuple):
    """Sizes and switches. width: slots of a site in `base` and `rate`. stride: slots of a site in `component`.

    most_tried: pending jobs of all entries that one backfill tries.
    """

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
    most_tried: int


class Model(NamedTuple):
    """Everything that is constant during a run."""

    jobs: Jobs
    nodes: Nodes
    paths: Paths
    rule: Rule
    plan: Plan


class Queues(NamedTuple):
    """head, tail: by site_queue, the range of pending job numbers; started jobs are skipped.

    n_waiting: by site and node, the number of queues with pending jobs below the node.
    """

    head: Column
    tail: Column
    n_waiting: Column


class UsageSums(NamedTuple):
    """Booked usage: `base + rate · t` at time t, by slot for each site, and by queue over all sites (pooled)."""

    base: Column
    rate: Column
    pooled_base: Column
    pooled_rate: Column


class Components(NamedTuple):
    """Components by node: those of the last refresh (`component`, also by site), and those just measured.

    front, front_value: work space of `next_job`.
    """

    component: Column
    measured: Column
    front: Column
    front_value: Column


class Machines(NamedTuple):
    """free: idle processors by site. started_s: by job.

    running_end_s, running_job: the running jobs between two calls of a loop.
    """

    free: Column
    started_s: Column
    running_end_s: Column
    running_job: Column


class Busy(NamedTuple):
    """Running jobs by site, for backfill: site s has `count[s]` jobs in `job` from `first[s]` on.

    offset: by job, its index among those of its site. hidden: work space.
    """

    first: Column
    count: Column
    job: Column
    offset: Column
    hidden: Column


class DelayedReports(NamedTuple):
    """Starts and ends that usage data reports with a delay: instant, and job (−1 − job for an end)."""

    at_s: Column
    job: Column


class State(NamedTuple):
    """Everything that changes during a run."""

    queues: Queues
    usage_sums: UsageSums
    components: Components
    machines: Machines
    busy: Busy
    delayed: DelayedReports
    counters: Column


class Execution(NamedTuple):
    """How a run is executed: on arrays by machine code, or on lists, which plain Python indexes faster."""

    is_compiled: bool

    def columns(self, record: Record) -> Record:
        """The record with its columns as arrays or lists."""
        return record if self.is_compiled else _with_lists(record)

    def loop(self, function: Function) -> Function:
        """The compiled function, or its plain equivalent."""
        from apps.engine import fast  # as in _run of run.py

        return function if self.is_compiled else fast.interpreted(function)


def execution_for(n_jobs: int) -> Execution:
    """Choose machine code if it is installed and worth loading; the numbers are identical."""
    from apps.engine import fast

    return Execution(fast.is_on() and n_jobs >= FEWEST_COMPILED)


def _with_lists(record: Record) -> Record:
    columns = (
        _with_lists(value) if isinstance(value, tuple) else value.tolist() if isinstance(value, np.ndarray) else value
        for value in record
    )
    return type(record)(*columns)
