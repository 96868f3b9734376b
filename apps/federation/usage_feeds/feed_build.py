"""Build a feed: which of its hours and running jobs changed, and under which number they are sent.

A feed is a series of numbered states. For each hour it stores the rows, their digest, and the number since which they
are unchanged. A build compares the buckets with what is stored and gives changed hours the next number. It is one
transaction with one view of the database: it is there as a whole or not at all, whenever its worker is killed.

A feed holds the hours of `keeps_days` up to the present one of the believed clock. Its basis names this range: one that
begins or ends earlier than before, because a clock was ahead, is built again. It also names the hour from which on one
of the running jobs may not run on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any
from uuid import uuid4

from django.db import connection, transaction
from django.db.models.functions import Length

from apps.accounts.clock_watch import believed
from apps.core.errors import NotFound
from apps.federation.documents.site_keys import load_keys
from apps.federation.documents.wire_usage import State
from apps.federation.models import FeedHour, FeedMark, FeedRunning, UsageFeed
from apps.federation.usage_feeds.feed_sums import (
    FeedAccounts,
    at_hour,
    first_hour,
    hour_of,
    load_feed_accounts,
    load_running,
    load_sums_in_groups,
)
from apps.federation.usage_feeds.stored_rows import NO_ROWS, HourRows
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree
from apps.priorities.recompute.fingerprint import read_fingerprint
from apps.usage.changed_hours import earliest_change
from apps.usage.models import Bucket, Source

KEPT = 100_000  # numbers that a reader may be behind: almost a year if there is one every five minutes
MOST_FEED_ROWS = 500_000  # rows of one document, and of the hours that get one number
_MOST_DROPPED = 10_000  # rows inserted at once
# entries of a feed beyond which documents have no more rows than this, because each row may name an entry
_MOST_NAMING_ROWS = 150_000
_MOST_BUCKETS_WAITED_FOR = 200_000  # buckets that a person who makes a feed waits for
_NOT_SENT = "-"  # instead of a digest, for a feed without running jobs
_EMPTY = NO_ROWS.digest


@dataclass
class FeedInputs:
    """A feed and what it is built from, in one state of the database.

    sources: ids of this site's own. foreign: watermarks of other sites' sources, whose usage isn't sent. basis: digest
    of the inputs of its sums. this_hour: the last hour of its range, since 1970.
    """

    row: UsageFeed
    tree: TreeColumns = field(repr=False)
    entry: int
    sources: list[int]
    foreign: Mapping[str, int]
    basis: dict[str, Any]
    this_hour: int
    may_cache: bool

    @cached_property
    def accounts(self) -> FeedAccounts:
        return load_feed_accounts(self.row.policy, self.tree, self.entry, remembers=self.may_cache)

    @property
    def first_hour(self) -> int:
        """The first hour of its range, since 1970."""
        return self.this_hour + 1 - self.row.keeps_days * 24

    @property
    def is_built(self) -> bool:
        """Whether the feed is up to date with this state."""
        is_same = self.row.built_at is not None and _is_same(self.row.basis, self.basis, *self.basis)
        return is_same and not (self.has_come or self.has_ended or self.lacks_first or self.exceeds)

    @property
    def lacks_first(self) -> bool:
        """Whether hours at the beginning of the range may be missing: it begins earlier than at the last build."""
        first = self.row.basis.get("first")
        return first is None or bool(self.first_hour < first)

    @property
    def exceeds(self) -> bool:
        """Whether hours behind the range may be stored: it ends earlier than at the last build."""
        return bool(self.this_hour < self.row.basis.get("through", self.this_hour))

    def is_in_time(self, at: datetime) -> bool:
        """Whether less than half of the lifetime of its documents is over."""
        built_at = self.row.built_at
        return built_at is not None and built_at <= at < built_at + timedelta(seconds=self.row.expires_after_s / 2)

    @property
    def has_come(self) -> bool:
        """Whether an hour has begun whose usage was in the future at the last build."""
        ahead = self.row.basis.get("ahead")
        return ahead is not None and ahead <= self.this_hour

    @property
    def has_ended(self) -> bool:
        """Whether an hour has begun in which a job that is sent as running may not run on."""
        until = self.row.basis.get("running_until", self.this_hour)  # unknown of feeds that an older version built
        return until is not None and until <= self.this_hour


def load_inputs(feed_id: int, *, at: datetime, may_cache: bool, lock: bool = False) -> FeedInputs:
    """Load a feed and the digests of its inputs; hours that are too old are those of the believed clock.

    Raises:
        NotFound: the feed or its entry is gone (code entry_gone).
    """
    rows = UsageFeed.objects.select_related("policy").filter(pk=feed_id)
    row = (rows.select_for_update(of=("self",), no_key=True) if lock else rows).first()
    if row is None:
        raise NotFound("There is no such feed any more.")
    at = believed(at)
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
        "namespaces": dict(fingerprint.namespaces),
        "watermarks": {slug: n for slug, n in fingerprint.watermarks.items() if slug in own},
        "keeps_days": row.keeps_days,
        "sends_running": row.sends_running,
    }
    foreign = {slug: n for slug, n in fingerprint.watermarks.items() if slug not in own}
    return FeedInputs(row, tree, entry, list(own.values()), foreign, basis, hour_of(at), may_cache)


def build_feed(feed_id: int, *, at: datetime) -> UsageFeed:
    """Bring a feed up to date, and renew its documents after half of their lifetime; repeating it changes nothing.

    Raises:
        NotFound: the feed or its entry is gone (code entry_gone).
        OperationalError: another process built it meanwhile; may be repeated.
    """
    load_keys(at=at)  # the first key is made here, not when a document is read
    with _single_snapshot() as is_outermost:
        inputs = load_inputs(feed_id, at=at, may_cache=is_outermost, lock=True)
        row = inputs.row
        if not inputs.is_built:
            _renew(inputs, at)
        elif not inputs.is_in_time(at):
            row.built_at = at
            row.save(update_fields=["built_at"])
        return row


def is_small() -> bool:
    """Whether this site's usage is so little that a feed of it is built while a person waits."""
    return Bucket.objects.filter(source__origin="")[: _MOST_BUCKETS_WAITED_FOR + 1].count() <= _MOST_BUCKETS_WAITED_FOR


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


