"""Snapshots of computed priority trees: the packed blob, its table row, retention, and the order of its entries.

How entries compare depends on the fields that the algorithm declares. With `vector`, components are integers; with
`value`, they are unrounded deviations. Any other algorithm has its own order, and only ranks show it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import inf
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from django.db import InternalError, connection, transaction

from apps.core import blobs
from apps.core.blobs import CorruptBlob
from apps.engine import codecs
from apps.engine.algorithms import Explanation, PriorityResult, explanation_of, get_algorithm
from apps.engine.algorithms.base import Column
from apps.engine.algorithms.gridwide import TIE_POINTS
from apps.engine.errors import BadParameter
from apps.mapping.rules.resolver import AccountPlaces
from apps.priorities.models import Snapshot
from apps.usage.pgbinary import cursor

# --- Blob -------------------------------------------------------------------------------------------------------------
F8 = npt.NDArray[np.float64]
I4 = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]
_NUMBERS = ("usage", "target", "actual", "target_global", "priority", "factor")
_MASKS = ("competes", "has_rank", "is_ranked", "has_demand", "has_factor")
_OWN = "own "  # names of an algorithm's own columns start with it


@dataclass(frozen=True, eq=False)
class Values:
    """Everything computed for one tree: arrays (n,) over its entries, in the order of the stored tree.

    usage: totals in the scope an entry is compared by; group_usage: in the one its children are compared by. target,
    actual, priority, target_global: 0 where `competes` is false. scalar: component of the vector, −1 without one.
    rank: 0 for none. has_demand: a job at the entry or below runs or waits. demand_core_s: core-seconds requested by
    waiting jobs at the entry and below. columns: numbers that only this algorithm has.
    """

    usage: F8
    group_usage: F8
    target: F8
    actual: F8
    target_global: F8
    priority: F8
    scalar: I4
    rank: I4
    factor: F8
    competes: Mask
    has_rank: Mask
    has_factor: Mask
    is_ranked: Mask
    has_demand: Mask
    demand_core_s: F8
    columns: Mapping[str, Column]


def values_of(result: PriorityResult, has_demand: Mask, demand_core_s: F8) -> Values:
    return Values(
        usage=result.usage,
        group_usage=result.group_usage,
        target=result.target,
        actual=result.actual,
        target_global=result.target_global,
        priority=result.priority,
        scalar=result.scalar.astype(np.int32),
        rank=result.rank.astype(np.int32),
        factor=result.factor,
        competes=result.competes,
        has_rank=result.has_rank,
        has_factor=result.has_factor,
        is_ranked=result.is_ranked,
        has_demand=has_demand,
        demand_core_s=demand_core_s,
        columns=result.columns,
    )


def pack_snapshot(values: Values, places: AccountPlaces, meta: Mapping[str, Any]) -> tuple[bytes, str]:
    """Pack to a blob and its digest; equal arguments give equal bytes."""
    places_blob, places_digest = places.packed
    flags = sum(getattr(values, name).astype(np.uint8) << bit for bit, name in enumerate(_MASKS))
    columns: dict[str, Any] = {name: getattr(values, name) for name in _NUMBERS}
    columns |= {"scalar": values.scalar, "rank": values.rank, "flags": np.asarray(flags, dtype=np.uint8)}
    if not np.array_equal(values.group_usage, values.usage):  # equal with one scope, the usual case
        columns["group_usage"] = values.group_usage
    if values.demand_core_s.any():
        columns["demand_core_s"] = values.demand_core_s
    for name, column in values.columns.items():
        columns[f"{_OWN}{name}"] = column.values
        if column.exists is not None:
            columns[f"{_OWN}{name}?"] = column.exists.astype(np.uint8)
    columns["places"] = np.frombuffer(places_blob, dtype=np.uint8)
    return blobs.pack(columns, {**meta, "places_digest": places_digest})


def unpack_snapshot(blob: bytes | memoryview, digest: str) -> tuple[Values, memoryview, dict[str, Any]]:
    """Values, packed entries of accounts, and metadata. The digest of the accounts is in the metadata."""
    columns, meta = blobs.unpack(blob, digest)
    flags = columns["flags"]
    masks = {name: (flags >> bit & 1).astype(np.bool_) for bit, name in enumerate(_MASKS)}
    numbers = {name: columns[name] for name in (*_NUMBERS, "scalar", "rank")}
    numbers["group_usage"] = columns.get("group_usage", numbers["usage"])
    numbers["demand_core_s"] = columns.get("demand_core_s", np.zeros(len(flags)))
    own = {
        name.removeprefix(_OWN): Column(column, _mask(columns.get(f"{name}?")))
        for name, column in columns.items()
        if name.startswith(_OWN) and not name.endswith("?")
    }
    return Values(**numbers, **masks, columns=own), memoryview(columns["places"].tobytes()), meta


def _mask(flags: npt.NDArray[np.uint8] | None) -> Mask | None:
    return None if flags is None else flags.astype(np.bool_)


# --- Rows -------------------------------------------------------------------------------------------------------------
_WRITE = "UPDATE priorities_snapshot SET data = %b WHERE id = %s"
_VERIFY = "SELECT encode(sha256(data), 'hex') = digest FROM priorities_snapshot WHERE id = %s"
_READ = "SELECT data FROM priorities_snapshot WHERE id = %s"


def is_damaged(snapshot_id: int) -> bool:
    """Whether the stored bytes differ from their digest. The database computes it: the bytes aren't transferred."""
    try:
        with transaction.atomic(), connection.cursor() as found:
            found.execute(_VERIFY, [snapshot_id])
            row = found.fetchone()
    except InternalError:
        return True
    return row is not None and not row[0]


