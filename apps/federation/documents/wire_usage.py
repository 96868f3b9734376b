"""Format of a usage document: hourly sums by the uids of entries, and the jobs running now.

Version 1 of the format, as canonical JSON (see apps/core/signing.py); no names of accounts, groups or jobs are in it:

`{"format":"fairshare-usage/1", "issuer", "feed", "root", "number", "since", "more", "newest":{"number","mark"},
"seen":null or {"number","mark"}, "issued_at", "expires_at", "site", "capacity":{"cores"}, "enforces":null or
{"issuer","publication","version"}, "entries":[uid…], "hours":[…], "running":null or {…}}`

Each number gets a random mark (32 hexadecimal digits) when the feed reaches it, and another one when it reaches it
again, because the site was restored from an older state. `newest` is the state of the feed when this was sent; it
equals `number` where everything was sent, and is later where there is more. `seen` is the newest state known to the
reader at its request (null for a reader of nothing): a different mark there means that the reader's usage is of another
lineage.

An hour: `{"hour":"2026-11-20T12:00:00Z", "entry":[…], "cpu_s":[…], …}`: its sums are complete, so an hour without rows
is empty. `entry` holds indexes into `entries`, ascending; gpu_s, mem_gb_s, node_s, billing and jobs are present unless
they are 0 throughout. Amounts are seconds of the resource in multiples of 2^-10, jobs whole numbers. Running jobs:
`entry`, `start` (seconds since 1970), `cpus`, `requested_s` (seconds or null), and gpus, mem_gb, nodes, billing (a
second) unless 0 throughout. Entries and hours ascend, without repetition.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID

import numpy as np

from apps.core.errors import TooLarge
from apps.federation.documents.wire import (
    Rows,
    RunningColumns,
    bad_field,
    check_fields,
    check_format,
    instant_text,
    read_authority,
    read_indexes,
    read_instant,
    read_integer,
    read_list,
    read_numbers,
    read_object,
    read_validity,
    refuse_at,
)
from apps.policies.tree.names import has_markup
from apps.usage.bucket_deltas import AMOUNTS, QUANTA, RESOURCES
from apps.usage.parsers.base import F8, I8, LAST_US

FORMAT = "fairshare-usage/1"
MOST_DOCUMENT_ROWS = 1_000_000
MOST_DOCUMENT_ENTRIES = 200_000
MOST_RUNNING = 200_000
MOST_DOCUMENT_HOURS = 100_000
LEAST_DOCUMENT_CORES, MOST_DOCUMENT_CORES = 1e-3, 1e9
MOST_SUM = 2**53 // QUANTA  # of an hour: below it, sums of multiples of 2⁻¹⁰ are exact
MOST_SITE = 64
_HOUR_NEEDS = ("hour", "entry", AMOUNTS[0])
_RATES = ("cpus", "gpus", "mem_gb", "nodes", "billing")
_RUNNING_NEEDS = ("entry", "start", "cpus", "requested_s")
_MARK = re.compile(r"[0-9a-f]{32}")
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Enforced:
    """The version of another authority's document that is active at the feed's entry."""

    issuer: str
    publication: str
    version: int


@dataclass(frozen=True)
class State:
    """A number of a feed and its random mark; a number that is reached again has a different mark."""

    number: int
    mark: str


@dataclass(frozen=True)
class UsageHead:
    """The header of a usage document. number: the state after applying it to the state `since`; more: later ones exist.

    newest: the state of the feed when this was sent. seen: the newest state that the reader knew, None for `since` 0.
    """

    issuer: str
    feed: str
    root: UUID
    number: int
    since: int
    more: bool
    newest: State
    seen: State | None
    issued_at: datetime
    expires_at: datetime
    site: str
    capacity_cores: float
    enforces: Enforced | None = None


_KEYS = (
    *(each.name for each in fields(UsageHead) if each.name != "capacity_cores"),
    *("capacity", "entries", "format", "hours", "running"),
)


@dataclass(frozen=True, eq=False)
class RunningRows:
    """The running jobs as columns. entry: index into the document's entries; requested_s: NaN if unknown."""

    entry: I8
    start_us: I8  # since 1970
    cpus: F8
    gpus: F8
    mem_gb: F8
    nodes: F8
    billing: F8  # a second
    requested_s: F8

    def __len__(self) -> int:
        return len(self.entry)


