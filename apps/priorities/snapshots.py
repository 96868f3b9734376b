"""A computed priority tree as one checksummed blob: what is stored, served and kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from apps import blobs
from apps.accounts.intern import AccountKey
from apps.engine.algorithms import PriorityResult
from apps.priorities.rules import Rule

F8 = npt.NDArray[np.float64]
I4 = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]
_NUMBERS = ("usage", "target", "actual", "target_global", "priority", "factor")


@dataclass(frozen=True, eq=False)
class Values:
    """Everything computed for one tree; arrays over its entries, in the order of its revision's blob.

    target, actual, priority, target_global: 0 where `competes` is false. scalar: component of the vector, −1 without
    one. rank: 0 for none. has_demand: something below runs or waits.
    """

    usage: F8
    target: F8
    actual: F8
    target_global: F8
    priority: F8
    scalar: I4
    rank: I4
    factor: F8
    competes: Mask
    has_rank: Mask
    is_ranked: Mask
    has_demand: Mask


@dataclass(frozen=True, eq=False)
class AccountPlaces:
    """The accounts that have an entry, and which: `entry` runs parallel to `keys`. And the rules for all others."""

    keys: Sequence[AccountKey]
    entry: I4
    rules: tuple[Rule, ...]

    @cached_property
    def packed(self) -> tuple[bytes, str]:
        columns: dict[str, Any] = {"entry": self.entry}
        for place, name in enumerate(AccountKey._fields):
            columns[name] = [key[place] for key in self.keys]
        return blobs.pack(columns, {"rules": [rule.to_json() for rule in self.rules]})


def unpack_places(blob: bytes | memoryview, digest: str) -> AccountPlaces:
    columns, meta = blobs.unpack(blob, digest)
    names = (columns[name] for name in AccountKey._fields)
    keys = [AccountKey(*values) for values in zip(*names, strict=True)]
    return AccountPlaces(keys, columns["entry"], tuple(Rule.from_json(rule) for rule in meta["rules"]))


def values_of(result: PriorityResult, has_demand: Mask) -> Values:
    return Values(
        usage=result.usage,
        target=result.target,
        actual=result.actual,
        target_global=result.target_global,
        priority=result.priority,
        scalar=result.scalar.astype(np.int32),
        rank=result.rank.astype(np.int32),
        factor=result.factor,
        competes=result.competes,
        has_rank=result.has_rank,
        is_ranked=result.is_ranked,
        has_demand=has_demand,
    )


def pack_snapshot(values: Values, places: AccountPlaces, meta: Mapping[str, Any]) -> tuple[bytes, str]:
    """The blob and its digest: same values, places and meta give the same bytes."""
    places_blob, places_digest = places.packed
    flags = sum(
        getattr(values, name).astype(np.uint8) << bit
        for bit, name in enumerate(("competes", "has_rank", "is_ranked", "has_demand"))
    )
    columns: dict[str, Any] = {name: getattr(values, name) for name in _NUMBERS}
    columns |= {"scalar": values.scalar, "rank": values.rank, "flags": np.asarray(flags, dtype=np.uint8)}
    columns["places"] = np.frombuffer(places_blob, dtype=np.uint8)
    return blobs.pack(columns, {**meta, "places_digest": places_digest})


def unpack_snapshot(blob: bytes | memoryview, digest: str) -> tuple[Values, memoryview, dict[str, Any]]:
    """Values, the packed places (their digest is in the meta: often one has them already), and the meta."""
    columns, meta = blobs.unpack(blob, digest)
    flags = columns["flags"]
    masks = {
        name: (flags >> bit & 1).astype(np.bool_)
        for bit, name in enumerate(("competes", "has_rank", "is_ranked", "has_demand"))
    }
    numbers = {name: columns[name] for name in (*_NUMBERS, "scalar", "rank")}
    return Values(**numbers, **masks), memoryview(columns["places"].tobytes()), meta
