"""flux's weighted walk, list by list in one pass, as machine code; same bits as columns and `count_ahead`.

It decides ties by doubles. Where these leave a doubt it gives up, and `flux_ties` decides in exact arithmetic.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from apps.engine.arrays import BoolArray, FloatArray, IntArray
from apps.engine.fast import compiled_borrowing
from apps.engine.numerics.flux_ties import (
    IDLE_WEIGHT,
    LEAST_RATIO,
    MOST_RATIO,
    OFF_BESIDE_OTHERS,
    OFF_BESIDE_SIBLINGS,
    TIE,
    Walked,
)
from apps.engine.operators import ON_TARGET_TOLERANCE

Indices = npt.NDArray[np.int32]

_INFINITE = 0x7FF << 52  # the bits of infinity: doubles ≥ 0 order as their bits do
_LAST = (1 << 63) - 1  # sorts behind all keys
_MOST_MOVES = 16  # of each entry of a list, where keys are too short to tell weights apart
_APART, _TIED, _IN_DOUBT = 0, 1, 2


class Walk(NamedTuple):
    """What a walk reads, (n,) but for `n_inner`, the entries above the lowest level.

    sum_shares, sum_usage: of the children of each entry. idle_below: usage that counts as none.
    """

    parent: Indices
    first_child: Indices
    child_count: Indices
    n_inner: int
    is_ranked: BoolArray
    n_ranked_below: IntArray
    target: FloatArray
    shares: FloatArray
    usage: FloatArray
    sum_shares: FloatArray
    sum_usage: FloatArray
    idle_below: float


class Room(NamedTuple):
    """Room to walk in.

    Of each entry above the lowest level: ahead, ranked leaves before those below it; next_tied, the entry whose list is
    merged into its own, −1 for none; is_merged, into one before. Of each slot of a list: entry, value; order, the slots
    best first; is_tied, with the one before in this order. keys, spare: to sort by.
    """

    ahead: IntArray
    next_tied: Indices
    is_merged: BoolArray
    entry: Indices
    value: FloatArray
    order: Indices
    is_tied: BoolArray
    keys: IntArray
    spare: IntArray

    @classmethod
    def of(cls, n_inner: int, longest: int) -> Room:
        """longest: entries of the largest level, whose lists may all be merged."""
        longest += 8  # keys are filled up to whole eights
        return cls(
            ahead=np.zeros(n_inner, dtype=np.int64),
            next_tied=np.full(n_inner, -1, dtype=np.int32),
            is_merged=np.zeros(n_inner, dtype=np.bool_),
            entry=np.empty(longest, dtype=np.int32),
            value=np.empty(longest),
            order=np.empty(longest, dtype=np.int32),
            is_tied=np.empty(longest, dtype=np.bool_),
            keys=np.empty(longest, dtype=np.int64),
            spare=np.empty(longest, dtype=np.int64),
        )


@compiled_borrowing
def walk(tree: Walk, room: Room, out: Walked) -> bool:
    """Write the columns; return False where exact arithmetic has to decide, so that they mean nothing."""
    n_ranked = max(tree.n_ranked_below[0], 1)
    out.weight[0] = IDLE_WEIGHT if tree.usage[0] < tree.idle_below else 1.0
    out.actual[0] = 1.0 if tree.usage[0] > 0 else 0.0
    out.priority[0], out.rank[0], out.factor[0] = 0.0, 0, 0.0
    for first in range(tree.n_inner):
        if room.is_merged[first]:
            continue
        size, bank = 0, first
        while bank >= 0:
            size = _weigh_children(tree, room, out, bank, size)
            bank = room.next_tied[bank]
        if size == 0:
            continue
        if not (_sort(room, size) and _decide(tree, room, size)):
            return False
        passed = ahead = room.ahead[first]
        last, was_late = -1, False
        for k in range(size):
            child = room.entry[room.order[k]]
            is_late = not tree.is_ranked[child]
            joins = room.is_tied[k] and is_late == was_late
            if not joins:
                ahead = passed
            if not is_late:
                passed += 1
                out.rank[child], out.factor[child] = ahead + 1, (n_ranked - ahead) / n_ranked
            else:
                passed += tree.n_ranked_below[child]
                out.rank[child], out.factor[child] = 0, 0.0
                if child < tree.n_inner:
                    room.ahead[child] = ahead
                    if joins:
                        room.next_tied[last], room.is_merged[child] = child, True
                    last = child
            was_late = is_late
    return True


@compiled_borrowing
def _weigh_children(tree: Walk, room: Room, out: Walked, bank: int, end: int) -> int:
    """Weights, parts and balances of a bank's children; they get the slots from `end` on; the new end is returned."""
    sum_usage = tree.sum_usage[bank]
    scale, divisor = sum_usage / tree.sum_shares[bank], sum_usage if sum_usage > 0 else np.inf
    for child in range(tree.first_child[bank], tree.first_child[bank] + tree.child_count[bank]):
        shares, usage = tree.shares[child], tree.usage[child]
        is_idle = usage < tree.idle_below
        weight = shares / usage * scale
        weight = IDLE_WEIGHT if is_idle else weight
        weight = 0.0 if shares == 0 else weight
        part = usage / divisor
        out.weight[child] = room.value[end] = weight
        out.actual[child], room.entry[end] = part, child
        out.priority[child] = _balance(tree.target[child], 0.0 if is_idle else part)
        end += 1
    return end