@dataclass(frozen=True, eq=False)
class UsageDocument:
    """Sums as columns, by hour and entry ascending. hours: all reported ones, including those without rows.

    hours, row_hour: hours since 1970; row_entry: index into entries; amounts: (n, 6) in the order of AMOUNTS.
    """

    head: UsageHead
    entries: Sequence[UUID] = field(repr=False)
    hours: I8 = field(repr=False)
    row_hour: I8 = field(repr=False)
    row_entry: I8 = field(repr=False)
    amounts: F8 = field(repr=False)
    running: RunningRows | None = field(repr=False, default=None)


def write_usage(document: UsageDocument) -> dict[str, Any]:
    """Convert to JSON; entries, hours and rows are already sorted."""
    head = document.head
    return {
        "format": FORMAT,
        "issuer": head.issuer,
        "feed": head.feed,
        "root": str(head.root),
        "number": head.number,
        "since": head.since,
        "more": head.more,
        "newest": asdict(head.newest),
        "seen": head.seen and asdict(head.seen),
        "issued_at": instant_text(head.issued_at),
        "expires_at": instant_text(head.expires_at),
        "site": head.site,
        "capacity": {"cores": head.capacity_cores},
        "enforces": head.enforces and asdict(head.enforces),
        "entries": [str(uid) for uid in document.entries],
        "hours": _hours_json(document),
        "running": None if document.running is None else _running_json(document.running),
    }


def read_usage(document: Mapping[str, Any]) -> UsageDocument:
    """Check that a document is valid in itself; the reading site checks it against its own state.

    Raises:
        BadDocument: something is missing, unknown or wrong; the message has its location.
        TooLarge: more rows, entries, hours or running jobs than a document may have.
    """
    head = _read_head(document)
    entries = _read_entries(document["entries"])
    hours, row_hour, row_entry, amounts = _read_hours(document["hours"], len(entries), head)
    running = None if document["running"] is None else _read_running(document["running"], len(entries))
    return UsageDocument(head, entries, hours, row_hour, row_entry, amounts, running)


def _hours_json(document: UsageDocument) -> list[dict[str, Any]]:
    bounds = np.searchsorted(document.row_hour, [document.hours, document.hours + 1]).T.tolist()
    has_any = np.flatnonzero(document.amounts.any(axis=0)).tolist()
    columns = [
        (name, np.ascontiguousarray(document.amounts[:, place]))
        for place, name in enumerate(AMOUNTS)
        if place in has_any or not place
    ]
    written = []
    for hour, (begin, end) in zip(document.hours.tolist(), bounds, strict=True):
        hour_json: dict[str, Any] = {
            "hour": instant_text(_EPOCH + hour * _HOUR),
            "entry": document.row_entry[begin:end].tolist(),
        }
        for name, column in columns:
            part = column[begin:end]
            if name == AMOUNTS[0] or part.any():
                hour_json[name] = part.tolist()
        written.append(hour_json)
    return written


def _running_json(running: RunningRows) -> dict[str, Any]:
    requested = running.requested_s.tolist()
    written: dict[str, Any] = {
        "entry": running.entry.tolist(),
        "start": (running.start_us / 1e6).tolist(),
        "cpus": running.cpus.tolist(),
        "requested_s": [None if value != value else value for value in requested],
    }
    optional = ((name, getattr(running, name)) for name in _RATES[1:])
    return written | {name: column.tolist() for name, column in optional if column.any()}


def _read_head(document: Mapping[str, Any]) -> UsageHead:
    check_format(document, FORMAT)
    check_fields(document, _KEYS, _KEYS, "")
    number, since = read_integer(document["number"], "number", 1), read_integer(document["since"], "since", 0)
    if since > number:
        raise bad_field("since", "is later than number")
    if type(document["more"]) is not bool:
        raise bad_field("more", "must be true or false")
    if document["more"] and since == number:
        raise bad_field("more", "announces more, but no hours are reported")
    newest, seen = _read_lineage(document, number, since)
    issued_at, expires_at = read_validity(document)
    return UsageHead(
        issuer=read_authority(document["issuer"], "issuer"),
        feed=read_authority(document["feed"], "feed"),
        root=_read_uid(document["root"], "root"),
        number=number,
        since=since,
        more=document["more"],
        newest=newest,
        seen=seen,
        issued_at=issued_at,
        expires_at=expires_at,
        site=_read_site(document["site"]),
        capacity_cores=_read_capacity(document["capacity"]),
        enforces=None if document["enforces"] is None else _read_enforced(document["enforces"]),
    )


