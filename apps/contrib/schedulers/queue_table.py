"""Waiting jobs of a scheduler as columns: validate the agent's rows, and store and load them.

Accounts are distinct (user, group) pairs; permissions are checked by account, not by job.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from apps.accounts.partition_accounts import first_partition
from apps.contrib.schedulers.models import QueueListing
from apps.core.blobs import pack, unpack
from apps.core.derived_state import in_memory
from apps.core.errors import FieldProblem, Malformed
from apps.usage.parsers.base import NO_TIME, microseconds

DERIVED_STATE = (
    in_memory(
        "_cache",
        holds="unpacked queues",
        key="digest of the stored queue",
        inputs="the last listing of the agent",
        range="one listing",
        ends="the newest ones push it out",
    ),
)

Term = Literal["age", "assoc", "fairshare", "jobsize", "partition", "qos", "site", "nice"]
JobState = Literal["pending", "held"]
TERMS: tuple[Term, ...] = ("age", "assoc", "fairshare", "jobsize", "partition", "qos", "site", "nice")
STATES: tuple[JobState, ...] = ("pending", "held")
MOST_QUEUED_JOBS = 200_000
MOST_GPU_TYPES = 32  # of a job or partition
_TEXTS = {"job": 40, "user": 256, "group": 256, "partition": 1_024, "qos": 128, "reason": 128}
MOST_JOB_PRIORITIES = 100
_PRIORITY_FIELDS = {"partition", "qos", "priority"}
_MAY_BE_EMPTY = {"group", "partition", "qos", "reason"}
_NULLABLE = ("array_task", "submit_at", "eligible_at", "priority", "value", "cpus", "terms", "priorities")
_SIZES = {"nodes", "gpus", "limit_s", "planned_at", "dependency"}
_FIELDS = {*_TEXTS, *_NULLABLE, *_SIZES, "state"}
_COMPONENT = re.compile(r"([0-9]{1,9})[+ ]([0-9]{1,3})")  # in a query that isn't escaped, + is a blank
_MOST_QUEUE_NUMBER = 2**53
I8 = npt.NDArray[np.int64]
F8 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ListedPriority:
    """One of a job's priorities, in one partition by one QOS; empty names: the scheduler doesn't print them."""

    partition: str
    qos: str
    priority: float


@dataclass(frozen=True, eq=False)
class JobSizes:
    """What waiting jobs ask for beside processors, one element per job. NaN: no limit, or unknown. gpus: number by
    type, by the index of a job that asks for some. planned_us: start by the scheduler's own plan.
    """

    nodes: F8
    limit_s: F8
    planned_us: I8
    dependency: npt.NDArray[np.bool_]
    gpus: Mapping[int, Mapping[str, float]]


@dataclass(frozen=True, eq=False)
class QueueTable:
    """One element per job. account: index into `accounts`. Times in µs since 1970; unknown numbers are NaN.

    priority: the best, of jobs that have several. priorities: by the index of such a job.
    """

    job: Sequence[str]
    array_task: Sequence[str]
    account: I8
    accounts: Sequence[tuple[str, str]]  # user, group
    partition: Sequence[str]
    qos: Sequence[str]
    reason: Sequence[str]
    state: npt.NDArray[np.uint8]  # index into STATES
    cpus: F8
    submit_us: I8
    eligible_us: I8
    priority: F8
    value: F8
    terms: F8  # (jobs, len(TERMS))
    priorities: Mapping[int, Sequence[ListedPriority]] = field(default_factory=dict)
    sizes: JobSizes | None = None  # None: no job has one
    taken_at: datetime | None = None
    partition_of_account: Mapping[int, str] = field(default_factory=dict)  # where it decides the account's entry
    _by_job: dict[str, int] = field(default_factory=dict, repr=False)
    _arrays: dict[str, list[int]] = field(default_factory=dict, repr=False)

    @cached_property
    def number(self) -> F8:
        """Numbers of the jobs; infinite for a name that begins with no number."""
        matches = (re.match(r"[0-9]{1,15}", name) for name in self.job)
        return np.array([np.inf if match is None else float(match[0]) for match in matches], np.float64)

    def __len__(self) -> int:
        return len(self.job)

    def priority_in(self, partitions: Collection[str]) -> F8:
        """(n,) each job's best priority in these partitions: `priority` for a job that has one in all of its own."""
        best = self.priority.copy()
        for i, listed in self.priorities.items():
            best[i] = max((each.priority for each in listed if each.partition in partitions), default=best[i])
        return best

    def best_partitions(self, i: int) -> str:
        """Partitions in which a job has its best priority, as `partition` of a job that has one in all of its own."""
        listed = self.priorities.get(i, ())
        best = [each.partition for each in listed if each.priority == self.priority[i] and each.partition]
        return ",".join(dict.fromkeys(best)) or self.partition[i]

    def by_partition(self, partitions_of: Callable[[str], Collection[str]]) -> QueueTable:
        """The table in which jobs of a user in one of the given partitions are of an account of their own."""
        partitions = {i: partitions_of(user) for i, (user, _group) in enumerate(self.accounts)}
        limited: dict[tuple[int, str], int] = {}
        of_account: dict[int, str] = {}
        account = self.account.copy()
        for at in np.flatnonzero(np.isin(account, [i for i, named in partitions.items() if named])).tolist():
            number, partition = int(account[at]), first_partition(self.partition[at])
            if partition in partitions[number]:
                account[at] = limited.setdefault((number, partition), len(self.accounts) + len(limited))
            of_account[int(account[at])] = partition
        accounts = [*self.accounts, *(self.accounts[number] for number, _partition in limited)]
        return replace(self, account=account, accounts=accounts, partition_of_account=of_account)

    def index_of(self, job: str) -> int | None:
        """Index of a job by its number, of a task by `12_3` or `12[3]`, also among tasks that wait together, or of a
        component of a heterogeneous job by `12+3`, as squeue prints it.
        """
        if not self._by_job:
            for i, (name, task) in enumerate(zip(self.job, self.array_task, strict=True)):
                self._by_job.setdefault(name, i)
                if task:
                    self._by_job.setdefault(f"{name}_{task}", i)
                    self._arrays.setdefault(name, []).append(i)
        if job in self._by_job:
            return self._by_job[job]
        if match := _COMPONENT.fullmatch(job):
            return self._component(match[1], int(match[2]))
        array, _mark, task = job.removesuffix("]").replace("[", "_").rpartition("_")
        if not re.fullmatch(r"[0-9]{1,9}", task):
            return None
        rows = self._arrays.get(array, ())
        return next((i for i in rows if _has_task(self.array_task[i], int(task))), None)

    def _component(self, leader: str, offset: int) -> int | None:
        """Index of a component: Slurm numbers them one after the other, submitted together by one user."""
        first, i = self._by_job.get(leader), self._by_job.get(str(int(leader) + offset))
        if first is None or i is None:
            return None
        users = {self.accounts[int(self.account[at])][0] for at in (first, i)}
        is_one = len(users) == 1 and self.submit_us[first] == self.submit_us[i] != NO_TIME
        return i if is_one else None


