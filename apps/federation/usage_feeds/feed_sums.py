"""The content of a feed as arrays: which accounts belong to which of its entries, their hourly sums, running jobs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt

from apps.accounts.names.account_index import load_roll
from apps.federation.documents.wire_usage import RunningRows
from apps.mapping.rules.placement import place_accounts
from apps.mapping.rules.rule_set import load_rulebook
from apps.policies.models import Policy
from apps.policies.tree.columns import TreeColumns
from apps.usage.buckets.held_hours import NOT_HELD
from apps.usage.buckets.hourly import AMOUNTS, HOUR_US
from apps.usage.models import Bucket, Overlap
from apps.usage.parsers.base import F8, I8
from apps.usage.pgbinary import Int8Array, TimestamptzArray, fetch_columns
from apps.usage.selectors import load_open_records

U1 = npt.NDArray[np.uint8]
EMPTY = hashlib.sha256().hexdigest()  # of an hour without rows
_AIM = 1_000_000  # buckets that are loaded at a time, about
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, eq=False)
class Places:
    """The accounts whose usage is sent, by id ascending; entry: index into uids, which ascend.

    last_account: the newest known account, sent or not; 0 for none.
    """

    account_id: I8
    entry: I8
    uids: U1  # (n, 16)
    last_account: int

    def digest(self, last_account: int) -> str:
        """Of where accounts up to this one belong: those that are newer have no older usage."""
        chosen = self.account_id <= last_account
        found = hashlib.sha256(self.account_id[chosen].tobytes())
        found.update(self.uids[self.entry[chosen]].tobytes())
        return found.hexdigest()


@dataclass(frozen=True, eq=False)
class Sums:
    """By hour (since 1970) and entry ascending, nothing without any amount; amounts: (n, 6) in the order of AMOUNTS."""

    hour: I8
    entry: I8
    amounts: F8
    to_hour: int  # the last check was before it

    def digests(self, uids: U1) -> Iterator[tuple[int, int, str]]:
        """Each hour that has rows: which, how many, and a digest of what it came to."""
        hours, starts, n_rows = np.unique(self.hour, return_index=True, return_counts=True)
        ends = starts + n_rows
        names = uids[self.entry]
        for hour, begin, end in zip(hours.tolist(), starts.tolist(), ends.tolist(), strict=True):
            found = hashlib.sha256(names[begin:end].tobytes())
            found.update(self.amounts[begin:end].tobytes())
            yield hour, end - begin, found.hexdigest()


def load_places(policy: Policy, tree: TreeColumns, i: int, *, remembers: bool) -> Places:
    """By the same rules as a recompute; what belongs to the entry itself counts to it. remembers: see load_roll."""
    roll = load_roll(remembers=remembers)
    book = load_rulebook(policy, tree)
    entry, _joins = place_accounts(tree, book.rules, book.known, roll.keys)
    is_sent = (entry >= 0) & tree.subtree_mask(i)[entry]
    nodes, place = np.unique(entry[is_sent], return_inverse=True)
    uids = np.ascontiguousarray(tree.uid[nodes]).reshape(len(nodes), 16)
    halves = uids.view(">u8")
    order = np.lexsort((halves[:, 1], halves[:, 0]))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    last_account = int(roll.ids[-1]) if len(roll.ids) else 0
    return Places(roll.ids[is_sent], rank[place], uids[order], last_account)


_LOAD = f"""
SELECT array_agg(told.entry), array_agg(hour_at), {", ".join(f"array_agg({name})" for name in AMOUNTS)}
FROM usage_bucket JOIN unnest(%s::int8[], %s::int8[]) AS told(account, entry) ON told.account = account_id
WHERE source_id = ANY(%s::int8[]) AND hour_at >= %s::timestamptz AND hour_at < %s::timestamptz{{more}}
"""  # noqa: S608 - constants only
_ONLY = " AND hour_at = ANY(%s::timestamptz[])"


def load_sums(sources: Sequence[int], places: Places, *, from_hour: int, to_hour: int, only: I8 | None = None) -> Sums:
    """Of hours from one to before the other. only: of these hours."""
    given = [Int8Array(places.account_id), Int8Array(places.entry), list(sources), at_hour(from_hour), at_hour(to_hour)]
    parts = [] if only is None else [TimestamptzArray(only * HOUR_US)]
    is_held = Overlap.objects.filter(held__in=sources).exclude(state=Overlap.State.COUNTED).exists()
    query = _LOAD.format(more=(_ONLY if parts else "") + (NOT_HELD if is_held else ""))
    found = fetch_columns(query, [*given, *parts]) if len(places.uids) and sources else []
    if not found:
        return Sums(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, len(AMOUNTS))), to_hour)
    entry, at_us, *columns = found
    key = (at_us // HOUR_US - from_hour) * len(places.uids) + entry
    order = np.argsort(key, kind="stable")
    key = key[order]
    amounts = np.column_stack(columns)[order]
    starts = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
    if len(starts) < len(key):
        key, amounts = key[starts], np.add.reduceat(amounts, starts, axis=0)
    has_any = amounts.any(axis=1)
    if not has_any.all():
        key, amounts = key[has_any], amounts[has_any]
    return Sums(key // len(places.uids) + from_hour, key % len(places.uids), amounts, to_hour)


def load_sums_in_turn(sources: Sequence[int], places: Places, *, from_hour: int, to_hour: int) -> Iterator[Sums]:
    """Load the sums by groups of hours: as many at a time as memory has room for."""
    begin, n_hours = from_hour, 6
    while begin < to_hour:
        end = min(begin + n_hours, to_hour)
        sums = load_sums(sources, places, from_hour=begin, to_hour=end)
        yield sums
        n_rows = len(sums.hour)
        n_hours = max(1, min(n_hours * 4, n_hours * _AIM // max(n_rows, 1)))
        begin = end


def first_hour(sources: Sequence[int], from_hour: int) -> int | None:
    """The first hour from then on that has any usage, None for none."""
    rows = Bucket.objects.filter(hour_at__gte=at_hour(from_hour), source_id__in=sources).order_by("hour_at")
    found = rows.values_list("hour_at", flat=True).first()
    return None if found is None else hour_of(found)


def load_running(sources: Sequence[int], places: Places) -> RunningRows:
    """Jobs that run now, in an order that depends on nothing but them; `entry` as in `places`."""
    found = load_open_records(sources=list(sources))
    at = np.searchsorted(places.account_id, found.account_id)
    at[at == len(places.account_id)] = 0
    is_sent = found.is_running.copy()
    is_sent &= places.account_id[at] == found.account_id if len(places.account_id) else False
    entry = places.entry[at[is_sent]] if is_sent.any() else np.zeros(0, np.int64)
    start_us = np.rint(found.start_epoch[is_sent] * 1e6).astype(np.int64)
    rates = [column[is_sent] for column in (found.cpus, found.gpus, found.mem_gb, found.nodes, found.billing)]
    requested_s = found.requested_s[is_sent]
    order = np.lexsort((requested_s, *rates[::-1], start_us, entry))
    return RunningRows(entry[order], start_us[order], *(column[order] for column in (*rates, requested_s)))


def running_digest(running: RunningRows, uids: U1) -> str:
    found = hashlib.sha256(uids[running.entry].tobytes())
    for column in (running.start_us, running.cpus, running.gpus, running.mem_gb, running.nodes, running.billing):
        found.update(column.tobytes())
    found.update(np.where(np.isnan(running.requested_s), -1.0, running.requested_s).tobytes())
    return found.hexdigest()


def at_hour(hour: int) -> datetime:
    return _EPOCH + hour * timedelta(hours=1)


def hour_of(at: datetime) -> int:
    """The number of its hour since 1970."""
    return (at - _EPOCH) // timedelta(hours=1)
