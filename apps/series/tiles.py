"""Series as stored: blobs of a month or a day for some entries, and which slot of a blob is whose."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import numpy.typing as npt
from django.db import connection

from apps.core import blobs
from apps.policies.models import Policy
from apps.policies.tree.stored import TreeColumns
from apps.usage import pgbinary

I8 = npt.NDArray[np.int64]
AMOUNTS = ("used", "peers_used", "decayed", "peers_decayed", "target", "target_global", "waited_core_s", "largest")
DTYPES: dict[str, type[np.generic]] = {**dict.fromkeys(AMOUNTS, np.float64), "n_active": np.int32, "flags": np.uint8}
BLOCK = 256
Month = dict[str, npt.NDArray[Any]]
_READ_SLOTS = "SELECT string_agg(uuid_send(uid), '' ORDER BY slot) FROM analytics_seriesslot WHERE policy_id = %s"
_COPY_SLOTS = "COPY analytics_seriesslot (policy_id, uid, slot) FROM STDIN (FORMAT BINARY)"


@dataclass(frozen=True, eq=False, slots=True)
class DayValues:
    """One day of every entry of that day's tree, as arrays (n,) in tree order. `columns` has the fields of DTYPES; see
    DailySeries.
    """

    columns: dict[str, npt.NDArray[np.generic]]
    root_used: float
    root_decayed: float


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


def require_days(tile: Month, last: int) -> None:
    """Raise CorruptBlob unless a stored tile has its first `last` days, or hours.

    numpy would repeat the one day that a cut tile has left for all that are asked for.
    """
    n = min((len(values) for values in tile.values()), default=0)
    if n < last:
        raise blobs.CorruptBlob(f"A tile has {n} of {last} stored rows.")


def read_month(
    policy: Policy, month_on: date, *, n_days: int, n_slots: int, least: int = 0, tiles: Tiles = MONTH_TILES
) -> Month:
    """Load the first days of a month, or hours of a day; 0 where nothing is stored.

    Raises CorruptBlob if a tile has fewer than `least` days, or is missing before another one.
    """
    month, stored = empty_month(n_days, n_slots), read_tiles(policy, [month_on], None, tiles=tiles)
    if least and {block for block, _month_on in stored} != set(range(max(len(stored), 1))):
        raise blobs.CorruptBlob("A tile of stored days is missing.")
    for (block, _month_on), tile in stored.items():
        require_days(tile, least)
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
