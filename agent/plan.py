"""Decide each job's value, or why a pass sends nothing: pure, from jobs, factors, orders and the table."""

from collections import Counter
from typing import Any, Dict, Hashable, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple

from agent.names import shown
from agent.orders import Orders, value_of
from agent.records import Account, Frozen, Job, LookUp, Queue
from agent.state import Table

# With fewer values than this, a change of all of them is normal in a small queue.
FEWEST_FOR_CHANGES = 20
# With fewer accounts than this, ties say nothing about the order.
FEWEST_FOR_ORDER = 5
MOST_NAMED = 100
# The server's code for an account that leads to a group: the value is that of a new member without usage.
NO_OWN_ENTRY = "no_own_entry"
# A listing with more than one damaged row in a hundred is rejected.
MOST_DAMAGED = 0.01


class Plan(NamedTuple):
    values: Dict[str, int]  # values of every job in scope
    due: List[Tuple[str, int]]  # values to send, by value, then job
    n_mapped: int
    n_unmapped: int
    unmapped: List[Tuple[Account, int]]  # sorted by number of jobs, descending
    refused: List[str]  # values outside the scheduler's range
    frozen: Optional[Frozen]
    without_entry: "frozenset[Account]" = frozenset()  # of the unmapped: users whom their group lacks


def make_plan(orders: Orders, queue: Queue, looked_up: LookUp, table: Table, accepts_changes: bool) -> Plan:
    """Make the plan. `accepts_changes`: sending was just switched on or resumed, so any change is expected."""
    values: Dict[str, int] = {}
    due: List[Tuple[str, int]] = []
    unmapped: Dict[Account, int] = {}
    without_entry: Set[Account] = set()
    refused: List[str] = []
    n_mapped = n_established = n_changed = 0
    before: Dict[Account, int] = {}  # the value that an account's first job has
    after: Dict[Account, int] = {}
    by_factor: Dict[float, Optional[int]] = {}
    for job in queue.jobs:
        answer = looked_up.answers.get(job.asked)
        if answer is None or answer.error is not None:
            unmapped[job.account] = unmapped.get(job.account, 0) + 1
            if answer is not None and answer.error == NO_OWN_ENTRY:
                without_entry.add(job.account)
        else:
            n_mapped += 1
        if answer is None or (answer.entry is not None and not _is_below(answer.entry, orders.subtree)):
            continue
        if answer.entry is None and orders.subtree != "/":
            continue
        if answer.factor not in by_factor:
            by_factor[answer.factor] = _value(orders, answer.factor, refused)
        value = by_factor[answer.factor]
        if value is None or (job.is_held and _releases(orders)):
            continue
        values[job.id] = value
        if not is_sent(orders, job):
            continue
        current = _current(orders, job, table)
        is_due = current is None or abs(value - current) >= orders.step
        if is_due:
            due.append((job.id, value))
        established = table.value(job.id)
        if established is not None:
            n_established += 1
            n_changed += abs(value - established) >= orders.step  # what the scheduler lost is no change of ours
            before.setdefault(job.account, established)
            after.setdefault(job.account, value)
    n_unmapped = sum(unmapped.values())
    due.sort(key=lambda each: (each[1], len(each[0]), each[0]))
    frozen = _frozen(orders, looked_up, n_mapped, n_unmapped)
    if frozen is None and not accepts_changes:
        frozen = _lost_order(orders, looked_up, before, after)
    if frozen is None and not accepts_changes and not _is_explained(orders, looked_up, table):
        frozen = _too_many_changes(orders, looked_up, table, n_changed, n_established)
    named = sorted(unmapped.items(), key=lambda each: (-each[1], each[0]))[:MOST_NAMED]
    return Plan(values, due, n_mapped, n_unmapped, named, refused, frozen, frozenset(without_entry))


def in_scope(orders: Orders, jobs: Iterable[Job]) -> List[Job]:
    """The jobs in the scope of the orders; `canary` restricts only the values that are sent."""
    if orders.partitions is None:
        return list(jobs)
    chosen = set(orders.partitions)
    return [job for job in jobs if not chosen.isdisjoint(job.partitions)]


def is_sent(orders: Orders, job: Job) -> bool:
    """Whether the job's value is sent: only in the canary partition, and never in shadow mode, which plans for all."""
    return orders.mode != "canary" or orders.canary_partition in job.partitions


def named_partitions(orders: Orders) -> List[str]:
    canary = [orders.canary_partition] if orders.mode == "canary" and orders.canary_partition else []
    return [*(orders.partitions or ()), *canary]


def unknown_partitions(orders: Orders, there: Sequence[str]) -> Optional[Frozen]:
    """Partitions in the orders that don't exist; a renamed one would silently lose its jobs."""
    missing = sorted(set(named_partitions(orders)) - set(there))
    if not missing:
        return None
    detail = "The scheduler has no partition {}: it has {}. Change the partitions of this scheduler."
    named = ", ".join(shown(name) for name in missing)
    return Frozen("scheduler_unreadable", detail.format(named, ", ".join(map(shown, sorted(there)[:10])) or "none"))


