"""Core-seconds by account and source between two hours, remembered by this process in pieces; and the held hours.

Held hours arrived from two sources: where, whose, how much, and what was decided.

A window of a year moves on by an hour, and what changes in it is mostly of the last days. So sums are kept of months of
UTC that lie whole in what is asked for, of whole days beside them, and of the hours left at its ends. A piece is valid
until an hour before its end may have changed (see `buckets`); then it is read again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count, pairwise

import numpy as np
from django.db import connection

from apps.accounts.actor import Actor
from apps.usage.buckets import earliest_change
from apps.usage.models import Overlap, Source
from apps.usage.parsers.base import F8, I8
from apps.usage.pgbinary import fetch_columns

# --- Held hours -------------------------------------------------------------------------------------------------------
# A condition of queries on buckets: hours that another source covers too don't count until a manager decides.
NOT_HELD = """ AND (usage_bucket.source_id, usage_bucket.site, usage_bucket.hour_at) NOT IN (
    SELECT held_id, site, generate_series(from_at, to_at - interval '1 hour', '1 hour') FROM usage_overlap
    WHERE state IN ('held', 'dropped')
        AND kept_id NOT IN (SELECT id FROM usage_source WHERE archived_at IS NOT NULL))
"""
# A condition of queries on buckets or records: usage of archived sources counts nowhere.
OF_CURRENT = " AND source_id NOT IN (SELECT id FROM usage_source WHERE archived_at IS NOT NULL)"


@dataclass(frozen=True, slots=True)
class HeldHours:
    """Everything that two sources have in common at a site, in one state."""

    site: str
    kept: str
    kept_name: str
    held: str
    held_name: str
    state: str
    from_at: datetime
    to_at: datetime
    n_hours: int
    cpu_s: float  # of the held source in these hours
    kept_cpu_s: float
    found_at: datetime
    decided_at: datetime | None
    decided_by: str
    reason: str


_GROUPS = """
SELECT overlap.site, kept.slug, kept.name, held.slug, held.name, overlap.state, min(from_at), max(to_at),
    sum(extract(epoch FROM to_at - from_at) / 3600)::int8,
    COALESCE(sum(theirs.cpu_s), 0), COALESCE(sum(ours.cpu_s), 0), min(found_at), max(decided_at),
    COALESCE(max(person.username), ''), max(reason)
FROM usage_overlap AS overlap
JOIN usage_source AS kept ON kept.id = kept_id JOIN usage_source AS held ON held.id = held_id
LEFT JOIN accounts_user AS person ON person.id = decided_by_id
LEFT JOIN LATERAL (SELECT sum(cpu_s) AS cpu_s FROM usage_bucket AS bucket WHERE bucket.source_id = held_id
    AND bucket.site = overlap.site AND hour_at >= from_at AND hour_at < to_at) AS theirs ON true
LEFT JOIN LATERAL (SELECT sum(cpu_s) AS cpu_s FROM usage_bucket AS bucket WHERE bucket.source_id = kept_id
    AND bucket.site = overlap.site AND hour_at >= from_at AND hour_at < to_at) AS ours ON true
