"""Waiting jobs of a scheduler as columns: validate the agent's rows, and store and load them.

Accounts are distinct (user, group) pairs; permissions are checked by account, not by job.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from apps.accounts.partition_accounts import first_partition
from apps.contrib.schedulers.models import QueueListing
from apps.core.blobs import pack, unpack
from apps.core.derived_state import in_memory
from apps.core.errors import FieldProblem, Malformed

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
MOST_JOBS = 200_000
NO_TIME = np.iinfo(np.int64).min
_TEXTS = {"job": 40, "user": 256, "group": 256, "partition": 1_024, "qos": 128, "reason": 128}
_MAY_BE_EMPTY = {"group", "partition", "qos", "reason"}
_NULLABLE = ("array_task", "submit_at", "eligible_at", "priority", "value", "cpus", "terms")
_FIELDS = {*_TEXTS, *_NULLABLE, "state"}
_MOST_NUMBER = 2**53
I8 = npt.NDArray[np.int64]
F8 = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class QueueTable:
    """One element per job. account: index into `accounts`. Times in µs since 1970; unknown numbers are NaN."""

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
        """Index of a job by its number, or of a task by `12_3` or `12[3]`, also among tasks that wait together."""
        if not self._by_job:
            for i, (name, task) in enumerate(zip(self.job, self.array_task, strict=True)):
                self._by_job.setdefault(name, i)
                if task:
                    self._by_job.setdefault(f"{name}_{task}", i)
                    self._arrays.setdefault(name, []).append(i)
        if job in self._by_job:
            return self._by_job[job]
        array, _mark, task = job.removesuffix("]").replace("[", "_").rpartition("_")
        if not re.fullmatch(r"[0-9]{1,9}", task):
            return None
        rows = self._arrays.get(array, ())
        return next((i for i in rows if _has_task(self.array_task[i], int(task))), None)


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
    if not isinstance(rows, list) or len(rows) > MOST_JOBS:
        raise _wrong("queue", f"must be a list of at most {MOST_JOBS:,} jobs")
    accounts: dict[tuple[str, str], int] = {}
    texts: dict[str, list[str]] = {name: [] for name in (*_TEXTS, "array_task")}
    account, state, times = [], [], ([], [])  # type: ignore[var-annotated]
    numbers: dict[str, list[float]] = {"cpus": [], "priority": [], "value": []}
    terms = np.full((len(rows), len(TERMS)), np.nan)
    for i, row in enumerate(rows):
        where = f"queue[{i}]"
        if not isinstance(row, dict) or not _FIELDS.issuperset(row):
            raise _wrong(where, f"must be an object with: {', '.join(sorted(_FIELDS))}")
        for name, longest in _TEXTS.items():
            texts[name].append(_text(row.get(name, ""), f"{where}.{name}", longest, name in _MAY_BE_EMPTY))
        task = row.get("array_task")
        texts["array_task"].append("" if task is None else _text(task, f"{where}.array_task", 2_000, True))
        account.append(accounts.setdefault((texts["user"][-1], texts["group"][-1]), len(accounts)))
        if row.get("state") not in STATES:
            raise _wrong(f"{where}.state", f"must be {' or '.join(STATES)}")
        state.append(STATES.index(row["state"]))
        for column, name in zip(times, ("submit_at", "eligible_at"), strict=True):
            column.append(_instant_us(row.get(name), f"{where}.{name}"))
        for name, column in numbers.items():
            column.append(_number(row.get(name), f"{where}.{name}"))
        row_terms = row.get("terms")
        if row_terms is not None:
            if not isinstance(row_terms, dict) or not set(TERMS).issuperset(row_terms):
                raise _wrong(f"{where}.terms", f"must be an object with: {', '.join(TERMS)}")
            terms[i] = [_number(row_terms.get(name, 0), f"{where}.terms.{name}") for name in TERMS]
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
    )


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
    return pack(columns)


def unpack_queue(listing: QueueListing) -> QueueTable:
    columns, _meta = unpack(listing.data, listing.digest)
    for name in ("partition", "qos", "reason"):
        known, codes = columns.pop(f"{name}_text"), columns.pop(f"{name}_code")
        columns[name] = [known[code] for code in codes.tolist()]
    accounts = list(zip(columns.pop("user"), columns.pop("group"), strict=True))
    columns["account"] = columns["account"].astype(np.int64)
    return QueueTable(**columns, accounts=accounts, taken_at=listing.taken_at)


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


def _text(value: Any, where: str, longest: int, may_be_empty: bool) -> str:
    if type(value) is not str or len(value) > longest or not (value or may_be_empty):
        raise _wrong(where, f"must be text of {0 if may_be_empty else 1} to {longest} characters")
    return value


def _number(value: Any, where: str) -> float:
    if value is None:
        return np.nan
    if type(value) not in (int, float) or not -_MOST_NUMBER <= value <= _MOST_NUMBER:
        raise _wrong(where, "must be a number, or null")
    return float(value)


def _instant_us(value: Any, where: str) -> int:
    if value is None:
        return NO_TIME
    try:
        at = datetime.fromisoformat(value)
        if at.tzinfo is None:
            raise ValueError
        return round(at.astimezone(UTC).timestamp() * 1e6)
    except (TypeError, ValueError, OverflowError):
        raise _wrong(where, "must be a time with its zone: 2026-01-31T12:00:00Z") from None


def instant_of(us: int) -> datetime | None:
    return None if us == NO_TIME else datetime.fromtimestamp(us / 1e6, UTC)


def _wrong(where: str, message: str) -> Malformed:
    return Malformed(f"{where} {message}.", fields=[FieldProblem(where, message)])