def write_data(snapshot: Snapshot, data: bytes) -> None:
    """Write the bytes of a new row, in the caller's transaction."""
    with cursor() as found:
        found.execute(_WRITE, [data, snapshot.pk])
    snapshot.data = data


def read_data(snapshot_id: int) -> bytes | None:
    """The bytes of a snapshot; None if it no longer exists.

    Raises:
        CorruptBlob: the database can't read them, because a page is damaged.
    """
    try:
        with transaction.atomic(), cursor() as found:
            row = found.execute(_READ, [snapshot_id], binary=True).fetchone()
    except InternalError as error:
        raise CorruptBlob(str(error)) from error
    return None if row is None else bytes(row[0])


# --- Retention --------------------------------------------------------------------------------------------------------
ALL_FOR = timedelta(hours=24)
HOURLY_FOR = timedelta(days=30)
DAILY_FOR = timedelta(days=365)

# The last snapshot of each hour or day is retained; the newest live snapshot of a policy is never deleted.
_PRUNE = """
WITH aged AS (
    SELECT id, policy_id, is_live, is_kept, computed_at,
        row_number() OVER (PARTITION BY policy_id, is_live ORDER BY id DESC) AS newness,
        row_number() OVER (
            PARTITION BY policy_id, is_live, date_bin('1 hour', computed_at, 'epoch') ORDER BY id DESC) AS in_hour,
        row_number() OVER (
            PARTITION BY policy_id, is_live, date_bin('1 day', computed_at, 'epoch') ORDER BY id DESC) AS in_day
    FROM priorities_snapshot)
DELETE FROM priorities_snapshot WHERE id IN (
    SELECT id FROM aged
    WHERE NOT is_kept AND NOT (is_live AND newness = 1) AND (
        computed_at < %(daily)s
        OR computed_at < %(hourly)s AND in_day > 1
        OR computed_at < %(all)s AND in_hour > 1))
"""


def prune_snapshots(*, at: datetime) -> int:
    """Delete snapshots past their retention; return their number."""
    with connection.cursor() as cursor:
        cursor.execute(_PRUNE, {"all": at - ALL_FOR, "hourly": at - HOURLY_FOR, "daily": at - DAILY_FOR})
        return int(cursor.rowcount)


# --- Order of the entries ---------------------------------------------------------------------------------------------
_TIE_RELATIVE = 1e-12