WHERE kept.archived_at IS NULL AND held.archived_at IS NULL
GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY overlap.state <> 'held', min(found_at) DESC, 1, 2, 4 LIMIT %s
"""


def list_held_hours(*, actor: Actor, limit: int = 200) -> list[HeldHours]:
    """Undecided ones first, newest first; for every signed-in person, like other facts about sources. Names no jobs."""
    if actor.user is not None and not actor.user.is_active:
        return []
    with connection.cursor() as cursor:
        cursor.execute(_GROUPS, [limit])
        return [HeldHours(*row) for row in cursor.fetchall()]


# --- Sums by account and source ---------------------------------------------------------------------------------------
_HOUR_US = 3_600_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_BYTES = 128 * 1024**2
_MOST_HOURS = 31 * 24  # read with one query: bounds memory
_LEAST_BYTES = 1_000  # of a piece, be nothing in it
_MANY_CELLS = 4  # to a row: with more of them sorting is cheaper than counting
_READ = """
SELECT array_agg(account_id), array_agg(source_id), array_agg(hour_at), array_agg(cpu_s)
FROM usage_bucket WHERE hour_at >= %s AND hour_at < %s{unless_held}
"""
_FIRST = "SELECT array_agg(hour_at) FROM (SELECT min(hour_at) AS hour_at FROM usage_bucket) AS one WHERE hour_at < %s"

Span = tuple[int, int]
_Marks = dict[str, tuple[int, int]]  # of each source, by its slug: which row it is, and its watermark


@dataclass(frozen=True, eq=False, slots=True)
class Piece:
    """Sums of whole hours, counted since 1970, without those that are held; each account and source once.

    number: another one for every time that it was read. first_hours: of each source in `first_sources`, the first one
    in which anything is known of it, be it nothing.
    """

    number: int
    account_id: I8
    source_id: I8
    cpu_s: F8
    first_sources: I8
    first_hours: I8

    @property
    def n_bytes(self) -> int:
        columns = (self.account_id, self.source_id, self.cpu_s, self.first_sources, self.first_hours)
        return _LEAST_BYTES + sum(column.nbytes for column in columns)


class AccountSums:
    """Who remembers holds `lock` from before the transaction begins until it ends: each sees what the last one saw."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._pieces: OrderedDict[Span, Piece] = OrderedDict()
        self._marks: _Marks | None = None

    def between(self, edges: Sequence[int], *, remembers: bool) -> list[list[Piece]]:
        """The pieces of each stretch between two consecutive edges, ascending hours since 1970.

        remembers: the caller holds the lock, and its transaction only reads and sees one state; anything else might
        yet be undone.
        """
        wanted = [spans(*stretch) for stretch in pairwise(edges)]
        if remembers:
            self._forget_changed()
        every = [span for stretch in wanted for span in stretch]
        found = {span: self._pieces[span] for span in every if remembers and span in self._pieces}
        for batch in _batches([span for span in every if span not in found]):
            found.update(_read(batch))
        if remembers:
            self._keep(found)
        return [[found[span] for span in stretch] for stretch in wanted]

    @property
    def n_bytes(self) -> int:
        return sum(piece.n_bytes for piece in self._pieces.values())

    def _forget_changed(self) -> None:
        before, self._marks = self._marks, None  # until all of it has worked
        marks = {slug: (pk, mark) for slug, pk, mark in Source.objects.values_list("slug", "pk", "watermark")}
        if before is None or not _goes_on(before, marks):
            self._pieces.clear()
        elif marks != before:
            changed_at = earliest_change({slug: mark for slug, (_pk, mark) in before.items()})
            if changed_at is not None:
                changed_hour = (changed_at - _EPOCH) // timedelta(hours=1)
                for span in [span for span in self._pieces if span[1] > changed_hour]:
                    del self._pieces[span]
        self._marks = marks

    def _keep(self, found: dict[Span, Piece]) -> None:
        """What was asked for now before anything else, and of that the oldest: the last days change most."""
        for span in sorted(found, reverse=True):
            self._pieces[span] = found[span]
            self._pieces.move_to_end(span)
        left = self.n_bytes
        while left > _MOST_BYTES:
            left -= self._pieces.popitem(last=False)[1].n_bytes