def _read_lineage(document: Mapping[str, Any], number: int, since: int) -> tuple[State, State | None]:
    """Read and check `newest` and `seen`: the newest state of the feed, and the newest one that the reader knew."""
    newest = _read_state(document["newest"], "newest")
    if newest.number < number:
        raise bad_field("newest.number", "is earlier than number")
    if newest.number > number and not document["more"]:
        raise bad_field("more", "must be true: the reported hours end before the newest state")
    if not since:
        if document["seen"] is not None:
            raise bad_field("seen", "must be null where since is 0")
        return newest, None
    seen = _read_state(document["seen"], "seen")
    if not since <= seen.number <= newest.number:
        raise bad_field("seen.number", "must be from since to the newest")
    if seen.number == newest.number and seen.mark != newest.mark:
        raise bad_field("seen.mark", "is another one than that of newest, which has the same number")
    return newest, seen


def _read_state(value: object, where: str) -> State:
    state = read_object(value, ("number", "mark"), ("number", "mark"), where)
    mark = state["mark"]
    if not isinstance(mark, str) or not _MARK.fullmatch(mark):
        raise bad_field(f"{where}.mark", "must be 32 hexadecimal digits in lower case")
    return State(read_integer(state["number"], f"{where}.number", 1), mark)


def _read_site(value: object) -> str:
    is_plain = isinstance(value, str) and value.isprintable() and value == value.strip() and not has_markup(value)
    if not is_plain or not isinstance(value, str) or not 1 <= len(value) <= MOST_SITE:
        raise bad_field("site", f"must be a name of 1 to {MOST_SITE} characters on one line, without < and >")
    return value


def _read_capacity(value: object) -> float:
    cores = read_object(value, ("cores",), ("cores",), "capacity")["cores"]
    if type(cores) not in (int, float) or not 0 < cores <= MOST_DOCUMENT_CORES:
        raise bad_field("capacity.cores", f"must be a number above 0, at most {MOST_DOCUMENT_CORES:,.0f}")
    return float(cores)


def _read_enforced(value: object) -> Enforced:
    names = ("issuer", "publication", "version")
    enforced = read_object(value, names, names, "enforces")
    return Enforced(
        read_authority(enforced["issuer"], "enforces.issuer"),
        read_authority(enforced["publication"], "enforces.publication"),
        read_integer(enforced["version"], "enforces.version", 1),
    )


def _read_entries(value: object) -> list[UUID]:
    uids = read_list(value, "entries")
    if len(uids) > MOST_DOCUMENT_ENTRIES:
        raise TooLarge(f"The document names {len(uids):,} entries; the limit is {MOST_DOCUMENT_ENTRIES:,}.")
    entries = [_read_uid(uid, f"entries[{at}]") for at, uid in enumerate(uids)]
    for at, (uid, following) in enumerate(pairwise(uids), 1):
        if uid >= following:
            raise bad_field(f"entries[{at}]", "comes twice" if uid == following else "isn't in order")
    return entries


def _read_uid(value: object, where: str) -> UUID:
    if not isinstance(value, str) or not _UID.fullmatch(value):
        raise bad_field(where, "must be a uid in lower case, as in 5c2a0e2c-3d3f-4b52-9a49-0d7f0f6f4c11")
    uid = UUID(value)
    if not uid.int:
        raise bad_field(where, "is no entry's uid")
    return uid


