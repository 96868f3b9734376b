"""The content of a feed as arrays, and its progress: changes since the last check, and their numbers.

Arrays: the accounts of each of its entries, hourly sums, running jobs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from apps.accounts.account_ids import load_account_index
from apps.core.errors import NotFound
from apps.federation.documents.wire_usage import RunningRows, State
from apps.federation.models import FeedHour, FeedMark, UsageFeed
from apps.mapping.rules.resolver import place_accounts
from apps.mapping.rules.rule_set import load_rule_set
from apps.policies.models import Policy
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree
from apps.priorities.recompute.inputs import read_fingerprint
from apps.usage.arrays import load_open_records
from apps.usage.buckets import AMOUNTS, HOUR_US
from apps.usage.changed_hours import earliest_change
from apps.usage.held_hours import NOT_HELD
from apps.usage.models import Bucket, Overlap, Source
from apps.usage.parsers.base import F8, I8
from apps.usage.pgbinary import Int8Array, TimestamptzArray, fetch_columns

# --- Sums as arrays ---------------------------------------------------------------------------------------------------
U1 = npt.NDArray[np.uint8]
EMPTY = hashlib.sha256().hexdigest()  # digest of an hour without rows
_AIM = 1_000_000  # approximate number of buckets loaded at once
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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
        found = hashlib.sha256(self.account_id[chosen].tobytes())
        found.update(self.uids[self.entry[chosen]].tobytes())
        return found.hexdigest()


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums by hour (since 1970) and entry ascending, without empty rows; amounts: (n, 6) in the order of AMOUNTS."""

    hour: I8
    entry: I8
    amounts: F8
    to_hour: int  # of an hour before the last check

    def digests(self, uids: U1) -> Iterator[tuple[int, int, str]]:
        """(hours with rows, number of rows of each, digest of each)."""
        hours, starts, n_rows = np.unique(self.hour, return_index=True, return_counts=True)
        ends = starts + n_rows
        names = uids[self.entry]
        for hour, begin, end in zip(hours.tolist(), starts.tolist(), ends.tolist(), strict=True):
            found = hashlib.sha256(names[begin:end].tobytes())
            found.update(self.amounts[begin:end].tobytes())
            yield hour, end - begin, found.hexdigest()


def load_feed_accounts(policy: Policy, tree: TreeColumns, i: int, *, remembers: bool) -> FeedAccounts:
    """Load the accounts of an entry and its subtree by the rules of a recompute. remembers: use_cache of the index."""
    roll = load_account_index(use_cache=remembers)
    rule_set = load_rule_set(policy, tree)
    entry, _joins = place_accounts(tree, rule_set.rules, rule_set.known, roll.keys)
    is_sent = (entry >= 0) & tree.subtree_mask(i)[entry]
    nodes, place = np.unique(entry[is_sent], return_inverse=True)
    uids = np.ascontiguousarray(tree.uid[nodes]).reshape(len(nodes), 16)
    halves = uids.view(">u8")
    order = np.lexsort((halves[:, 1], halves[:, 0]))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    last_account = int(roll.ids[-1]) if len(roll.ids) else 0
    return FeedAccounts(roll.ids[is_sent], rank[place], uids[order], last_account)


_LOAD = f"""
SELECT array_agg(wanted.entry), array_agg(hour_at), {", ".join(f"array_agg({name})" for name in AMOUNTS)}
FROM usage_bucket JOIN unnest(%s::int8[], %s::int8[]) AS wanted(account, entry) ON wanted.account = account_id
WHERE source_id = ANY(%s::int8[]) AND hour_at >= %s::timestamptz AND hour_at < %s::timestamptz{{more}}
"""  # noqa: S608 - constants only
_ONLY = " AND hour_at = ANY(%s::timestamptz[])"


def load_sums(
    sources: Sequence[int], accounts: FeedAccounts, *, from_hour: int, to_hour: int, only: I8 | None = None
) -> Sums:
    """Load the sums from one hour to before another. only: restrict to these hours."""
    given = [
        Int8Array(accounts.account_id),
        Int8Array(accounts.entry),
        list(sources),
        at_hour(from_hour),
        at_hour(to_hour),
    ]
    parts = [] if only is None else [TimestamptzArray(only * HOUR_US)]
    is_held = Overlap.objects.filter(held__in=sources).exclude(state=Overlap.State.COUNTED).exists()
    query = _LOAD.format(more=(_ONLY if parts else "") + (NOT_HELD if is_held else ""))
    found = fetch_columns(query, [*given, *parts]) if len(accounts.uids) and sources else []
    if not found:
        return Sums(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, len(AMOUNTS))), to_hour)
    entry, at_us, *columns = found
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
    found = rows.values_list("hour_at", flat=True).first()
    return None if found is None else hour_of(found)


