"""Values of a snapshot as columns, packed into one blob."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from apps.core import blobs
from apps.engine.algorithms import PriorityResult
from apps.engine.algorithms.base import Column
from apps.mapping.rules.account_places import AccountPlaces

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