def _has_task(tasks: str, task: int) -> bool:
    """Whether tasks as a scheduler lists them (`3`, `1-9:2,12%4`: at most four at a time) include this one."""
    for part in tasks.partition("%")[0].split(","):
        match = re.fullmatch(r"([0-9]+)(?:-([0-9]+)(?::([1-9][0-9]*))?)?", part)
        if match is not None and task in range(int(match[1]), int(match[2] or match[1]) + 1, int(match[3] or 1)):
            return True
    return False


def read_queue(rows: Any) -> QueueTable:
    """Validate the rows of an agent's report.

    Raises:
        Malformed: the first invalid field.
    """
    if not isinstance(rows, list) or len(rows) > MOST_QUEUED_JOBS:
        raise wrong("queue", f"must be a list of at most {MOST_QUEUED_JOBS:,} jobs")
    accounts: dict[tuple[str, str], int] = {}
    texts: dict[str, list[str]] = {name: [] for name in (*_TEXTS, "array_task")}
    account, state, times = [], [], ([], [])  # type: ignore[var-annotated]
    numbers: dict[str, list[float]] = {"cpus": [], "priority": [], "value": []}
    terms = np.full((len(rows), len(TERMS)), np.nan)
    priorities: dict[int, tuple[ListedPriority, ...]] = {}
    for i, row in enumerate(rows):
        where = f"queue[{i}]"
        if not isinstance(row, dict) or not _FIELDS.issuperset(row):
            raise wrong(where, f"must be an object with: {', '.join(sorted(_FIELDS))}")
        for name, longest in _TEXTS.items():
            texts[name].append(text_of(row.get(name, ""), f"{where}.{name}", longest, name in _MAY_BE_EMPTY))
        task = row.get("array_task")
        texts["array_task"].append("" if task is None else text_of(task, f"{where}.array_task", 2_000, True))
        account.append(accounts.setdefault((texts["user"][-1], texts["group"][-1]), len(accounts)))
        if row.get("state") not in STATES:
            raise wrong(f"{where}.state", f"must be {' or '.join(STATES)}")
        state.append(STATES.index(row["state"]))
        for column, name in zip(times, ("submit_at", "eligible_at"), strict=True):
            column.append(instant_us(row.get(name), f"{where}.{name}"))
        for name, column in numbers.items():
            column.append(number_of(row.get(name), f"{where}.{name}"))
        row_terms = row.get("terms")
        if row_terms is not None:
            if not isinstance(row_terms, dict) or not set(TERMS).issuperset(row_terms):
                raise wrong(f"{where}.terms", f"must be an object with: {', '.join(TERMS)}")
            terms[i] = [number_of(row_terms.get(name, 0), f"{where}.terms.{name}") for name in TERMS]
        if listed := _priorities(row.get("priorities"), f"{where}.priorities"):
            priorities[i] = listed
            numbers["priority"][-1] = _best(numbers["priority"][-1], priorities[i])
    sizes = _sizes(rows) if any(not _SIZES.isdisjoint(row) for row in rows) else None
    return QueueTable(
        job=texts["job"],
        array_task=texts["array_task"],
        account=np.array(account, np.int64),
        accounts=list(accounts),
        partition=texts["partition"],
        qos=texts["qos"],
        reason=texts["reason"],
        state=np.array(state, np.uint8),
        cpus=np.array(numbers["cpus"]),
        submit_us=np.array(times[0], np.int64),
        eligible_us=np.array(times[1], np.int64),
        priority=np.array(numbers["priority"]),
        value=np.array(numbers["value"]),
        terms=terms,
        priorities=priorities,
        sizes=sizes,
    )