def load_running(sources: Sequence[int], accounts: FeedAccounts) -> RunningRows:
    """Running jobs in a deterministic order; `entry` as in `accounts`."""
    found = load_open_records(sources=list(sources))
    at = np.searchsorted(accounts.account_id, found.account_id)
    at[at == len(accounts.account_id)] = 0
    is_sent = found.is_running.copy()
    is_sent &= accounts.account_id[at] == found.account_id if len(accounts.account_id) else False
    entry = accounts.entry[at[is_sent]] if is_sent.any() else np.zeros(0, np.int64)
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
    """Number of the instant's hour since 1970."""
    return (at - _EPOCH) // timedelta(hours=1)


# --- Numbered states --------------------------------------------------------------------------------------------------
KEPT = 100_000  # numbers that a reader may be behind: almost a year if there is one every five minutes
_MOST_DROPPED = 10_000  # rows inserted at once


def add_marks(feed_id: int, *, after: int, upto: int) -> None:
    """Store marks of new numbers and delete the oldest. Must run in the transaction that changes the feed's number."""
    if upto == after:
        return
    made = [FeedMark(feed_id=feed_id, number=number, mark=uuid4()) for number in range(after + 1, upto + 1)]
    FeedMark.objects.bulk_create(made, batch_size=5_000)
    old = FeedMark.objects.filter(feed_id=feed_id, number__lte=upto - KEPT).order_by("number")[:_MOST_DROPPED]
    FeedMark.objects.filter(pk__in=old.values("pk")).delete()


def load_states(feed_id: int, numbers: Iterable[int]) -> dict[int, State]:
    """The stored states among these numbers, by number."""
    rows = FeedMark.objects.filter(feed_id=feed_id, number__in=set(numbers)).values_list("number", "mark")
    return {number: State(number, mark.hex) for number, mark in rows}


MOST_CHECKED = 1_500_000  # rows compared during a reader's request
MOST_ROWS = 500_000  # rows of one document, and of the hours that get one number
# entries of a feed beyond which documents have no more rows than this, because each row may name an entry
_MOST_NAMED = 150_000
_NOT_SENT = "-"  # instead of a digest, for a feed without running jobs


@dataclass
class View:
    """A feed in one state of the database. sources: ids of this site's own; basis: digest of the inputs of its sums."""

    row: UsageFeed
    tree: TreeColumns = field(repr=False)
    entry: int
    sources: list[int]
    foreign: Mapping[str, int]  # watermarks of other sites' sources, whose usage isn't sent
    basis: dict[str, Any]
    this_hour: int
    remembers: bool

    @cached_property
    def accounts(self) -> FeedAccounts:
        return load_feed_accounts(self.row.policy, self.tree, self.entry, remembers=self.remembers)

    def is_current(self, since: int) -> bool:
        """Whether a reader of this number can be answered without a check: the feed is up to date with this state."""
        is_same = _is_same(self.row.basis, self.basis, *self.basis) and not self.has_come
        return is_same and (self.is_complete or since < self.row.number)

    @property
    def is_complete(self) -> bool:
        """Whether all hours were compared; otherwise those from `left` on remain."""
        return self.row.basis.get("left") is None

    @property
    def has_come(self) -> bool:
        """Whether an hour has begun whose usage was in the future at the last check."""
        ahead = self.row.basis.get("ahead")
        return ahead is not None and ahead <= self.this_hour


def read_view(feed_id: int, *, at: datetime, remembers: bool, lock: bool = False) -> View:
    """Load a feed.

    Raises:
        NotFound: the feed or its entry is gone (code entry_gone).
    """
    rows = UsageFeed.objects.select_related("policy").filter(pk=feed_id)
    row = (rows.select_for_update(of=("self",), no_key=True) if lock else rows).first()
    if row is None:
        raise NotFound("There is no such feed any more.")
    fingerprint = read_fingerprint(row.policy, as_of=at)
    tree = load_tree(row.policy, fingerprint.revision)
    entry = tree.index_of_uid(row.entry_uid)
    if entry is None:
        raise NotFound(f"The entry of {row.name} is no longer in {row.policy.slug}.", code="entry_gone")
    sources = list(Source.objects.order_by("id").values_list("id", "slug", "origin"))
    own = {slug: source_id for source_id, slug, origin in sources if not origin}
    basis = {
        "revision": fingerprint.revision,
        "mapping": fingerprint.mapping_version,
        "people": fingerprint.people,
        "watermarks": {slug: n for slug, n in fingerprint.watermarks.items() if slug in own},
        "keeps_days": row.keeps_days,
        "sends_running": row.sends_running,
    }
    foreign = {slug: n for slug, n in fingerprint.watermarks.items() if slug not in own}
    return View(row, tree, entry, list(own.values()), foreign, basis, hour_of(at), remembers)