def _renew(inputs: FeedInputs, at: datetime) -> None:
    """Assign the next numbers to the hours whose sums changed, and to the running jobs if they did."""
    row, accounts, first = inputs.row, inputs.accounts, inputs.first_hour
    begin = _changed_since(inputs)
    FeedHour.objects.filter(feed=row, hour_at__lt=at_hour(first)).delete()
    most_rows = MOST_FEED_ROWS if len(accounts.uids) <= _MOST_NAMING_ROWS else _MOST_NAMING_ROWS
    number = row.number if begin is None else _store_changed(inputs, max(begin, first), most_rows)
    digest, running_until = _store_running(inputs)
    if digest != row.running_digest:
        number = max(number, row.number + 1)
        row.running_digest, row.running_number = digest, number
    add_marks(row.pk, after=row.number, upto=number)
    row.number, row.built_at = number, at
    row.basis = inputs.basis | {
        "places": accounts.digest(accounts.last_account),
        "last_account": accounts.last_account,
        "most_rows": most_rows,
        "first": first,
        "through": inputs.this_hour,
        "ahead": first_hour(inputs.sources, inputs.this_hour + 1),
        "running_until": running_until,
    }
    row.save(update_fields=["number", "running_digest", "running_number", "basis", "built_at"])


def _changed_since(inputs: FeedInputs) -> int | None:
    """The first hour that may differ from what is stored; None for none."""
    before, first = inputs.row.basis, inputs.first_hour
    if not before or inputs.lacks_first or not _is_same(before, inputs.basis, "keeps_days"):
        return first
    # a source was deleted or belongs to another site now
    if not before["watermarks"].keys() <= inputs.basis["watermarks"].keys():
        return first
    is_placed_alike = _is_same(before, inputs.basis, "revision", "mapping", "people", "namespaces")
    if not is_placed_alike and inputs.accounts.digest(before["last_account"]) != before["places"]:
        return first
    changed_at = earliest_change({**inputs.foreign, **before["watermarks"]})
    hours = [
        None if changed_at is None else hour_of(changed_at),
        before["ahead"] if inputs.has_come else None,
        inputs.this_hour + 1 if inputs.exceeds else None,
    ]
    return min((hour for hour in hours if hour is not None), default=None)


