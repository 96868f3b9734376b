"""Decide each job's value, or why a pass sends nothing: pure, from jobs, factors, orders and the table."""

from collections import Counter
from typing import Any, Dict, Hashable, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple

from agent import turns
from agent.choosing import choose, points_of, releases
from agent.names import shown
from agent.orders import Orders, value_of
from agent.records import Account, Answer, Asked, Frozen, Job, LookUp, Queue
from agent.sending import MOST_FAILED_AGAIN, NOT_SENT
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
    due: List[Tuple[str, int]]  # values to send now, by value, then job
    n_mapped: int
    n_unmapped: int
    unmapped: List[Tuple[Account, int]]  # sorted by number of jobs, descending
    refused: List[str]  # values outside the scheduler's range
    frozen: Optional[Frozen]
    without_entry: "frozenset[Account]" = frozenset()  # of the unmapped: users whom their group lacks
    n_later: int = 0  # values that are due, too, beyond the bound on updates
    stays: Tuple[str, ...] = ()  # jobs whose value moved, and that have their place without it
    by_holder: Optional[Dict[str, int]] = None  # values of submitters; None: they belong to jobs


def _values_by_account(
    orders: Orders,
    jobs: Iterable[Job],
    answers: Dict[Asked, Answer],
    table: Table,
    refused: List[str],
    accepts_changes: bool,
) -> Dict[Asked, Optional[int]]:
    """The value of each account: the one of before, where it moved by less than a step, for all of its jobs alike."""
    before: Dict[Asked, int] = {}
    for job in jobs:
        wanted = table.wanted(job.holder)
        if wanted is not None:
            before.setdefault(job.asked, wanted)
    by_factor: Dict[float, Optional[int]] = {}
    values: Dict[Asked, Optional[int]] = {}
    for asked, answer in answers.items():
        if answer.factor not in by_factor:
            by_factor[answer.factor] = _value(orders, answer.factor, refused)
        value = by_factor[answer.factor]
        if value is not None and not accepts_changes and abs(value - before.get(asked, value)) < orders.step:
            value = before.get(asked, value)
        values[asked] = value
    return values


class FirstPlan(NamedTuple):
    due: List[Tuple[str, int]]
    n_unknown: int  # new jobs of accounts whose factor isn't known, or is too old


def make_plan(
    orders: Orders,
    queue: Queue,
    looked_up: LookUp,
    table: Table,
    accepts_changes: bool,
    room: float = float("inf"),
    now: float = 0.0,
) -> Plan:
    """Make the plan.

    accepts_changes: sending was just switched on or resumed, so any change is expected. room: the most updates.
    now: seconds since 1970.
    """
    values: Dict[str, int] = {}
    to_have: Dict[str, int] = {}  # values that are sent, by holder
    holders: Dict[str, Job] = {}  # the first job of each
    unmapped: Dict[Account, int] = {}
    without_entry: Set[Account] = set()
    refused: List[str] = []
    n_mapped = n_established = n_changed = 0
    before: Dict[Account, int] = {}  # the value that an account's first job has
    after: Dict[Account, int] = {}
    by_account = _values_by_account(orders, queue.jobs, looked_up.answers, table, refused, accepts_changes)
    for job in queue.jobs:
        answer = looked_up.answers.get(job.asked)
        if answer is None or answer.error is not None:
            unmapped[job.account] = unmapped.get(job.account, 0) + 1
            if answer is not None and answer.error == NO_OWN_ENTRY:
                without_entry.add(job.account)
        else:
            n_mapped += 1
        if answer is None or not _is_in_subtree(orders, answer):
            continue
        value = by_account[job.asked]
        if value is None or (job.is_held and releases(orders)):
            continue
        values[job.id] = value
        if not is_sent(orders, job):
            continue
        is_first = job.holder not in to_have
        to_have[job.holder] = value
        if is_first or not job.is_held:
            holders[job.holder] = job._replace(id=job.holder)
        established = table.wanted(job.holder)
        if established is not None and is_first:
            n_established += 1
            n_changed += abs(value - established) >= orders.step  # what the scheduler lost is no change of ours
            before.setdefault(job.account, established)
            after.setdefault(job.account, value)
    n_unmapped = sum(unmapped.values())
    frozen = _frozen(orders, looked_up, n_mapped, n_unmapped)
    if frozen is None and not accepts_changes:
        frozen = _lost_order(orders, looked_up, before, after)
    if frozen is None and not accepts_changes and not _is_explained(orders, looked_up, table):
        frozen = _too_many_changes(orders, looked_up, table, n_changed, n_established)
    named = sorted(unmapped.items(), key=lambda each: (-each[1], each[0]))[:MOST_NAMED]
    jobs = queue.jobs if queue.listed is None else list(holders.values())
    sends_all = accepts_changes or _has_other_settings(orders, looked_up, table)
    due, n_later, stays = choose(orders, jobs, to_have, table, room, now, sends_all)
    by_holder = None if queue.listed is None else to_have
    unlisted = frozenset(without_entry)
    return Plan(values, due, n_mapped, n_unmapped, named, refused, frozen, unlisted, n_later, tuple(stays), by_holder)


