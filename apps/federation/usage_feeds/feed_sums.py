"""What a feed reports, as arrays: the accounts of each of its entries, hourly sums, running jobs."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np

from apps.accounts.account_index import load_account_index
from apps.federation.documents.wire_usage import RunningRows
from apps.federation.usage_feeds.stored_rows import U1, HourRows, StoredRunning, unique_uids
from apps.mapping.rules.placement import place_accounts
from apps.mapping.rules.rule_set import load_rule_set
from apps.policies.models import Policy
from apps.policies.tree.columns import TreeColumns
from apps.usage.arrays import load_open_records
from apps.usage.bucket_deltas import AMOUNTS, HOUR_US
from apps.usage.held_hours import NOT_HELD
from apps.usage.models import Bucket, Overlap
from apps.usage.parsers.base import F8, I8
from apps.usage.pgbinary import fetch_columns, int8_array

_AIM = 1_000_000  # approximate number of buckets loaded at once
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LOAD = f"""
SELECT array_agg(wanted.entry), array_agg(hour_at), {", ".join(f"array_agg({name})" for name in AMOUNTS)}
FROM usage_bucket JOIN unnest(%s::int8[], %s::int8[]) AS wanted(account, entry) ON wanted.account = account_id
WHERE source_id = ANY(%s::int8[]) AND hour_at >= %s::timestamptz AND hour_at < %s::timestamptz{{more}}
"""  # noqa: S608 - constants only


@dataclass(frozen=True, eq=False)
class FeedAccounts:
    """The accounts whose usage is sent, by id ascending; entry: index into uids, which are ascending.

    last_account: the newest known account, sent or not; 0 for none.
    """

    account_id: I8
    entry: I8
    uids: U1  # (n, 16)
    last_account: int

    def digest(self, last_account: int) -> str:
        """Digest of the entries of accounts up to this one; newer accounts have no older usage."""
        chosen = self.account_id <= last_account
        digest = hashlib.sha256(self.account_id[chosen].tobytes())
        digest.update(self.uids[self.entry[chosen]].tobytes())
        return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums by hour (since 1970) and entry ascending, without empty rows; amounts: (n, 6) in the order of AMOUNTS."""

    hour: I8
    entry: I8
    amounts: F8
    to_hour: int  # of an hour before the last check

    def by_hour(self, uids: U1) -> Iterator[tuple[int, HourRows]]:
        """The hours with rows, each with its rows. uids: of the entries."""
        hours, starts, n_rows = np.unique(self.hour, return_index=True, return_counts=True)
        ends = starts + n_rows
        names = uids[self.entry]
        for hour, begin, end in zip(hours.tolist(), starts.tolist(), ends.tolist(), strict=True):
            yield hour, HourRows(names[begin:end], self.amounts[begin:end])


def load_feed_accounts(policy: Policy, tree: TreeColumns, i: int, *, remembers: bool) -> FeedAccounts:
    """Load the accounts of an entry and its subtree by the rules of a recompute. remembers: use_cache of the index."""
    roll = load_account_index(use_cache=remembers)
    rule_set = load_rule_set(policy, tree)
    entry = place_accounts(tree, rule_set.rules, rule_set.known, roll.keys).of_usage
    is_sent = (entry >= 0) & tree.subtree_mask(i)[entry]
    nodes, place = np.unique(entry[is_sent], return_inverse=True)
    uids = np.ascontiguousarray(tree.uid[nodes]).reshape(len(nodes), 16)
    uids, rank = unique_uids(uids)
    last_account = int(roll.ids[-1]) if len(roll.ids) else 0
    return FeedAccounts(roll.ids[is_sent], rank[place], uids, last_account)


def load_sums(sources: Sequence[int], accounts: FeedAccounts, *, from_hour: int, to_hour: int) -> Sums:
    """Load the sums from one hour to before another."""
    parameters = [
        int8_array(accounts.account_id),
        int8_array(accounts.entry),
        list(sources),
        at_hour(from_hour),
        at_hour(to_hour),
    ]
    is_held = Overlap.objects.filter(held__in=sources).exclude(state=Overlap.State.COUNTED).exists()
    query = _LOAD.format(more=NOT_HELD if is_held else "")
    sums = fetch_columns(query, parameters) if len(accounts.uids) and sources else []
    if not sums:
        return Sums(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, len(AMOUNTS))), to_hour)
    entry, at_us, *columns = sums
    key = (at_us // HOUR_US - from_hour) * len(accounts.uids) + entry
    order = np.argsort(key, kind="stable")
    key = key[order]
    amounts = np.column_stack(columns)[order]
    starts = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
    if len(starts) < len(key):
        key, amounts = key[starts], np.add.reduceat(amounts, starts, axis=0)
    has_any = amounts.any(axis=1)
    if not has_any.all():
        key, amounts = key[has_any], amounts[has_any]
    return Sums(key // len(accounts.uids) + from_hour, key % len(accounts.uids), amounts, to_hour)


def load_sums_in_groups(
    sources: Sequence[int], accounts: FeedAccounts, *, from_hour: int, to_hour: int
) -> Iterator[Sums]:
    """Load the sums in groups of hours, to bound memory."""
    begin, n_hours = from_hour, 6
    while begin < to_hour:
        end = min(begin + n_hours, to_hour)
        sums = load_sums(sources, accounts, from_hour=begin, to_hour=end)
        yield sums
        n_rows = len(sums.hour)
        n_hours = max(1, min(n_hours * 4, n_hours * _AIM // max(n_rows, 1)))
        begin = end


def first_hour(sources: Sequence[int], from_hour: int) -> int | None:
    """The first hour from `from_hour` on that has any usage; None for none."""
    rows = Bucket.objects.filter(hour_at__gte=at_hour(from_hour), source_id__in=sources).order_by("hour_at")
    instant = rows.values_list("hour_at", flat=True).first()
    return None if instant is None else hour_of(instant)


def load_running(sources: Sequence[int], accounts: FeedAccounts, *, hour: int) -> tuple[StoredRunning, int | None]:
    """Running jobs in a deterministic order, without those that may not run on in this hour (since 1970).

    Beside them the hour from which on the first of them may not run on; None where all may.
    """
    records = load_open_records(sources=list(sources))
    at = np.searchsorted(accounts.account_id, records.account_id)
    at[at == len(accounts.account_id)] = 0
    is_sent = records.is_running.copy()
    if records.known_until_epoch is not None:  # peers count a job that is sent until their last contact
        is_sent &= records.known_until_epoch > hour * 3600.0
    is_sent &= accounts.account_id[at] == records.account_id if len(accounts.account_id) else False
    until_s = np.inf if records.known_until_epoch is None else records.known_until_epoch[is_sent].min(initial=np.inf)
    entry = accounts.entry[at[is_sent]] if is_sent.any() else np.zeros(0, np.int64)
    start_us = np.rint(records.start_epoch[is_sent] * 1e6).astype(np.int64)
    rates = [column[is_sent] for column in (records.cpus, records.gpus, records.mem_gb, records.nodes, records.billing)]
    requested_s = records.requested_s[is_sent]
    order = np.lexsort((requested_s, *rates[::-1], start_us, entry))
    rows = RunningRows(entry[order], start_us[order], *(column[order] for column in (*rates, requested_s)))
    return StoredRunning(accounts.uids, rows), None if np.isinf(until_s) else math.ceil(until_s / 3600.0)


def at_hour(hour: int) -> datetime:
    return _EPOCH + hour * timedelta(hours=1)


def hour_of(at: datetime) -> int:
    """Number of the instant's hour since 1970."""
    return (at - _EPOCH) // timedelta(hours=1)