def update_feed(view: View, *, since: int) -> None:
    """Assign the next number to the hours whose sums changed, and to the running jobs if they did.

    Compares at most as many hours as a reader can wait for; the rest begins at `left`. since: the reader's number, for
    which there is a newer one unless nothing changed. Must run in a transaction with one snapshot of the database that
    has locked the feed's row.
    """
    if view.is_current(since):
        return
    row, accounts = view.row, view.accounts
    first = view.this_hour + 1 - row.keeps_days * 24
    begin = _changed_since(view, first)
    FeedHour.objects.filter(feed=row, hour_at__lt=at_hour(first)).delete()
    changed, left = ([], None) if begin is None else _changed(view, max(begin, first))
    most_rows = MOST_ROWS if len(accounts.uids) <= _MOST_NAMED else _MOST_NAMED
    number = _number(row, changed, most_rows)
    digest = running_digest(load_running(view.sources, accounts), accounts.uids) if row.sends_running else _NOT_SENT
    if digest != row.running_digest:
        number = max(number, row.number + 1)
        row.running_digest, row.running_number = digest, number
    add_marks(row.pk, after=row.number, upto=number)
    row.number = number
    row.basis = view.basis | {
        "places": accounts.digest(accounts.last_account),
        "last_account": accounts.last_account,
        "most_rows": most_rows,
        "ahead": first_hour(view.sources, view.this_hour + 1),
        "left": left,
    }
    row.save(update_fields=["number", "running_digest", "running_number", "basis"])


def _changed_since(view: View, first: int) -> int | None:
    """The first hour that may differ from what was sent; None for none."""
    before = view.row.basis
    if not before or not _is_same(before, view.basis, "keeps_days"):
        return first
    # a source was deleted or belongs to another site now
    if not before["watermarks"].keys() <= view.basis["watermarks"].keys():
        return first
    is_placed_alike = _is_same(before, view.basis, "revision", "mapping", "people")
    if not is_placed_alike and view.accounts.digest(before["last_account"]) != before["places"]:
        return first
    changed_at = earliest_change({**view.foreign, **before["watermarks"]})
    found = [
        None if changed_at is None else hour_of(changed_at),
        before["left"],
        before["ahead"] if view.has_come else None,
    ]
    return min((hour for hour in found if hour is not None), default=None)


def _changed(view: View, from_hour: int) -> tuple[list[tuple[int, int, str]], int | None]:
    """(changed hours, numbers of rows, digests) from `from_hour` on, ascending, and the first hour left or None."""
    end = view.this_hour + 1
    hours = FeedHour.objects.filter(feed=view.row, hour_at__gte=at_hour(from_hour), hour_at__lt=at_hour(end))
    before = {hour_of(hour_at): digest for hour_at, digest in hours.values_list("hour_at", "digest")}
    first = first_hour(view.sources, from_hour)
    n_rows, reached, changed = 0, from_hour, []
    for sums in load_sums_in_groups(
        view.sources, view.accounts, from_hour=end if first is None else first, to_hour=end
    ):
        for hour, n, digest in sums.digests(view.accounts.uids):
            if before.pop(hour, EMPTY) != digest:
                changed.append((hour, n, digest))
        n_rows, reached = n_rows + len(sums.hour), sums.to_hour
        if n_rows >= MOST_CHECKED and changed and reached < end:
            break
    else:
        reached = end
    changed += [(hour, 0, EMPTY) for hour, digest in before.items() if digest != EMPTY and hour < reached]
    return sorted(changed), reached if reached < end else None


def _number(row: UsageFeed, changed: list[tuple[int, int, str]], most_rows: int) -> int:
    """Store the changed hours, under each number as many as fit into one document; return the last number."""
    number, n_rows, made = row.number, most_rows + 1, []
    for hour, n, digest in changed:
        n_rows += n
        if n_rows > most_rows:
            number, n_rows = number + 1, n
        made.append(FeedHour(feed=row, hour_at=at_hour(hour), digest=digest, number=number, n_rows=n))
    FeedHour.objects.bulk_create(
        made,
        batch_size=5_000,
        update_conflicts=True,
        unique_fields=["feed", "hour_at"],
        update_fields=["digest", "number", "n_rows"],
    )
    return number


def _is_same(one: Mapping[str, Any], other: Mapping[str, Any], *names: str) -> bool:
    return all(name in one and one[name] == other[name] for name in names)