@compiled_borrowing
def _balance(target: float, actual: float) -> float:
    """`ties.balance` of one entry."""
    gap = (target - actual) / (target + actual)
    gap = 0.0 if abs(gap) <= ON_TARGET_TOLERANCE / 2 else gap
    return -1.0 if target == 0 else gap


@compiled_borrowing
def _sort(room: Room, size: int) -> bool:
    """Order the room by value, descending; False if too many have one key, which is a value without its last bits."""
    keys, spare, value, order = room.keys, room.spare, room.value, room.order
    bits = value.view(np.int64)
    n_bits = 4
    while size > 1 << n_bits:
        n_bits += 1
    mask = (1 << n_bits) - 1
    for slot in range(size):
        keys[slot] = ((_INFINITE - bits[slot]) & ~mask) | slot
    _sort_eights(keys, size)
    width = 8
    while width < size:
        for begin in range(0, size, 2 * width):
            _merge(keys, spare, begin, min(begin + width, size), min(begin + 2 * width, size))
        keys, spare = spare, keys
        width *= 2
    n_moves = _MOST_MOVES * size
    for k in range(size):
        slot, at = keys[k] & mask, k
        while at > 0 and value[order[at - 1]] < value[slot]:
            order[at] = order[at - 1]
            at -= 1
        order[at] = slot
        n_moves -= k - at
        if n_moves < 0:
            return False
    return True


@compiled_borrowing
def _sort_eights(keys: IntArray, size: int) -> None:
    """Sort each eight keys by a network of 19 comparisons; the last eight are filled up."""
    for at in range(size, (size + 7) & ~7):
        keys[at] = _LAST
    for at in range(0, size, 8):
        a, b, c, d = keys[at], keys[at + 1], keys[at + 2], keys[at + 3]
        e, f, g, h = keys[at + 4], keys[at + 5], keys[at + 6], keys[at + 7]
        a, c = min(a, c), max(a, c)
        b, d = min(b, d), max(b, d)
        e, g = min(e, g), max(e, g)
        f, h = min(f, h), max(f, h)
        a, e = min(a, e), max(a, e)
        b, f = min(b, f), max(b, f)
        c, g = min(c, g), max(c, g)
        d, h = min(d, h), max(d, h)
        a, b = min(a, b), max(a, b)
        c, d = min(c, d), max(c, d)
        e, f = min(e, f), max(e, f)
        g, h = min(g, h), max(g, h)
        c, e = min(c, e), max(c, e)
        d, f = min(d, f), max(d, f)
        b, e = min(b, e), max(b, e)
        d, g = min(d, g), max(d, g)
        b, c = min(b, c), max(b, c)
        d, e = min(d, e), max(d, e)
        f, g = min(f, g), max(f, g)
        keys[at], keys[at + 1], keys[at + 2], keys[at + 3] = a, b, c, d
        keys[at + 4], keys[at + 5], keys[at + 6], keys[at + 7] = e, f, g, h


