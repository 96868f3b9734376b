"""A snapshot as one blob: the usage of each entry, from which the engine derives all other numbers when it is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from apps import engine
from apps.core import blobs
from apps.core.blobs import CorruptBlob
from apps.engine.algorithms import PriorityResult, compute, package_of
from apps.engine.algorithms.base import Column
from apps.engine.errors import EngineError
from apps.engine.parameters import Settings
from apps.policies.tree.columns import TreeColumns

F8 = npt.NDArray[np.float64]
I4 = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]
_NUMBERS = ("usage", "target", "actual", "target_global", "priority", "factor", "scalar", "rank")
_MASKS = ("competes", "has_rank", "is_ranked", "has_factor")
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


@dataclass(frozen=True, eq=False)
class OwnUsage:
    """Usage of entries without those below, decayed and corrected: what the engine computes a snapshot from.

    by_scope: (scopes, n), or (n,) if all entries are compared in one scope. scope_of_entry: (n,), the scope in which an
    entry's children are compared; None with one scope.
    """

    by_scope: F8
    scope_of_entry: I4 | None = None

    def compute(self, tree: TreeColumns, algorithm: Settings) -> PriorityResult:
        """Priorities of the tree; raises as `engine.algorithms.compute`."""
        return compute(tree.engine_tree(), self.by_scope, algorithm=algorithm, scope_of_entry=self.scope_of_entry)


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


def pack_snapshot(values: Values, own: OwnUsage, meta: Mapping[str, Any]) -> tuple[bytes, str]:
    """Pack to a blob and its digest; equal arguments give equal bytes.

    What the product's own algorithms derive isn't stored, but its checksums are. Other packages change beside the
    product: all of their numbers are stored.
    """
    columns: dict[str, Any] = {"has_demand": np.packbits(values.has_demand)}
    if values.demand_core_s.any():
        columns["demand_core_s"] = values.demand_core_s
    derived = dict(_derived_columns(values))
    if package_of(meta["algorithm"]):
        return blobs.pack({**columns, **derived}, meta)
    columns["own"] = own.by_scope
    if own.scope_of_entry is not None:
        columns["scope_of_entry"] = own.scope_of_entry.astype(np.int32)
    return blobs.pack(columns, {**meta, "derived": _checksums(derived)})


def unpack_snapshot(blob: bytes | memoryview, digest: str, tree: TreeColumns) -> tuple[Values, dict[str, Any]]:
    """Values and metadata of a snapshot of this tree.

    Raises:
        CorruptBlob: the blob is damaged, or this release derives other numbers than those that were computed.
    """
    columns, meta = blobs.unpack(blob, digest)
    n = len(tree)
    demand = {
        "has_demand": np.unpackbits(columns["has_demand"], count=n).astype(np.bool_),
        "demand_core_s": columns.get("demand_core_s", np.broadcast_to(np.float64(0.0), n)),
    }
    if "derived" not in meta:
        return _from_columns(columns, demand), meta
    own = OwnUsage(columns["own"], columns.get("scope_of_entry"))
    try:
        result = own.compute(tree, meta["algorithm"])
    except EngineError as error:
        raise CorruptBlob(f"Its numbers can't be derived: {error}") from error
    values = values_of(result, **demand)
    derived = dict(_derived_columns(values))
    if _checksums(derived) != meta["derived"]:
        raise CorruptBlob(f"Engine {engine.VERSION} derives other numbers than engine {meta['engine_version']} did.")
    return values, meta


def columns_of_values(values: Values) -> dict[str, npt.NDArray[Any]]:
    """All numbers as columns, from which `values_of_columns` makes equal values."""
    columns = {each.name: getattr(values, each.name) for each in fields(values) if each.name != "columns"}
    if values.group_usage is values.usage:
        del columns["group_usage"]
    if not values.demand_core_s.any():
        del columns["demand_core_s"]
    for name, column in values.columns.items():
        columns[f"{_OWN}{name}"] = column.values
        if column.exists is not None:
            columns[f"{_OWN}{name}?"] = column.exists
    return columns


def values_of_columns(columns: Mapping[str, Any]) -> Values:
    own = {name.removeprefix(_OWN): column for name, column in columns.items() if name.startswith(_OWN)}
    usage = columns["usage"]
    no_demand = {"demand_core_s": np.broadcast_to(np.float64(0.0), len(usage))}
    return Values(
        **{"group_usage": usage, **no_demand, **{name: columns[name] for name in columns if not name.startswith(_OWN)}},
        columns={name: Column(own[name], own.get(f"{name}?")) for name in own if not name.endswith("?")},
    )


def _derived_columns(values: Values) -> Iterator[tuple[str, npt.NDArray[Any]]]:
    """Numbers that the algorithm derives from the tree and its usage, as they are stored."""
    yield from ((name, getattr(values, name)) for name in _NUMBERS)
    if not np.array_equal(values.group_usage, values.usage):  # equal with one scope, the usual case
        yield "group_usage", values.group_usage
    flags = sum(getattr(values, name).astype(np.uint8) << bit for bit, name in enumerate(_MASKS))
    yield "flags", np.asarray(flags, dtype=np.uint8)
    for name, column in values.columns.items():
        yield f"{_OWN}{name}", column.values
        if column.exists is not None:
            yield f"{_OWN}{name}?", column.exists.astype(np.uint8)


def _checksums(columns: Mapping[str, npt.NDArray[Any]]) -> dict[str, int]:
    return {name: crc32(np.ascontiguousarray(column).data) for name, column in columns.items()}


def _from_columns(columns: Mapping[str, Any], demand: Mapping[str, Any]) -> Values:
    flags = columns["flags"]
    masks = {name: (flags >> bit & 1).astype(np.bool_) for bit, name in enumerate(_MASKS)}
    numbers = {name: columns[name] for name in _NUMBERS}
    numbers["group_usage"] = columns.get("group_usage", numbers["usage"])
    own = {
        name.removeprefix(_OWN): Column(column, _mask(columns.get(f"{name}?")))
        for name, column in columns.items()
        if name.startswith(_OWN) and not name.endswith("?")
    }
    return Values(**demand, **numbers, **masks, columns=own)


def _mask(flags: npt.NDArray[np.uint8] | None) -> Mask | None:
    return None if flags is None else flags.astype(np.bool_)