def _read_hours(value: object, n_entries: int, head: UsageHead) -> tuple[I8, I8, I8, F8]:
    hours_json = read_list(value, "hours")
    if len(hours_json) > MOST_DOCUMENT_HOURS:
        raise TooLarge(f"The document reports {len(hours_json):,} hours; the limit is {MOST_DOCUMENT_HOURS:,}.")
    hours = np.fromiter((_read_hour(hour, at, head) for at, hour in enumerate(hours_json)), np.int64, len(hours_json))
    late = np.flatnonzero(hours[1:] <= hours[:-1])
    if len(late):
        at = int(late[0]) + 1
        raise bad_field(f"hours[{at}].hour", "comes twice" if hours[at] == hours[at - 1] else "isn't in order")
    lengths = np.fromiter((len(hour["entry"]) for hour in hours_json), np.int64, len(hours_json))
    rows = Rows(hours_json, lengths)
    if rows.n > MOST_DOCUMENT_ROWS:
        raise TooLarge(f"The document has {rows.n:,} rows; the limit is {MOST_DOCUMENT_ROWS:,}.")
    entry = read_indexes(rows, n_entries)
    refuse_at(rows, "entry", rows.unordered(entry), "isn't in order, or comes twice")
    amounts = np.zeros((rows.n, len(AMOUNTS)))
    for place, name in enumerate(AMOUNTS):
        amounts[:, place] = _read_amounts(rows, name)
        _refuse_sums(rows, name, amounts[:, place])
    return hours, np.repeat(hours, lengths), entry, amounts


def _read_hour(value: object, at: int, head: UsageHead) -> int:
    """Check one hour; return its number since 1970."""
    where = f"hours[{at}]"
    columns = read_object(value, _HOUR_NEEDS, ("hour", "entry", *AMOUNTS), where)
    begins_at = read_instant(columns["hour"], f"{where}.hour")
    hour, rest = divmod(begins_at - _EPOCH, _HOUR)
    if rest or hour < 0:
        raise bad_field(f"{where}.hour", "must be a whole hour since 1970")
    if begins_at > head.issued_at:
        raise bad_field(f"{where}.hour", "begins after the document was issued")
    n_rows = len(read_list(columns["entry"], f"{where}.entry"))
    for name in columns.keys() - {"hour", "entry"}:
        if len(read_list(columns[name], f"{where}.{name}")) != n_rows:
            raise bad_field(f"{where}.{name}", f"must have as many values as entry, which has {n_rows}")
    return hour


def _read_running(value: object, n_entries: int) -> RunningRows:
    columns = read_object(value, _RUNNING_NEEDS, ("entry", "start", *_RATES, "requested_s"), "running")
    n = len(read_list(columns["entry"], "running.entry"))
    if n > MOST_RUNNING:
        raise TooLarge(f"The document has {n:,} running jobs; the limit is {MOST_RUNNING:,}.")
    for name in columns:
        if len(read_list(columns[name], f"running.{name}")) != n:
            raise bad_field(f"running.{name}", f"must have as many values as entry, which has {n}")
    rows = RunningColumns(columns, n)
    start = read_numbers(rows, "start", most=LAST_US / 1e6)
    requested = columns["requested_s"]
    known = RunningColumns({"requested_s": [0 if seconds is None else seconds for seconds in requested]}, n)
    requested_s = read_numbers(known, "requested_s")
    requested_s[[at for at, seconds in enumerate(requested) if seconds is None]] = np.nan
    return RunningRows(
        entry=read_indexes(rows, n_entries),
        start_us=np.rint(start * 1e6).astype(np.int64),
        **{name: read_numbers(rows, name) for name in _RATES},
        requested_s=requested_s,
    )


def _refuse_sums(rows: Rows, name: str, amounts: F8) -> None:
    """Reject hours whose total is too large to be exact in any order of summation; audits rely on that."""
    hour = np.repeat(np.arange(len(rows.hours)), rows.ends - rows.starts)
    sums = np.bincount(hour, weights=amounts, minlength=len(rows.hours))
    wrong = np.flatnonzero(sums > MOST_SUM)
    if len(wrong):
        raise bad_field(f"hours[{wrong[0]}].{name}", f"exceeds {MOST_SUM:,.0f} in total")


def _read_amounts(rows: Rows, name: str) -> F8:
    numbers = read_numbers(rows, name)
    if name in RESOURCES:
        scaled = numbers * QUANTA
        refuse_at(rows, name, np.flatnonzero(scaled != np.rint(scaled)), f"must be a multiple of 1/{QUANTA}")
    else:
        refuse_at(rows, name, np.flatnonzero(numbers != np.rint(numbers)), "must be a whole number")
    return numbers
