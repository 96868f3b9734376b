"""Cached core-seconds by account and source over ranges of hours.

A window of a year advances by one hour at a time, and mostly its last days change. Sums are therefore cached for whole
UTC months, for whole days beside them, and for the hours at the ends of the window. A cached piece is valid until an
hour before its end may have changed (see `changed_hours`); then it is read again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count, pairwise

import numpy as np

from apps.core.derived_state import in_memory
from apps.usage.changed_hours import ReadMarks
from apps.usage.held_hours import NOT_HELD, OF_CURRENT
from apps.usage.models import Overlap
from apps.usage.parsers.base import F8, I8
from apps.usage.pgbinary import fetch_columns

DERIVED_STATE = (
    in_memory(
        "cached_sums",
        holds="usage by account and period",
        key="sources, periods, resources; marks of what was read",
        inputs="buckets",
        range="the periods asked for",
        ends="pieces from a changed hour on are read again",
    ),
)

_HOUR_US = 3_600_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_BYTES = 128 * 1024**2
_MOST_HOURS = 31 * 24  # read by one query: bounds memory
_LEAST_BYTES = 1_000  # assumed for a piece, even an empty one
_MANY_CELLS = 4  # per row: with more cells than this, sorting is cheaper than counting
_READ = """
SELECT array_agg(account_id), array_agg(source_id), array_agg(hour_at), array_agg(cpu_s)
FROM usage_bucket WHERE hour_at >= %s AND hour_at < %s{unless_held}
"""
_FIRST = "SELECT array_agg(hour_at) FROM (SELECT min(hour_at) AS hour_at FROM usage_bucket) AS one WHERE hour_at < %s"

Span = tuple[int, int]


@dataclass(frozen=True, eq=False, slots=True)
class Piece:
    """Core-seconds of the hours of a span, one row per account and source, without held hours.

    number: unique for each time that a span was read. first_hours: for each source in `first_sources`, the first hour
    since 1970 with a bucket, even one without usage.
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
    """Cache of pieces. counts_held: with the usage of hours that are held.

    A caller that uses the cache holds `lock` from before its transaction begins until it ends, so that each transaction
    sees the state that the previous one saw, or a later one.
    """

    def __init__(self, *, counts_held: bool = False) -> None:
        self.lock = threading.Lock()
        self._counts_held = counts_held
        self._pieces: OrderedDict[Span, Piece] = OrderedDict()
        self._marks = ReadMarks()

    def load_pieces(self, edges: Sequence[int], *, use_cache: bool) -> list[list[Piece]]:
        """The pieces of each range between two consecutive edges (ascending hours since 1970).

        use_cache: only if the caller holds the lock and its transaction is read-only with one snapshot: other
        transactions may still be rolled back.
        """
        wanted = [split_into_spans(*stretch) for stretch in pairwise(edges)]
        if use_cache:
            self._drop_changed()
        every = [span for stretch in wanted for span in stretch]
        pieces = {span: self._pieces[span] for span in every if use_cache and span in self._pieces}
        for batch in _batches([span for span in every if span not in pieces]):
            pieces.update(_read(batch, counts_held=self._counts_held))
        if use_cache:
            self._store(pieces)
        return [[pieces[span] for span in stretch] for stretch in wanted]

    @property
    def n_bytes(self) -> int:
        return sum(piece.n_bytes for piece in self._pieces.values())

    def _drop_changed(self) -> None:
        changed_hour = self._marks.first_changed_hour()
        if changed_hour is not None:
            for span in [span for span in self._pieces if span[1] > changed_hour]:
                del self._pieces[span]

    def _store(self, pieces: dict[Span, Piece]) -> None:
        """Cache the requested pieces, evicting others first and later hours before earlier ones: recent days change
        most.
        """
        for span in sorted(pieces, reverse=True):
            self._pieces[span] = pieces[span]
            self._pieces.move_to_end(span)
        left = self.n_bytes
        while left > _MOST_BYTES:
            left -= self._pieces.popitem(last=False)[1].n_bytes


def first_full_hour(at: datetime) -> int:
    """Number of the first hour since 1970 that begins at `at` or later."""
    return -((_EPOCH - at) // timedelta(hours=1))


def earliest_hour(before_hour: int) -> int:
    """Number of the first hour with a bucket, at most `before_hour`."""
    columns = fetch_columns(_FIRST, [_at(before_hour)])
    return int(columns[0][0]) // _HOUR_US if columns else before_hour


def split_into_spans(from_hour: int, to_hour: int) -> list[Span]:
    """Split a range of hours into whole months, whole days and the remaining hours at its ends."""
    spans = []
    while from_hour < to_hour:
        ends = (end for end in (_month_end(from_hour), _day_end(from_hour)) if end is not None and end <= to_hour)
        until = next(ends, min(to_hour, from_hour // 24 * 24 + 24))
        spans.append((from_hour, until))
        from_hour = until
    return spans


_numbers = count(1)


def _day_end(hour: int) -> int | None:
    """End of the day that begins at `hour`, None if none begins then."""
    return hour + 24 if hour % 24 == 0 else None


def _month_end(hour: int) -> int | None:
    at = _at(hour)
    if at.day != 1 or at.hour != 0:
        return None
    return ((at + timedelta(days=32)).replace(day=1) - _EPOCH) // timedelta(hours=1)


def _at(hour: int) -> datetime:
    return _EPOCH + timedelta(hours=hour)


def _batches(missing: Sequence[Span]) -> Iterator[list[Span]]:
    """Group adjacent spans into batches that one query reads."""
    batch: list[Span] = []
    for span in missing:
        if batch and (batch[-1][1] != span[0] or span[1] - batch[0][0] > _MOST_HOURS):
            yield batch
            batch = []
        batch.append(span)
    if batch:
        yield batch


def _read(batch: Sequence[Span], *, counts_held: bool) -> Iterator[tuple[Span, Piece]]:
    """Read adjacent spans; yields them in order."""
    is_held = not counts_held and Overlap.objects.exclude(state=Overlap.State.COUNTED).exists()
    query = _READ.format(unless_held=OF_CURRENT + (NOT_HELD if is_held else ""))
    columns = fetch_columns(query, [_at(batch[0][0]), _at(batch[-1][1])])
    none = np.zeros(0, np.int64)
    account_id, source_id, hour_us, cpu_s = columns or (none, none, none, np.zeros(0))
    hour = hour_us // _HOUR_US
    index = np.searchsorted(np.array([end for _begin, end in batch]), hour, side="right").astype(np.int16)
    order = np.argsort(index, kind="stable")
    ends = np.searchsorted(index[order], np.arange(len(batch)), side="right")
    begin = 0
    for span, end in zip(batch, ends.tolist(), strict=True):
        rows = order[begin:end] if len(batch) > 1 else slice(None)
        yield span, _sum_cells(account_id[rows], source_id[rows], hour[rows], cpu_s[rows])
        begin = end


def _sum_cells(account_id: I8, source_id: I8, hour: I8, cpu_s: F8) -> Piece:
    """Sum by account and source. Amounts are multiples of 2⁻¹⁰ s: their sums are exact in any order."""
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
    """Store ids in 32 bits if they fit."""
    return ids.astype(np.int32) if ids.max(initial=0) <= np.iinfo(np.int32).max else ids


cached_sums = AccountSums()