def _sizes(rows: Sequence[Mapping[str, Any]]) -> JobSizes:
    nodes, limits, planned, dependency = [], [], [], []
    gpus: dict[int, dict[str, float]] = {}
    for i, row in enumerate(rows):
        where = f"queue[{i}]"
        nodes.append(amount(row.get("nodes"), f"{where}.nodes"))
        limits.append(amount(row.get("limit_s"), f"{where}.limit_s"))
        planned.append(instant_us(row.get("planned_at"), f"{where}.planned_at"))
        if row.get("dependency") not in (True, False, None):
            raise wrong(f"{where}.dependency", "must be true or false, or null")
        dependency.append(row.get("dependency") is True)
        if by_type := gpus_of(row.get("gpus"), f"{where}.gpus"):
            gpus[i] = by_type
    times = np.array(planned, np.int64)
    return JobSizes(np.array(nodes), np.array(limits), times, np.array(dependency, np.bool_), gpus)


def gpus_of(value: Any, where: str) -> dict[str, float]:
    """Number by type.

    Raises:
        Malformed: it is something else.
    """
    if value is None:
        return {}
    if not isinstance(value, dict) or len(value) > MOST_GPU_TYPES:
        raise wrong(where, f"must be numbers of at most {MOST_GPU_TYPES} types, or null")
    by_type = {text_of(name, where, 64, False): amount(number, f"{where}.{name}") for name, number in value.items()}
    if any(np.isnan(number) for number in by_type.values()):
        raise wrong(where, "must be numbers")
    return by_type


def _priorities(value: Any, where: str) -> tuple[ListedPriority, ...]:
    """Best first."""
    if value is None:
        return ()
    if not isinstance(value, list) or len(value) > MOST_JOB_PRIORITIES:
        raise wrong(where, f"must be a list of at most {MOST_JOB_PRIORITIES}, or null")
    listed = []
    for k, row in enumerate(value):
        at = f"{where}[{k}]"
        if not isinstance(row, dict) or row.keys() != _PRIORITY_FIELDS:
            raise wrong(at, f"must be an object with: {', '.join(sorted(_PRIORITY_FIELDS))}")
        if row["priority"] is None:
            raise wrong(f"{at}.priority", "must be a number")
        partition, qos = (text_of(row[name], f"{at}.{name}", 128, True) for name in ("partition", "qos"))
        listed.append(ListedPriority(partition, qos, number_of(row["priority"], f"{at}.priority")))
    return tuple(sorted(listed, key=lambda each: -each.priority))


def _best(priority: float, listed: Sequence[ListedPriority]) -> float:
    """The priority by which a job is tried first; 0 and unknown ones stay, as of a held job."""
    return listed[0].priority if priority > 0 else priority


def pack_queue(table: QueueTable) -> tuple[bytes, str]:
    """Compress a table; returns the data and its digest."""
    columns: dict[str, Any] = {
        "account": table.account.astype(np.int32),
        "user": [user for user, _group in table.accounts],
        "group": [group for _user, group in table.accounts],
        **{name: getattr(table, name) for name in ("job", "array_task")},
        **{name: getattr(table, name) for name in ("state", "cpus", "submit_us", "eligible_us", "priority", "value")},
        "terms": table.terms,
    }
    for name in ("partition", "qos", "reason"):  # few distinct values
        known: dict[str, int] = {}
        codes = [known.setdefault(text, len(known)) for text in getattr(table, name)]
        columns |= {f"{name}_code": np.array(codes, np.int32), f"{name}_text": list(known)}
    listed = [(i, each) for i, several in table.priorities.items() for each in several]
    columns |= {
        "of_job": np.array([i for i, _each in listed], np.int32),
        "in_partition": [each.partition for _i, each in listed],
        "by_qos": [each.qos for _i, each in listed],
        "with_priority": np.array([each.priority for _i, each in listed], np.float64),
    }
    if table.sizes is not None:
        columns |= _pack_sizes(table.sizes)
    return pack(columns)