def plan_first_values(
    orders: Orders, queue: Queue, answers: Dict[Asked, Answer], table: Table, room: float, now: float
) -> FirstPlan:
    """Values of jobs that have none yet, also of those whose command failed or was never run, at their places among
    the others, which keep theirs."""
    values: Dict[str, int] = {}
    holders: Dict[str, Job] = {}
    by_account = _values_by_account(orders, queue.jobs, answers, table, [], False)
    n_unknown = 0
    for job in queue.jobs:
        answer = answers.get(job.asked)
        if answer is None:
            n_unknown += table.confirmed(job.holder) is None and is_sent(orders, job)
            continue
        value = by_account[job.asked] if _is_in_subtree(orders, answer) else None
        if value is not None and is_sent(orders, job) and not (job.is_held and releases(orders)):
            values[job.holder] = value
            holders.setdefault(job.holder, job._replace(id=job.holder))
    jobs = queue.jobs if queue.listed is None else list(holders.values())
    chosen = choose(orders, jobs, values, table, float("inf"), now, sends_all=False)
    new = [each for each in chosen.due if table.confirmed(each[0]) is None]
    new.sort(key=lambda each: -points_of(orders, each[1]))
    in_turn = turns.first(table, NOT_SENT, new, lambda each: each[0], int(min(room, len(new))), MOST_FAILED_AGAIN)
    return FirstPlan(in_turn, n_unknown)


def values_of(answers: Dict[Asked, Answer], orders: Orders) -> Dict[Asked, int]:
    """Values of accounts; those outside the scheduler's range are left out."""
    pairs = ((asked, _value(orders, answer.factor, [])) for asked, answer in answers.items())
    return {asked: value for asked, value in pairs if value is not None}


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


def minutes_text(seconds: float) -> str:
    """With three digits, but never as a power of ten: a snapshot may be days old."""
    minutes = seconds / 60
    return f"{minutes:.3g} min" if minutes < 100 else f"{minutes:.0f} min"


def _frozen(orders: Orders, looked_up: LookUp, n_mapped: int, n_unmapped: int) -> Optional[Frozen]:
    limits = orders.limits
    if looked_up.age_s > limits.snapshot_age_s:
        detail = f"The snapshot is {minutes_text(looked_up.age_s)} old; limit {minutes_text(limits.snapshot_age_s)}."
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


def _has_other_settings(orders: Orders, looked_up: LookUp, table: Table) -> bool:
    """Whether the values that were set are on another scale."""
    basis = table.facts.get("basis")
    return basis is not None and basis["settings"] != basis_of(orders, looked_up)["settings"]


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


def _value(orders: Orders, factor: float, refused: List[str]) -> Optional[int]:
    try:
        return value_of(orders, factor)
    except ValueError as error:
        refused.append(f"A factor of {factor:g} is not sent: {error}.")
        return None


def _is_in_subtree(orders: Orders, answer: Answer) -> bool:
    if answer.entry is None:
        return orders.subtree == "/"
    return _is_below(answer.entry, orders.subtree)


def _is_below(entry: str, subtree: str) -> bool:
    top = subtree.rstrip("/")
    return not top or entry == top or entry.startswith(top + "/")
