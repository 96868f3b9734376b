"""Arrays of daily and hourly series, their storage as blobs, and days of the site's time zone in whole UTC hours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from itertools import groupby
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
from django.conf import settings
from django.db import connection

from apps.core import blobs
from apps.policies.models import Policy
from apps.policies.tree.stored import TreeColumns
from apps.runs.waiting import RunWaiting
from apps.usage import pgbinary

HOUR_S = 3600
_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Day:
    """The hours from `from_s` up to, not including, `to_s`, in epoch seconds. A day has 23 or 25 hours where clocks
    change.
    """

    on: date
    from_s: int
    to_s: int

    @property
    def from_at(self) -> datetime:
        return datetime.fromtimestamp(self.from_s, UTC)

    @property
    def to_at(self) -> datetime:
        return datetime.fromtimestamp(self.to_s, UTC)


def site_zone() -> ZoneInfo:
    return ZoneInfo(settings.TIME_ZONE)


def day_of(on: date, zone: ZoneInfo) -> Day:
    return Day(on, _first_hour_s(on, zone), _first_hour_s(on + _DAY, zone))


def day_at(at: datetime, zone: ZoneInfo) -> Day:
    """Return the day that contains the hour of this instant."""
    hour_s = int(at.timestamp()) // HOUR_S * HOUR_S
    on = datetime.fromtimestamp(hour_s, UTC).astimezone(zone).date()
    day = day_of(on, zone)
    if hour_s < day.from_s:  # the day starts within this UTC hour, which counts to the day before
        return day_of(on - _DAY, zone)
    return day


def days_of(first_on: date, last_on: date, zone: ZoneInfo) -> list[Day]:
    """List the days from first to last, both included; empty if the last precedes the first."""
    n_days = (last_on - first_on).days + 1
    starts = [_first_hour_s(first_on + step * _DAY, zone) for step in range(n_days + 1)] if n_days > 0 else []
    return [Day(first_on + step * _DAY, starts[step], starts[step + 1]) for step in range(max(n_days, 0))]


def last_complete_day(at: datetime, zone: ZoneInfo) -> date:
    """Return the last day that has ended."""
    return day_at(at, zone).on - _DAY


def months_of(days: Sequence[Day]) -> Iterator[tuple[date, list[Day]]]:
    """Group consecutive days by calendar month, each with the month's first day."""
    for first_on, month_days in groupby(days, key=lambda day: day.on.replace(day=1)):
        yield first_on, list(month_days)