def _pack_sizes(sizes: JobSizes) -> dict[str, Any]:
    listed = [(i, name, number) for i, by_type in sizes.gpus.items() for name, number in by_type.items()]
    return {
        **{name: getattr(sizes, name) for name in ("nodes", "limit_s", "planned_us", "dependency")},
        "gpu_of_job": np.array([i for i, _name, _number in listed], np.int32),
        "gpu_type": [name for _i, name, _number in listed],
        "gpu_number": np.array([number for _i, _name, number in listed], np.float64),
    }


def _unpack_sizes(columns: dict[str, Any]) -> JobSizes:
    """Takes its columns."""
    gpus: dict[int, dict[str, float]] = {}
    listed = (columns.pop("gpu_of_job").tolist(), columns.pop("gpu_type"), columns.pop("gpu_number").tolist())
    for i, name, number in zip(*listed, strict=True):
        gpus.setdefault(i, {})[name] = number
    return JobSizes(**{name: columns.pop(name) for name in ("nodes", "limit_s", "planned_us", "dependency")}, gpus=gpus)


def unpack_queue(listing: QueueListing) -> QueueTable:
    columns, _meta = unpack(listing.data, listing.digest)
    for name in ("partition", "qos", "reason"):
        known, codes = columns.pop(f"{name}_text"), columns.pop(f"{name}_code")
        columns[name] = [known[code] for code in codes.tolist()]
    priorities: dict[int, list[ListedPriority]] = {}
    if "of_job" in columns:  # listings of older releases have one priority a job
        numbers = (columns.pop("of_job").tolist(), columns.pop("in_partition"), columns.pop("by_qos"))
        for i, partition, qos, priority in zip(*numbers, columns.pop("with_priority").tolist(), strict=True):
            priorities.setdefault(i, []).append(ListedPriority(partition, qos, priority))
    accounts = list(zip(columns.pop("user"), columns.pop("group"), strict=True))
    columns["account"] = columns["account"].astype(np.int64)
    sizes = _unpack_sizes(columns) if "limit_s" in columns else None
    return QueueTable(**columns, accounts=accounts, priorities=priorities, sizes=sizes, taken_at=listing.taken_at)


class _QueueCache:
    """Cache of recently read listings: a page and its fragments use the same one."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[int, str], QueueTable] = OrderedDict()

    def load(self, listing: QueueListing) -> QueueTable:
        key = (listing.scheduler_id, f"{listing.digest} {listing.taken_at.isoformat()}")
        table = self._known.get(key)
        if table is None:
            listing.refresh_from_db(fields=["data", "digest", "taken_at"])
            table = self._known[key] = unpack_queue(listing)
            while len(self._known) > 4:
                self._known.popitem(last=False)
        return table


_cache = _QueueCache()


def load_queue(scheduler_id: int) -> QueueTable | None:
    """The last listing; None if there is none."""
    listing = QueueListing.objects.filter(scheduler_id=scheduler_id).defer("data").first()
    return None if listing is None else _cache.load(listing)


def text_of(value: Any, where: str, longest: int, may_be_empty: bool) -> str:
    if type(value) is not str or len(value) > longest or not (value or may_be_empty):
        raise wrong(where, f"must be text of {0 if may_be_empty else 1} to {longest} characters")
    return value


def number_of(value: Any, where: str) -> float:
    if value is None:
        return np.nan
    if type(value) not in (int, float) or not -_MOST_QUEUE_NUMBER <= value <= _MOST_QUEUE_NUMBER:
        raise wrong(where, "must be a number, or null")
    return float(value)


def amount(value: Any, where: str) -> float:
    """A number from 0 on; NaN for null.

    Raises:
        Malformed: it is something else.
    """
    number = number_of(value, where)
    if number < 0:
        raise wrong(where, "must be a number from 0 on, or null")
    return number


def instant_us(value: Any, where: str) -> int:
    if value is None:
        return NO_TIME
    try:
        at = datetime.fromisoformat(value)
        if at.tzinfo is None:
            raise ValueError
        return microseconds(at)
    except (TypeError, ValueError, OverflowError):
        raise wrong(where, "must be a time with its zone: 2026-01-31T12:00:00Z") from None


def wrong(where: str, message: str) -> Malformed:
    return Malformed(f"{where} {message}.", fields=[FieldProblem(where, message)])
