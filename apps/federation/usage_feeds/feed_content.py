"""The content of a feed as arrays, and its progress: what changed since the last check, and the number it gets.

Arrays: which accounts belong to which of its entries, their hourly sums, running jobs.
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
from apps.mapping.rules.rule_set import load_rulebook
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
    """By the same rules as a recompute; what belongs to the entry itself counts to it. remembers: see its use_cache."""
    roll = load_account_index(use_cache=remembers)
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


# --- Numbered states --------------------------------------------------------------------------------------------------
KEPT = 100_000  # numbers that a reader may be behind: almost a year of one in five minutes
_MOST_DROPPED = 10_000  # at once


def add_marks(feed_id: int, *, after: int, upto: int) -> None:
    """The numbers that the feed comes to now; the oldest ones go. In the transaction that changes its number."""
    if upto == after:
        return
    made = [FeedMark(feed_id=feed_id, number=number, mark=uuid4()) for number in range(after + 1, upto + 1)]
    FeedMark.objects.bulk_create(made, batch_size=5_000)
    old = FeedMark.objects.filter(feed_id=feed_id, number__lte=upto - KEPT).order_by("number")[:_MOST_DROPPED]
    FeedMark.objects.filter(pk__in=old.values("pk")).delete()


def load_states(feed_id: int, numbers: Iterable[int]) -> dict[int, State]:
    """Those that are remembered, by number."""
    rows = FeedMark.objects.filter(feed_id=feed_id, number__in=set(numbers)).values_list("number", "mark")
    return {number: State(number, mark.hex) for number, mark in rows}


MOST_CHECKED = 1_500_000  # rows that are compared while a reader waits
MOST_ROWS = 500_000  # of one document, and of the hours that get one number
_MOST_NAMED = 150_000  # entries of a feed, above which a document has no more rows than this: it could name as many
_NOT_SENT = "-"  # in place of a digest: this feed sends no running jobs


@dataclass
class View:
    """A feed in one state of the database. sources: ids of this site's own; basis: what its sums depend on."""

    row: UsageFeed
    tree: TreeColumns = field(repr=False)
    entry: int
    sources: list[int]
    foreign: Mapping[str, int]  # watermarks of others' sources, whose usage isn't sent
    basis: dict[str, Any]
    this_hour: int
    remembers: bool

    @cached_property
    def places(self) -> Places:
        return load_places(self.row.policy, self.tree, self.entry, remembers=self.remembers)

    def is_current(self, since: int) -> bool:
        """Whether a reader of this number can be answered from here: the feed describes this very state, as far as it
        was checked.
        """
        is_same = _is_same(self.row.basis, self.basis, *self.basis) and not self.has_come
        return is_same and (self.is_complete or since < self.row.number)

    @property
    def is_complete(self) -> bool:
        """Whether all hours were compared; else those from `left` on are still to come."""
        return self.row.basis.get("left") is None

    @property
    def has_come(self) -> bool:
        """Whether an hour has begun of which there was usage ahead of our clock."""
        ahead = self.row.basis.get("ahead")
        return ahead is not None and ahead <= self.this_hour


def read_view(feed_id: int, *, at: datetime, remembers: bool, lock: bool = False) -> View:
    """
    Raises:
        NotFound: the feed is gone, or its entry is (code entry_gone).
    """
    rows = UsageFeed.objects.select_related("policy").filter(pk=feed_id)
    row = (rows.select_for_update(of=("self",)) if lock else rows).first()
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


def bring_up_to_date(view: View, *, since: int) -> None:
    """Give the next number to the hours whose sums changed, and to the running jobs if those did.

    At most as many hours as a reader waits for; `left` says where the rest begins. since: the reader's number; there is
    something new for it unless nothing changed. In a transaction that sees one state of the database and has locked the
    feed's row.
    """
    if view.is_current(since):
        return
    row, places = view.row, view.places
    first = view.this_hour + 1 - row.keeps_days * 24
    begin = _changed_since(view, first)
    FeedHour.objects.filter(feed=row, hour_at__lt=at_hour(first)).delete()
    changed, left = ([], None) if begin is None else _changed(view, max(begin, first))
    most_rows = MOST_ROWS if len(places.uids) <= _MOST_NAMED else _MOST_NAMED
    number = _number(row, changed, most_rows)
    digest = running_digest(load_running(view.sources, places), places.uids) if row.sends_running else _NOT_SENT
    if digest != row.running_digest:
        number = max(number, row.number + 1)
        row.running_digest, row.running_number = digest, number
    add_marks(row.pk, after=row.number, upto=number)
    row.number = number
    row.basis = view.basis | {
        "places": places.digest(places.last_account),
        "last_account": places.last_account,
        "most_rows": most_rows,
        "ahead": first_hour(view.sources, view.this_hour + 1),
        "left": left,
    }
    row.save(update_fields=["number", "running_digest", "running_number", "basis"])


def _changed_since(view: View, first: int) -> int | None:
    """The first hour that may differ from what was sent, None for none."""
    before = view.row.basis
    if not before or not _is_same(before, view.basis, "keeps_days"):
        return first
    if not before["watermarks"].keys() <= view.basis["watermarks"].keys():  # a source is gone, or has become another's
        return first
    is_placed_alike = _is_same(before, view.basis, "revision", "mapping", "people")
    if not is_placed_alike and view.places.digest(before["last_account"]) != before["places"]:
        return first
    changed_at = earliest_change({**view.foreign, **before["watermarks"]})
    found = [
        None if changed_at is None else hour_of(changed_at),
        before["left"],
        before["ahead"] if view.has_come else None,
    ]
    return min((hour for hour in found if hour is not None), default=None)


def _changed(view: View, from_hour: int) -> tuple[list[tuple[int, int, str]], int | None]:
    """The hours from then on that came to something else (which, how many rows, the digest; ascending), and the first
    that is left for the next time, None for none.
    """
    end = view.this_hour + 1
    told = FeedHour.objects.filter(feed=view.row, hour_at__gte=at_hour(from_hour), hour_at__lt=at_hour(end))
    before = {hour_of(hour_at): digest for hour_at, digest in told.values_list("hour_at", "digest")}
    first = first_hour(view.sources, from_hour)
    n_rows, reached, changed = 0, from_hour, []
    for sums in load_sums_in_turn(view.sources, view.places, from_hour=end if first is None else first, to_hour=end):
        for hour, n, digest in sums.digests(view.places.uids):
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
    """Store the changed hours, as many under each number as one document holds; the last number."""
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
