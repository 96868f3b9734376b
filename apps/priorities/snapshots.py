"""A computed priority tree as one checksummed blob: stored, retained; and how its entries compare.

The algorithm's registry entry decides: one that gives a `vector` compares its integers, one that gives a `value`
unrounded deviations, and any other has an order of its own, which only its ranks show.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import inf
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from django.conf import settings
from django.db import InternalError, connection, transaction

from apps.core import blobs
from apps.core.blobs import CorruptBlob
from apps.engine import codecs
from apps.engine.algorithms import Explanation, PriorityResult, explanation_of, get_algorithm
from apps.engine.algorithms.base import Column
from apps.engine.algorithms.gridwide import TIE_POINTS
from apps.engine.errors import BadParameter
from apps.mapping.rules.resolver import AccountPlaces
from apps.policies.tree.columns import pack_tree, unpack_tree
from apps.policies.tree.stored import TreeColumns
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
    """Everything computed for one tree; arrays over its entries, in the order of its revision's blob.

    usage: totals in the scope an entry is compared by; group_usage: in the one its children are compared by. target,
    actual, priority, target_global: 0 where `competes` is false. scalar: component of the vector, −1 without one.
    rank: 0 for none. has_demand: something below runs or waits. demand_core_s: what waits below
    asks for. columns: what the algorithm has of its own.
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
    """The blob and its digest: deterministic for values, accounts and meta."""
    places_blob, places_digest = places.packed
    flags = sum(getattr(values, name).astype(np.uint8) << bit for bit, name in enumerate(_MASKS))
    columns: dict[str, Any] = {name: getattr(values, name) for name in _NUMBERS}
    columns |= {"scalar": values.scalar, "rank": values.rank, "flags": np.asarray(flags, dtype=np.uint8)}
    if not np.array_equal(values.group_usage, values.usage):  # one scope, which is the rule, needs no second column
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
    """Values, the packed places (their digest is in the meta: often one has them already), and the meta."""
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
    """Whether the stored bytes differ from their digest; the database computes it, so that they stay there."""
    try:
        with transaction.atomic(), connection.cursor() as found:
            found.execute(_VERIFY, [snapshot_id])
            row = found.fetchone()
    except InternalError:
        return True
    return row is not None and not row[0]


def write_data(snapshot: Snapshot, data: bytes) -> None:
    """In the caller's transaction, in which the row was made."""
    with cursor() as found:
        found.execute(_WRITE, [data, snapshot.pk])
    snapshot.data = data


def read_data(snapshot_id: int) -> bytes | None:
    """None where there is no such snapshot any more.

    Raises:
        CorruptBlob: the database itself can't read them, because a page is damaged.
    """
    try:
        with transaction.atomic(), cursor() as found:
            row = found.execute(_READ, [snapshot_id], binary=True).fetchone()
    except InternalError as error:
        raise CorruptBlob(str(error)) from error
    return None if row is None else bytes(row[0])


# --- Files ------------------------------------------------------------------------------------------------------------
logger = logging.getLogger(__name__)

Copy = tuple[dict[str, Any], bytes, TreeColumns]  # the head, the snapshot's blob, its tree


def keep(row: dict[str, Any], data: bytes | memoryview, tree: TreeColumns) -> None:
    """Write the snapshot and, once a revision, its tree. A full disk costs the copy, not the answer."""
    try:
        _directory().mkdir(mode=0o700, parents=True, exist_ok=True)
        tree_path = _tree_path(row["slug"], tree.digest)
        if not tree_path.exists():
            _write(tree_path, pack_tree(tree)[0])
        _write(_snapshot_path(row["slug"]), json.dumps(row).encode() + b"\n" + bytes(data))
        for old in _directory().glob(f"{row['slug']}@*.tree"):
            if old != tree_path:
                old.unlink(missing_ok=True)
    except OSError as error:
        logger.warning("No copy of snapshot %s in %s: %s", row["id"], _directory(), error)


def drop(slug: str) -> None:
    """A policy that is gone leaves nothing behind."""
    for path in (_snapshot_path(slug), *_directory().glob(f"{slug}@*.tree")):
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)


def copies() -> Iterator[Copy]:
    """Every good copy; one that was damaged is named in the log and left out."""
    if not _directory().is_dir():
        return
    for path in sorted(_directory().glob("*.snapshot")):
        copy = _copy(path)
        if copy is not None:
            yield copy


def copy_of(slug: str) -> Copy | None:
    """The copy of one policy; None where there is none, or it is damaged."""
    path = _snapshot_path(slug)
    return _copy(path) if path.exists() else None


def _copy(path: Path) -> Copy | None:
    try:
        head, data = _read(path).split(b"\n", 1)
        row = json.loads(head)
        tree_blob = _read(_tree_path(row["slug"], row["tree_digest"]))
        return row, data, unpack_tree(tree_blob, row["tree_digest"])
    except (OSError, ValueError, KeyError, CorruptBlob) as error:
        logger.warning("%s is no good copy of a snapshot: %s", path.name, error)
        return None


def _directory() -> Path:
    return Path(settings.VAR) / "snapshots"


def _snapshot_path(slug: str) -> Path:
    return _directory() / f"{slug}.snapshot"


def _tree_path(slug: str, digest: str) -> Path:
    return _directory() / f"{slug}@{digest[:16]}.tree"