@dataclass(frozen=True)
class Ordering:
    """How the entries of a snapshot compare under its algorithm.

    explanation: the algorithm's own description. has_own_order: the algorithm orders leaves by rules of its own, so
    that only ranks show the order; components explain it.
    """

    decides: Literal["vector", "deviations", "ranks"]
    explanation: Explanation
    resolution: int | None = None

    @property
    def has_own_order(self) -> bool:
        return self.decides == "ranks"

    @property
    def fill(self) -> float:
        """Component of a level that an entry doesn't have."""
        return float(self.resolution // 2) if self.resolution else 0.0

    def components(self, values: Values) -> npt.NDArray[Any]:
        """The numbers by which siblings are compared, (n,): higher goes first."""
        if self.decides == "vector":
            return values.scalar
        if self.explanation.kind == "ratio":
            return values.factor
        column = values.columns.get(self.explanation.component)
        return values.priority if column is None else column.values

    def ahead(self, theirs: npt.NDArray[Any], ours: float) -> Mask:
        """Which of `theirs` are ahead of `ours`; components within the tolerance tie."""
        found: Mask = theirs > ours
        return found if self.decides == "vector" else found & ~self.ties(theirs, ours)

    def ties(self, theirs: npt.NDArray[Any], ours: float) -> Mask:
        same: Mask = theirs == ours  # infinity ties with infinity
        if self.decides == "vector":
            return same
        with np.errstate(invalid="ignore"):
            gap = np.abs(theirs - ours)
        if self.decides == "deviations":
            return same | (gap <= TIE_POINTS)
        near: Mask = np.isfinite(gap) & (gap <= _TIE_RELATIVE * np.maximum(np.abs(theirs), abs(ours)))
        return same | near

    def key(
        self, *, vector: Sequence[int] | None, priorities: Sequence[float], depth: int, rank: int | None, n_ranked: int
    ) -> str | None:
        """A sortable string: a later string goes first; None for an entry without an order.

        It holds the vector or the deviations in fixed width, with one number for deviations that tie. For an algorithm
        with its own order it is the number of leaves that aren't ahead, itself included, zero-padded.
        """
        if self.decides == "vector" and vector is not None and self.resolution:
            return codecs.key_string(vector, depth, self.resolution)
        if self.decides == "deviations":
            return codecs.grid_key(priorities, depth)
        if rank is None:
            return None
        return f"{n_ranked - rank + 1:0{len(str(n_ranked + 1))}d}"


def ordering_of(settings: Mapping[str, Any]) -> Ordering:
    """The ordering of an algorithm; by stored ranks if its package is no longer installed."""
    try:
        fields = get_algorithm(str(settings["name"])).fields
    except (BadParameter, KeyError):
        fields = ()
    explanation, resolution = explanation_of(settings), settings.get("resolution")
    if "vector" in fields and resolution is not None:
        return Ordering("vector", explanation, int(resolution))
    return Ordering("deviations" if "value" in fields else "ranks", explanation)


def json_number(value: float | None) -> float | str | None:
    """A number for JSON: infinity as a string, None and NaN as null."""
    if value is None or value != value:
        return None
    return "Infinity" if value == inf else "-Infinity" if value == -inf else value


def own_numbers(values: Values, entry: int) -> dict[str, float | None]:
    """Numbers of one entry that only this algorithm has, by the scheduler's names; None where one doesn't exist."""
    return {
        name: float(column.values[entry]) if column.exists is None or column.exists[entry] else None
        for name, column in values.columns.items()
    }


State = Literal["over", "under", "on", "idle", "unknown"]
_EDGE = 1 + 1e-9  # a difference equal to the tolerance is within it, in spite of rounding


def slack_of(target: float, tolerance: Mapping[str, Any]) -> float:
    """Half the width of the band around a target, as a fraction: max(relative · target, points)."""
    return float(max(tolerance["relative"] * target, tolerance["points"] / 100))


def is_on_target(actual: float, target: float, slack: float) -> bool:
    """Whether a fraction is within the band around its target. States and forecasts mean this by "on target"."""
    return abs(actual - target) <= slack * _EDGE


def state_of(
    *, target: float | None, actual: float | None, has_usage: bool, has_demand: bool, tolerance: Mapping[str, Any]
) -> State:
    """State of an entry: on target within max(relative · target, points); idle with a target but no usage or demand."""
    if target is None or actual is None:
        return "unknown"
    if not has_usage and not has_demand and target > 0:
        return "idle"
    if is_on_target(actual, target, slack_of(target, tolerance)):
        return "on"
    return "over" if actual > target else "under"


def out_of_tolerance(target: F8, actual: F8, *, is_idle: Mask, tolerance: Mapping[str, Any]) -> Mask:
    """Which entries are over or under their target, (n,)."""
    allowed = np.maximum(tolerance["relative"] * target, tolerance["points"] / 100)
    outside: Mask = ~is_idle & (np.abs(actual - target) > allowed * _EDGE)
    return outside
