"""Totals of a snapshot carried over to another tree of the same policy, and priorities computed from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from apps.core.errors import Invalid
from apps.engine.algorithms import PriorityResult
from apps.engine.errors import BadParameter
from apps.policies.operations.algorithm_fit import refuse_inherited
from apps.policies.tree.columns import TreeColumns
from apps.priorities.recompute.projection import compute_from_totals
from apps.priorities.serving.lookup_index import ServedSnapshot

F8 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int64]
_ROUNDING = 1e-9  # what is left of a total when all of it has gone


def places(of: TreeColumns, among: TreeColumns) -> I8:
    """Where each entry of one tree is in the other, by uid; −1 where it isn't."""
    if of is among or (len(of) == len(among) and np.array_equal(of.uid, among.uid)):
        return np.arange(len(of))
    known = {uid: at for at, uid in enumerate(_as_keys(among))}
    return np.array([known.get(uid, -1) for uid in _as_keys(of)], dtype=np.int64)


def carried_totals(snapshot: ServedSnapshot, after: TreeColumns) -> tuple[F8, F8]:
    """(usage, group usage) of every entry of `after`, as in `Values`.

    What stayed where it was keeps its total, in the scope it was counted in and to the last bit. An entry that moved
    takes its own along, one that is new has none, and what is archived takes its total out of all that were above it.
    Where a scope's comparison group changes with that, the amount moved is that of the scope it was counted in.
    """
    before, values = snapshot.tree, snapshot.values
    place, place_after = places(after, before), places(before, after)
    known = place >= 0
    usage = np.where(known, values.usage[place], 0.0)
    group_usage = np.where(known, values.group_usage[place], 0.0)
    parent_before = np.where(known, before.parent[place], -1)
    parent_place = np.where(after.parent >= 0, place[after.parent], -1)
    stayed = known & (parent_before == parent_place)
    if stayed[1:].all() and len(after) == len(before):
        return usage, group_usage
    change = np.zeros(len(after))
    left = np.flatnonzero(place_after[before.parent] != np.where(place_after >= 0, after.parent[place_after], -2))
    left = left[(left > 0) & (place_after[before.parent[left]] >= 0)]
    np.subtract.at(change, place_after[before.parent[left]], values.usage[left])
    for lo, hi in reversed(list(zip(after.level_starts[1:-1], after.level_starts[2:], strict=True))):
        here = slice(lo, hi)
        brought = np.where(stayed[here], change[here], _less(usage[here], change[here]))
        np.add.at(change, after.parent[here], brought)
    return _less(usage, change), _less(group_usage, change)


def _less(total: F8, change: F8) -> F8:
    found: F8 = total + change
    return np.where(found < _ROUNDING * total, 0.0, found)


def simulate(
    snapshot: ServedSnapshot | None, after: TreeColumns, *, algorithm: Mapping[str, Any]
) -> PriorityResult | None:
    """Priorities of a tree under an algorithm with the usage of a snapshot; None without one, or if it can't be."""
    try:
        return None if snapshot is None else simulate_or_refuse(snapshot, after, algorithm=algorithm)
    except (Invalid, BadParameter):  # a package that is gone takes its algorithm along
        return None


def simulate_or_refuse(snapshot: ServedSnapshot, after: TreeColumns, *, algorithm: Mapping[str, Any]) -> PriorityResult:
    """Compute priorities from totals; raises Invalid (`no_inherit`, `package_failed`) and BadParameter."""
    if after.inherit.any():
        refuse_inherited(after, algorithm)
    usage, group_usage = carried_totals(snapshot, after)
    return compute_from_totals(after.engine_tree(), usage, group_usage, algorithm=algorithm)


def _as_keys(tree: TreeColumns) -> list[bytes]:
    raw = tree.uid.tobytes()
    return [raw[at : at + 16] for at in range(0, len(raw), 16)]