@compiled_borrowing
def _merge(keys: IntArray, merged: IntArray, begin: int, middle: int, end: int) -> None:
    """Merge two sorted runs from both ends: as many steps as the shorter one has keys need no check for its end."""
    left, left_end, right, right_end = begin, middle - 1, middle, end - 1
    n_sure = min(middle - begin, end - middle)
    for step in range(n_sure):
        is_right = int(keys[right] < keys[left])
        merged[begin + step] = min(keys[left], keys[right])
        left, right = left + 1 - is_right, right + is_right
        is_left = int(keys[right_end] < keys[left_end])
        merged[end - 1 - step] = max(keys[left_end], keys[right_end])
        left_end, right_end = left_end - is_left, right_end - 1 + is_left
    for at in range(begin + n_sure, end - n_sure):
        if right > right_end or (left <= left_end and keys[left] < keys[right]):
            merged[at], left = keys[left], left + 1
        else:
            merged[at], right = keys[right], right + 1


@compiled_borrowing
def _decide(tree: Walk, room: Room, size: int) -> bool:
    """Mark ties, and put unranked entries last among those that tie; False if any tie is in doubt."""
    order, is_tied = room.order, room.is_tied
    is_tied[0] = False
    n_late = 0 if tree.is_ranked[room.entry[order[0]]] else 1
    for k in range(1, size):
        before, after = room.entry[order[k - 1]], room.entry[order[k]]
        tie = _tie(tree, before, after, room.value[order[k - 1]], room.value[order[k]])
        if tie == _IN_DOUBT:
            return False
        is_tied[k] = tie == _TIED
        n_late += not tree.is_ranked[after]
    if 0 < n_late < size:
        begin = 0
        for end in range(1, size + 1):
            if end == size or not is_tied[end]:
                _put_late_last(tree, room, begin, end)
                begin = end
    return True


@compiled_borrowing
def _put_late_last(tree: Walk, room: Room, begin: int, end: int) -> None:
    n_late, at = 0, begin
    for k in range(begin, end):
        slot = room.order[k]
        if tree.is_ranked[room.entry[slot]]:
            room.order[at] = slot
            at += 1
        else:
            room.spare[n_late] = slot
            n_late += 1
    for k in range(n_late):
        room.order[at + k] = room.spare[k]


@compiled_borrowing
def _tie(tree: Walk, before: int, after: int, higher: float, lower: float) -> int:
    """Whether neighbours in a sorted list tie, as far as `WeightOrder` leaves it to doubles."""
    gap, width = higher - lower, max(higher, 1.0) * TIE
    if gap >= width / TIE * OFF_BESIDE_OTHERS:
        return _APART
    are_siblings = tree.parent[before] == tree.parent[after]
    if gap == 0 and (higher == 0 or higher == IDLE_WEIGHT or (are_siblings and _have_one_ratio(tree, before, after))):
        return _TIED
    off = OFF_BESIDE_SIBLINGS if are_siblings else OFF_BESIDE_OTHERS
    if abs(gap - width) <= off * higher + OFF_BESIDE_OTHERS * width:
        return _IN_DOUBT
    return _TIED if gap < width else _APART


@compiled_borrowing
def _have_one_ratio(tree: Walk, before: int, after: int) -> bool:
    """`WeightOrder` says where it decides; entries with children have none."""
    if tree.child_count[before] or tree.child_count[after]:
        return False
    ratio: float = tree.shares[before] / tree.usage[before]
    return LEAST_RATIO <= ratio <= MOST_RATIO and ratio == tree.shares[after] / tree.usage[after]