def _write(path: Path, content: bytes) -> None:
    """The checksum, then the content; complete under its name, or not there. Only its owner reads it."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
        stream.write(hashlib.sha256(content).hexdigest().encode() + b"\n" + content)
    unfinished.replace(path)


def _read(path: Path) -> bytes:
    digest, _, content = path.read_bytes().partition(b"\n")
    if hashlib.sha256(content).hexdigest().encode() != digest:
        raise CorruptBlob("Its checksum doesn't fit.")
    return content


# --- Retention --------------------------------------------------------------------------------------------------------
ALL_FOR = timedelta(hours=24)
HOURLY_FOR = timedelta(days=30)
DAILY_FOR = timedelta(days=365)

# Of each hour or day the last one stays. The newest live snapshot of a policy stays whatever its age.
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
    """Delete snapshots past their retention; return how many."""
    with connection.cursor() as cursor:
        cursor.execute(
            """DELETE FROM priorities_unmappedusage WHERE snapshot_id IN (
                SELECT id FROM priorities_snapshot AS old WHERE EXISTS (
                    SELECT FROM priorities_snapshot AS newer WHERE newer.policy_id = old.policy_id
                        AND newer.is_live = old.is_live AND newer.id > old.id))"""
        )
        cursor.execute(_PRUNE, {"all": at - ALL_FOR, "hourly": at - HOURLY_FOR, "daily": at - DAILY_FOR})
        return int(cursor.rowcount)


# --- Order of the entries ---------------------------------------------------------------------------------------------
_TIE_RELATIVE = 1e-12


@dataclass(frozen=True)
class Ordering:
    """What decides under one algorithm, and how.

    explanation: what the algorithm declares about it. has_own_order: the algorithm orders leaves by rules of its own;
    components show why, ranks show the order.
    """

    decides: Literal["vector", "deviations", "ranks"]
    explanation: Explanation
    resolution: int | None = None

    @property
    def has_own_order(self) -> bool:
        return self.decides == "ranks"

    @property
    def fill(self) -> float:
        """What a level counts as that an entry doesn't have."""
        return float(self.resolution // 2) if self.resolution else 0.0

    def components(self, values: Values) -> npt.NDArray[Any]:
        """What siblings are compared by, (n,): higher is sooner."""
        if self.decides == "vector":
            return values.scalar
        if self.explanation.kind == "ratio":
            return values.factor
        column = values.columns.get(self.explanation.component)
        return values.priority if column is None else column.values

    def ahead(self, theirs: npt.NDArray[Any], ours: float) -> Mask:
        """Which components are ahead of one of ours; neighbours within the tolerance tie."""
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
        """A string in which higher sorts later; None for an unordered entry.

        The vector in fixed width; deviations in fixed width, one number for those that tie; or the leaves that are
        not ahead, itself counted, zero-padded: one key for each different rank.
        """
        if self.decides == "vector" and vector is not None and self.resolution:
            return codecs.key_string(vector, depth, self.resolution)
        if self.decides == "deviations":
            return codecs.grid_key(priorities, max(depth, len(priorities)))
        if rank is None:
            return None
        return f"{n_ranked - rank + 1:0{len(str(n_ranked + 1))}d}"


def ordering_of(settings: Mapping[str, Any]) -> Ordering:
    """Of an algorithm with its parameters; one whose package is gone leaves the ranks that were stored."""
    try:
        fields = get_algorithm(str(settings["name"])).fields
    except (BadParameter, KeyError):
        fields = ()
    explanation, resolution = explanation_of(settings), settings.get("resolution")
    if "vector" in fields and resolution is not None:
        return Ordering("vector", explanation, int(resolution))
    return Ordering("deviations" if "value" in fields else "ranks", explanation)


def json_number(value: float | None) -> float | str | None:
    """As JSON can carry it: infinity by name, nothing for what doesn't exist."""
    if value is None or value != value:
        return None
    return "Infinity" if value == inf else "-Infinity" if value == -inf else value


def own_numbers(values: Values, entry: int) -> dict[str, float | None]:
    """The algorithm's own columns of one entry, by the names its scheduler uses; None where there is no such number."""
    return {
        name: float(column.values[entry]) if column.exists is None or column.exists[entry] else None
        for name, column in values.columns.items()
    }


State = Literal["over", "under", "on", "idle", "unknown"]
_EDGE = 1 + 1e-9  # a difference of exactly the tolerance is within it, whatever the last bit says


def state_of(
    *, target: float | None, actual: float | None, has_usage: bool, has_demand: bool, tolerance: Mapping[str, Any]
) -> State:
    """Within max(relative · target, points) is on target; idle: has a target, no usage and no demand."""
    if target is None or actual is None:
        return "unknown"
    if not has_usage and not has_demand and target > 0:
        return "idle"
    if abs(actual - target) <= max(tolerance["relative"] * target, tolerance["points"] / 100) * _EDGE:
        return "on"
    return "over" if actual > target else "under"


def out_of_tolerance(target: F8, actual: F8, *, is_idle: Mask, tolerance: Mapping[str, Any]) -> Mask:
    """Which of many entries are over or under."""
    allowed = np.maximum(tolerance["relative"] * target, tolerance["points"] / 100)
    outside: Mask = ~is_idle & (np.abs(actual - target) > allowed * _EDGE)
    return outside
