"""The allocations of a period summed at every entry, and what begins and ends, by day. Pure.

Sums are arrays parallel to the tree:
own[i]: allocated to the entry itself; of the root, the capacity. NaN without one.
committed[i]: own[i], or else the sum allocated below: it has to come from above.
sub_allocated[i]: Σ committed of the children.
kept[i]: max(0, own − sub_allocated), and over[i] = max(0, sub_allocated − own): never both, NaN without own.

So every over-allocated core-hour is flagged once, at the lowest entry that has less than it sub-allocates: while no
entry is flagged, all leaves together have no more than the capacity.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cached_property
from itertools import pairwise
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np

from apps.policies.allocations.records import Period
from apps.policies.allocations.services import period_of, successor_of
from apps.policies.models import Allocation
from apps.policies.tree.columns import F8, Mask, TreeColumns
from apps.policies.tree.terms import Dates

# --- Sums at every entry ----------------------------------------------------------------------------------------------
_SLACK = 1e-9  # relative: sums of doubles aren't over because of their last digits


@dataclass(frozen=True, eq=False)
class AllocationSums:
    """Core-hours; see above."""

    own: F8
    committed: F8
    sub_allocated: F8
    kept: F8
    over: F8
    hands_out: Mask  # an entry below has an allocation

    @property
    def is_over(self) -> Mask:
        return np.asarray(np.nan_to_num(self.over) > 0)

    @cached_property
    def is_allocated(self) -> Mask:
        """To the entry, or to something below it."""
        return np.asarray(self.hands_out | ~np.isnan(self.own))


def allocated_in(
    allocations: Iterable[Allocation], period: Period, zone: ZoneInfo, *, until: datetime | None = None
) -> dict[UUID, float]:
    """Core-hours allocated to each entry within a period, or in it up to an instant.

    An allocation is spread evenly over its own real hours; those within the period count.
    """
    found: dict[UUID, float] = {}
    for allocation in allocations:
        whole = period_of(allocation)
        shared = whole.overlap(period)
        if shared is not None:
            part = 1.0 if shared == whole and until is None else shared.hours(zone, until=until) / whole.hours(zone)
            found[allocation.entry_uid] = found.get(allocation.entry_uid, 0.0) + allocation.core_h * part
    return found


def add_up(tree: TreeColumns, promised: Mapping[UUID, float], capacity_core_h: float | None) -> AllocationSums:
    """Sum from the leaves to the root. Allocations of entries outside the tree count for nothing."""
    own = np.full(len(tree), np.nan)
    for uid, core_h in promised.items():
        i = tree.index_of_uid(uid)
        if i is not None:
            own[i] = core_h
    own[0] = np.nan if capacity_core_h is None else capacity_core_h
    committed, sub_allocated = own.copy(), np.zeros(len(tree))
    hands_out = np.zeros(len(tree), dtype=np.bool_)
    starts = tree.level_starts
    for lo, hi in reversed(list(pairwise(starts[1:]))):
        stated = ~np.isnan(own[lo:hi])
        committed[lo:hi] = np.where(stated, own[lo:hi], sub_allocated[lo:hi])
        parents = tree.parent[lo:hi]
        np.add.at(sub_allocated, parents, committed[lo:hi])
        np.logical_or.at(hands_out, parents, stated | hands_out[lo:hi])
    committed[0] = sub_allocated[0] if np.isnan(own[0]) else own[0]
    left = own - sub_allocated
    left = np.where(np.abs(left) <= _SLACK * np.maximum(np.abs(own), sub_allocated), 0.0, left)
    return AllocationSums(own, committed, sub_allocated, np.maximum(left, 0.0), np.maximum(-left, 0.0), hands_out)


# --- What begins and ends ---------------------------------------------------------------------------------------------
SOON_DAYS = (7, 30, 90)
_LISTED_AFTERWARDS = timedelta(days=30)  # an ended allocation is listed for so long


@dataclass(frozen=True, slots=True)
class Event:
    """One thing on one day. kind: shares_begin, shares_end, allocation_begins, allocation_ends.

    on: the first day of what begins, the last day of what ends.
    """

    on: date
    kind: str
    uid: UUID
    path: str
    name: str
    shares: float | None
    dates: Dates | None = None
    allocation: Allocation | None = None
    successor: Allocation | None = None

    @property
    def is_end(self) -> bool:
        return self.kind in ("shares_end", "allocation_ends")

    @property
    def is_covered(self) -> bool:
        """It continues by itself: another allocation follows, or the shares are kept."""
        return self.successor is not None


def events_in(tree: TreeColumns, mask: Mask, allocations: Sequence[Allocation], period: Period) -> list[Event]:
    """By day, then by path; of the entries in the mask."""
    found = [event for event in _events(tree, mask, allocations) if event.on in period]
    return sorted(found, key=lambda event: (event.on, event.path, event.kind))


def ending_soon(
    tree: TreeColumns, mask: Mask, allocations: Sequence[Allocation], today: date, days: int
) -> list[Event]:
    """What ends within so many days, and what has ended without a successor: shares that were kept, and allocations of
    the last 30 days.
    """
    latest = today + timedelta(days=days)
    found = []
    for event in _events(tree, mask, allocations):
        if not event.is_end or event.on > latest:
            continue
        is_over = event.on < today
        too_old = event.allocation is not None and event.on < today - _LISTED_AFTERWARDS
        if not is_over or (not event.is_covered and not too_old):
            found.append(event)
    return sorted(found, key=lambda event: (event.on, event.path, event.kind))


def _events(tree: TreeColumns, mask: Mask, allocations: Sequence[Allocation]) -> Iterator[Event]:
    for i, dates in tree.dates.items():
        if mask[i]:
            for day, kind in ((dates.starts_on, "shares_begin"), (dates.ends_on, "shares_end")):
                if day is not None:
                    yield _event(tree, i, day, kind, dates=dates)
    by_entry: dict[UUID, list[Allocation]] = {}
    for allocation in allocations:
        by_entry.setdefault(allocation.entry_uid, []).append(allocation)
    for uid, own in by_entry.items():
        at = tree.index_of_uid(uid)
        if at is None or not mask[at]:
            continue
        for allocation in own:
            yield _event(tree, at, allocation.starts_on, "allocation_begins", allocation=allocation)
            follows = successor_of(allocation, own)
            yield _event(tree, at, allocation.ends_on, "allocation_ends", allocation=allocation, successor=follows)


def _event(
    tree: TreeColumns,
    i: int,
    day: date,
    kind: str,
    *,
    dates: Dates | None = None,
    allocation: Allocation | None = None,
    successor: Allocation | None = None,
) -> Event:
    shares = None if tree.inherit[i] else float(tree.shares[i])
    return Event(day, kind, tree.uuid(i), tree.path(i), tree.name[i], shares, dates, allocation, successor)