def too_much_damaged(queue: Queue) -> Optional[Frozen]:
    n_rows = len(queue.jobs) + len(queue.skipped)
    if queue.n_damaged <= max(MOST_DAMAGED * n_rows, 5):
        return None
    detail = f"{queue.n_damaged} of {n_rows} rows can't be read: {queue.skipped[0]}"
    return Frozen("scheduler_unreadable", detail)


def _frozen(orders: Orders, looked_up: LookUp, n_mapped: int, n_unmapped: int) -> Optional[Frozen]:
    limits = orders.limits
    if looked_up.age_s > limits.snapshot_age_s:
        detail = f"The snapshot is {looked_up.age_s:.0f} s old, and the limit {limits.snapshot_age_s:g} s."
        return Frozen("snapshot_too_old", detail)
    n_jobs = n_mapped + n_unmapped
    if n_jobs and 100.0 * n_unmapped > limits.unmapped_percent * n_jobs:
        detail = "{} of {} pending jobs belong to unmapped accounts, and the limit is {:g} %."
        return Frozen("too_many_unmapped", detail.format(n_unmapped, n_jobs, limits.unmapped_percent))
    return None


def basis_of(orders: Orders, looked_up: LookUp) -> Dict[str, Any]:
    """What values come from, as the table keeps it beside them."""
    settings = [orders.policy, orders.kind, orders.knob, orders.weight, orders.namespace, orders.subtree]
    return {"snapshot": looked_up.snapshot, "settings": settings, "resumes": orders.resumes}


def _is_explained(orders: Orders, looked_up: LookUp, table: Table) -> bool:
    """Whether a newer snapshot (a revision, rules, new usage, time) or other orders explain any change of values."""
    basis, now = table.facts.get("basis"), basis_of(orders, looked_up)
    if basis is None or now["snapshot"] is None or basis["snapshot"] is None:
        return False
    return bool(now["snapshot"] > basis["snapshot"] or now["settings"] != basis["settings"])


def _too_many_changes(
    orders: Orders, looked_up: LookUp, table: Table, n_changed: int, n_established: int
) -> Optional[Frozen]:
    if n_established < FEWEST_FOR_CHANGES or 100.0 * n_changed <= orders.limits.changed_percent * n_established:
        return None
    detail = (
        "{} of {} values that were set would change, and the limit is {:g} %."
        " Nothing explains it: the site answers from snapshot {}, these values are from {}."
        " If they should change, pause and resume this scheduler, or run the agent with --accept-changes."
    )
    was = (table.facts.get("basis") or {}).get("snapshot")
    return Frozen(
        "too_many_changes",
        detail.format(n_changed, n_established, orders.limits.changed_percent, looked_up.snapshot, was),
    )


def _lost_order(
    orders: Orders, looked_up: LookUp, before: Dict[Account, int], after: Dict[Account, int]
) -> Optional[Frozen]:
    """Accounts that differed would be equal: of an emptied tree, of lost usage. A snapshot doesn't explain that."""
    n_tied = _pairs(after.values()) - _pairs((before[each], after[each]) for each in after)
    n_ordered = len(after) * (len(after) - 1) // 2 - _pairs(before.values())
    if len(after) < FEWEST_FOR_ORDER or 100.0 * n_tied <= orders.limits.changed_percent * n_ordered:
        return None
    detail = (
        "{} accounts have {} different values, and would have {}: the order would be lost (snapshot {})."
        " Was usage or the tree emptied, or the weight lowered?"
        " If this is meant, pause and resume this scheduler, or run the agent with --accept-changes."
    )
    n_before, n_after = len(set(before.values())), len(set(after.values()))
    return Frozen("order_lost", detail.format(len(after), n_before, n_after, looked_up.snapshot))


def _pairs(values: Iterable[Hashable]) -> int:
    """Number of pairs of equal values."""
    return sum(n * (n - 1) // 2 for n in Counter(values).values())


def _current(orders: Orders, job: Job, table: Table) -> Optional[int]:
    """The present value: as listed by the scheduler, else as set.

    A Slurm priority that the agent didn't set doesn't count.
    """
    if _releases(orders) and job.id not in table:
        return None
    return job.current if job.current is not None else table.confirmed(job.id)


def _releases(orders: Orders) -> bool:
    """Whether setting a held job's priority would release it."""
    return orders.kind == "slurm" and orders.knob == "priority"


def _value(orders: Orders, factor: float, refused: List[str]) -> Optional[int]:
    try:
        return value_of(orders, factor)
    except ValueError as error:
        refused.append(f"A factor of {factor:g} is not sent: {error}.")
        return None


def _is_below(entry: str, subtree: str) -> bool:
    top = subtree.rstrip("/")
    return not top or entry == top or entry.startswith(top + "/")