def _store_changed(inputs: FeedInputs, from_hour: int, most_rows: int) -> int:
    """Store the changed hours, under each number as many as fit into one document; return the last number."""
    number, n_rows = inputs.row.number, most_rows + 1
    for group in _changed(inputs, from_hour):
        made = []
        for hour, rows, number_before in group:
            if number_before is None:
                n_rows += len(rows)
                if n_rows > most_rows:
                    number, n_rows = number + 1, len(rows)
            made.append(
                FeedHour(
                    feed=inputs.row,
                    hour_at=at_hour(hour),
                    digest=rows.digest,
                    number=number if number_before is None else number_before,
                    n_rows=len(rows),
                    rows=rows.pack(),
                )
            )
        FeedHour.objects.bulk_create(
            made,
            batch_size=1_000,
            update_conflicts=True,
            unique_fields=["feed", "hour_at"],
            update_fields=["digest", "number", "n_rows", "rows"],
        )
    return number


def _changed(inputs: FeedInputs, from_hour: int) -> Iterator[list[tuple[int, HourRows, int | None]]]:
    """Groups of hours to store from `from_hour` on, ascending: each with its rows, and None or the number it keeps.

    An hour keeps its number if it is unchanged, and only its rows aren't stored: those of an older version of this
    software. Stored hours behind the range are emptied: a clock that was ahead sent them.
    """
    end = inputs.this_hour + 1
    hours = FeedHour.objects.filter(feed=inputs.row, hour_at__gte=at_hour(from_hour))
    before = {
        hour_of(hour_at): (digest, number, n_bytes > 0 or digest == _EMPTY)
        for hour_at, digest, number, n_bytes in hours.values_list("hour_at", "digest", "number", Length("rows"))
    }
    first = first_hour(inputs.sources, from_hour)
    if first is not None and first < end:
        for sums in load_sums_in_groups(inputs.sources, inputs.accounts, from_hour=first, to_hour=end):
            group: list[tuple[int, HourRows, int | None]] = []
            for hour, rows in sums.by_hour(inputs.accounts.uids):
                digest, number, is_stored = before.pop(hour, (_EMPTY, 0, True))
                if digest != rows.digest:
                    group.append((hour, rows, None))
                elif not is_stored:
                    group.append((hour, rows, number))
            group += _emptied(before, to_hour=sums.to_hour)
            yield sorted(group, key=lambda each: each[0])
    yield sorted(_emptied(before), key=lambda each: each[0])


def _emptied(
    before: dict[int, tuple[str, int, bool]], *, to_hour: int | None = None
) -> list[tuple[int, HourRows, int | None]]:
    """Take out the hours before `to_hour`, or all, which have no rows any more; return those that had some."""
    gone = [hour for hour in before if to_hour is None or hour < to_hour]
    return [(hour, NO_ROWS, None) for hour in gone if before.pop(hour)[0] != _EMPTY]


def _store_running(inputs: FeedInputs) -> tuple[str, int | None]:
    """Store the running jobs; return their digest, and the hour from which on one of them may not run on."""
    row = inputs.row
    if not row.sends_running:
        FeedRunning.objects.filter(feed=row).delete()
        return _NOT_SENT, None
    running, until = load_running(inputs.sources, inputs.accounts, hour=inputs.this_hour)
    values = {"n_rows": len(running.rows), "rows": running.pack()}
    FeedRunning.objects.update_or_create(feed=row, defaults=values)
    return running.digest, until


@contextmanager
def _single_snapshot() -> Iterator[bool]:
    """A writable transaction with one snapshot, which fails if a concurrent one was faster.

    Yields False if it is nested in another transaction.
    """
    is_outermost = not connection.in_atomic_block
    with transaction.atomic():
        if is_outermost:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        yield is_outermost


def _is_same(before: Mapping[str, Any], after: Mapping[str, Any], *names: str) -> bool:
    return all(name in before and before[name] == after[name] for name in names)