def hour_from(at: datetime) -> int:
    """The first whole hour that begins at an instant or later."""
    return -((_EPOCH - at) // timedelta(hours=1))


def first_hour(before_hour: int) -> int:
    """Of all that is known before an hour; that hour where nothing is."""
    found = fetch_columns(_FIRST, [_at(before_hour)])
    return int(found[0][0]) // _HOUR_US if found else before_hour


def spans(from_hour: int, to_hour: int) -> list[Span]:
    """Whole months, whole days beside them, and the hours that are left."""
    found = []
    while from_hour < to_hour:
        ends = (end for end in (_month_end(from_hour), _day_end(from_hour)) if end is not None and end <= to_hour)
        until = next(ends, min(to_hour, from_hour // 24 * 24 + 24))
        found.append((from_hour, until))
        from_hour = until
    return found


_numbers = count(1)


def _day_end(hour: int) -> int | None:
    """Of the day that begins then."""
    return hour + 24 if hour % 24 == 0 else None


def _month_end(hour: int) -> int | None:
    at = _at(hour)
    if at.day != 1 or at.hour != 0:
        return None
    return ((at + timedelta(days=32)).replace(day=1) - _EPOCH) // timedelta(hours=1)


def _at(hour: int) -> datetime:
    return _EPOCH + timedelta(hours=hour)


def _goes_on(before: _Marks, marks: _Marks) -> bool:
    """Whether each source that is still there is the one it was, and has lost nothing that it had counted."""
    return all(
        slug not in marks or (marks[slug][0] == pk and marks[slug][1] >= mark) for slug, (pk, mark) in before.items()
    )


def _batches(missing: Sequence[Span]) -> Iterator[list[Span]]:
    """Neighbours, as many as are read with one query."""
    batch: list[Span] = []
    for span in missing:
        if batch and (batch[-1][1] != span[0] or span[1] - batch[0][0] > _MOST_HOURS):
            yield batch
            batch = []
        batch.append(span)
    if batch:
        yield batch


def _read(batch: Sequence[Span]) -> Iterator[tuple[Span, Piece]]:
    """Of neighbours, in their order."""
    is_held = Overlap.objects.exclude(state=Overlap.State.COUNTED).exists()
    query = _READ.format(unless_held=OF_CURRENT + (NOT_HELD if is_held else ""))
    found = fetch_columns(query, [_at(batch[0][0]), _at(batch[-1][1])])
    none = np.zeros(0, np.int64)
    account_id, source_id, hour_us, cpu_s = found or (none, none, none, np.zeros(0))
    hour = hour_us // _HOUR_US
    place = np.searchsorted(np.array([end for _begin, end in batch]), hour, side="right").astype(np.int16)
    order = np.argsort(place, kind="stable")
    ends = np.searchsorted(place[order], np.arange(len(batch)), side="right")
    begin = 0
    for span, end in zip(batch, ends.tolist(), strict=True):
        rows = order[begin:end] if len(batch) > 1 else slice(None)
        yield span, _summed(account_id[rows], source_id[rows], hour[rows], cpu_s[rows])
        begin = end


def _summed(account_id: I8, source_id: I8, hour: I8, cpu_s: F8) -> Piece:
    """Sums of whole 2⁻¹⁰ s are exact in any order."""
    sources, of_source = np.unique(source_id, return_inverse=True)
    first = np.full(len(sources), np.iinfo(np.int64).max)
    np.minimum.at(first, of_source, hour)
    lowest = int(account_id.min(initial=np.iinfo(np.int64).max)) if len(account_id) else 0
    cell = (account_id - lowest) * max(len(sources), 1) + of_source
    n_cells = int(cell.max(initial=-1)) + 1
    if n_cells <= _MANY_CELLS * len(cell) + 1_000_000:
        counted = np.bincount(cell, weights=cpu_s, minlength=n_cells)
        used = np.flatnonzero(counted)
        sums = counted[used].astype(np.float64)
    else:
        used, at = np.unique(cell, return_inverse=True)
        sums = np.bincount(at, weights=cpu_s).astype(np.float64)
    account, source = np.divmod(used, max(len(sources), 1))
    return Piece(next(_numbers), _small(account + lowest), _small(sources[source]), sums, sources, first)


def _small(ids: I8) -> I8:
    """In half the memory, where numbers are small."""
    return ids.astype(np.int32) if ids.max(initial=0) <= np.iinfo(np.int32).max else ids


remembered = AccountSums()