def _first_hour_s(on: date, zone: ZoneInfo) -> int:
    begins_s = datetime.combine(on, time(), zone).astimezone(UTC).timestamp()
    return int(-(-begins_s // HOUR_S)) * HOUR_S


F8 = npt.NDArray[np.float64]
I4 = npt.NDArray[np.int32]
I8 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class SeriesDays:
    """Columns with one number a day; arrays (days,). A day is a calendar day in FAIRSHARE_TIME_ZONE, cut to whole UTC
    hours.

    In an hourly series each row is an hour, and `on` holds the instant at which it starts, in that zone.

    revision: number of the revision current at the day's end; of the first revision where `is_before_first`, i.e.
    nothing was published yet. ends_s: the day's end, epoch seconds. root_used: usage of the whole tree on the day, in
    the scope by which the root's children are compared. root_decayed: decayed usage at the day's end.
    """

    on: tuple[date, ...]
    ends_s: F8
    revision: I4
    is_before_first: Mask
    root_used: F8
    root_decayed: F8

    def select(self, at: I8) -> SeriesDays:
        """Return the days with these indices."""
        return SeriesDays(
            tuple(self.on[i] for i in at),
            self.ends_s[at],
            self.revision[at],
            self.is_before_first[at],
            self.root_used[at],
            self.root_decayed[at],
        )


@dataclass(frozen=True, eq=False)
class DailySeries:
    """Entries by days: arrays (entries, days), in the metric of each day's revision, 0 where there is no data.

    used: usage on the day by the entry's subtree, in the scope by which the entry is compared, without adjustments.
    peers_used: the same summed over all entries that compete with it, itself included. decayed, peers_decayed: decayed
    usage at the day's end in the window current then, adjustments included; a recompute at that instant divides these
    two. Hence actual = used / peers_used summed over any days, or decayed / peers_decayed at one day's end; 0 where the
    peers have none.

    target, target_global: of the day's revision; 0 where `competes` is false (not in that tree, the root, or shares
    that are *inherit*). exists: in the tree of that day. waited_core_s: core-seconds requested by jobs that waited on
    that day. knows_waiting: all sources in scope report submit times. n_active: members below that used anything on the
    day. largest: the largest usage of one of them.
    """

    uids: tuple[UUID, ...]
    days: SeriesDays
    used: F8
    peers_used: F8
    decayed: F8
    peers_decayed: F8
    target: F8
    target_global: F8
    exists: Mask
    competes: Mask
    waited_core_s: F8
    knows_waiting: Mask
    n_active: I4
    largest: F8


@dataclass(frozen=True)
class SeriesState:
    """How far a policy's series is built. `through_on`: the last built day, None before the first build.

    stale_from_on: the first day whose inputs have changed since it was built, None if there is none. run: the running
    or waiting build; progress: its progress, 0..1; waiting: behind what it waits. local_since: by entry uid, the
    instant since when days below that entry are built from local usage only. hours_from_at, hours_through_at: the
    range of built hours, None before the first build of hours.
    """

    first_on: date | None = None
    through_on: date | None = None
    stale_from_on: date | None = None
    run: int | None = None
    progress: float | None = None
    waiting: RunWaiting | None = None
    missing: tuple[str, ...] = field(default_factory=tuple)
    local_since: Mapping[UUID, datetime] = field(default_factory=dict)
    hours_from_at: datetime | None = None
    hours_through_at: datetime | None = None


AMOUNTS = ("used", "peers_used", "decayed", "peers_decayed", "target", "target_global", "waited_core_s", "largest")
EXISTS, COMPETES, KNOWS_WAITING = 1, 2, 4  # bits of `flags`
DTYPES: dict[str, type[np.generic]] = {**dict.fromkeys(AMOUNTS, np.float64), "n_active": np.int32, "flags": np.uint8}


@dataclass(frozen=True, eq=False, slots=True)
class DayValues:
    """One day of every entry of that day's tree, as arrays (n,) in tree order. `columns` has the fields of DTYPES; see
    DailySeries.
    """

    columns: dict[str, npt.NDArray[np.generic]]
    root_used: float
    root_decayed: float


BLOCK = 256

Month = dict[str, npt.NDArray[Any]]

_READ_SLOTS = "SELECT string_agg(uuid_send(uid), '' ORDER BY slot) FROM analytics_seriesslot WHERE policy_id = %s"
_COPY_SLOTS = "COPY analytics_seriesslot (policy_id, uid, slot) FROM STDIN (FORMAT BINARY)"


class Tiles(NamedTuple):
    """A table of tiles, and its column with the first day of each tile."""

    table: str
    begins_on: str

    @property
    def read(self) -> str:
        return f"""
SELECT block, {self.begins_on}, data, digest FROM {self.table}
WHERE policy_id = %s AND {self.begins_on} = ANY(%s::date[]) AND (block = ANY(%s::int4[]) OR %s)
"""  # noqa: S608 - constants only

    @property
    def copy(self) -> str:
        return f"COPY {self.table} (policy_id, {self.begins_on}, block, data, digest) FROM STDIN (FORMAT BINARY)"

    @property
    def delete(self) -> str:
        return f"DELETE FROM {self.table} WHERE policy_id = %s AND {self.begins_on} = %s"  # noqa: S608 - constants only


MONTH_TILES = Tiles("analytics_seriestile", "month_on")  # one row for each day of a month
DAY_TILES = Tiles("analytics_serieshourtile", "day_on")  # one row for each hour of a UTC day


class Slots:
    """The slot of each entry of a policy. A slot is assigned when the entry is first seen, in tree order, and never
    changes.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        with pgbinary.cursor() as cursor:
            row = cursor.execute(_READ_SLOTS, [policy.pk], binary=True).fetchone()
        raw = bytes(row[0]) if row is not None and row[0] is not None else b""
        self._of_uid = {raw[at : at + 16]: at // 16 for at in range(0, len(raw), 16)}
        self._new: list[bytes] = []

    def __len__(self) -> int:
        return len(self._of_uid)

    def of(self, tree: TreeColumns) -> I8:
        """Return the slot of every entry of a tree, (n,); new entries get the next free slots."""
        raw = tree.uid.tobytes()
        uids = [raw[at : at + 16] for at in range(0, len(raw), 16)]
        for uid in uids:
            if uid not in self._of_uid:
                self._of_uid[uid] = len(self._of_uid)
                self._new.append(uid)
        return np.fromiter((self._of_uid[uid] for uid in uids), np.int64, len(uids))

    def store_new(self) -> None:
        """Store the newly assigned slots, inside the caller's transaction."""
        if self._new:
            n = len(self._new)
            cells = np.frombuffer(b"".join(self._new), np.uint8).reshape(n, 16)
            slots = np.arange(len(self) - n, len(self), dtype=np.int64)
            policy = pgbinary.constant_int8(self._policy.pk, n)
            pgbinary.copy_in(_COPY_SLOTS, [policy, pgbinary.uuid(cells), pgbinary.int4(slots)])
            self._new = []


def empty_month(n_days: int, n_slots: int) -> Month:
    """Return a month with all fields 0: no entry exists."""
    width = -(-n_slots // BLOCK) * BLOCK
    return {name: np.zeros((n_days, width), dtype) for name, dtype in DTYPES.items()}


def widen(month: Month, n_slots: int) -> Month:
    """Return the month with enough columns for `n_slots`."""
    width = -(-n_slots // BLOCK) * BLOCK
    here = next(iter(month.values())).shape[1]
    if width <= here:
        return month
    return {name: np.pad(values, ((0, 0), (0, width - here))) for name, values in month.items()}


def put_day(month: Month, at: int, slots: I8, values: DayValues) -> None:
    """Write one day of all entries of a tree into the month; `at`: the day's row."""
    for name, values_of in values.columns.items():
        month[name][at, slots] = values_of


def read_month(policy: Policy, month_on: date, *, n_days: int, n_slots: int, tiles: Tiles = MONTH_TILES) -> Month:
    """Load the first days of a month, or hours of a day; 0 where nothing is stored."""
    month = empty_month(n_days, n_slots)
    for (block, _month_on), tile in read_tiles(policy, [month_on], None, tiles=tiles).items():
        there = slice(block * BLOCK, (block + 1) * BLOCK)
        for name, values in tile.items():
            rows = min(n_days, len(values))
            month[name][:rows, there] = values[:rows]
    return month


def write_month(policy: Policy, month_on: date, month: Month, *, tiles: Tiles = MONTH_TILES) -> None:
    """Replace the stored tiles of the month, inside the caller's transaction."""
    n_blocks = next(iter(month.values())).shape[1] // BLOCK
    with connection.cursor() as plain:
        plain.execute(tiles.delete, [policy.pk, month_on])
    with pgbinary.cursor() as cursor, cursor.copy(tiles.copy) as copy:
        copy.set_types(["int8", "date", "int4", "bytea", "varchar"])
        for block in range(n_blocks):
            there = slice(block * BLOCK, (block + 1) * BLOCK)
            data, digest = blobs.pack({name: values[:, there] for name, values in month.items()})
            copy.write_row((policy.pk, month_on, block, data, digest))


def read_tiles(
    policy: Policy, months: Sequence[date], blocks: Iterable[int] | None, *, tiles: Tiles
) -> Mapping[tuple[int, date], Month]:
    """Load tiles by (block, month); `blocks` None: all blocks."""
    wanted = [] if blocks is None else sorted(blocks)
    with pgbinary.cursor() as cursor:
        rows = cursor.execute(tiles.read, [policy.pk, list(months), wanted, blocks is None], binary=True).fetchall()
    return {(block, month_on): blobs.unpack(data, digest)[0] for block, month_on, data, digest in rows}


def find_slots(policy: Policy, uids: Sequence[UUID]) -> dict[UUID, int]:
    """Return the slots of the entries that have one."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT uid, slot FROM analytics_seriesslot WHERE policy_id = %s AND uid = ANY(%s::uuid[])",
            [policy.pk, list(uids)],
        )
        return dict(cursor.fetchall())
