"""Progress of a feed: what changed since the last check, and the numbers that changed hours get."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any
from uuid import uuid4

from apps.core.errors import NotFound
from apps.federation.documents.wire_usage import State
from apps.federation.models import FeedHour, FeedMark, UsageFeed
from apps.federation.usage_feeds.feed_sums import (
    EMPTY,
    Places,
    at_hour,
    first_hour,
    hour_of,
    load_places,
    load_running,
    load_sums_in_turn,
    running_digest,
)
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree
from apps.priorities.recompute.fingerprint import read_fingerprint
from apps.usage.buckets.changed_hours import earliest_change
from apps.usage.models import Source

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
