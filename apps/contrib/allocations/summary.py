"""Sum the allocations of a period at every entry, and list what begins and ends, by day. Pure.

Sums are arrays parallel to the tree:
own[i]: allocated to the entry itself; for the root, the capacity. NaN without an allocation.
committed[i]: own[i], or otherwise the sum allocated below: what the parent has to provide.
sub_allocated[i]: Σ committed of the children.
kept[i]: max(0, own − sub_allocated), and over[i] = max(0, sub_allocated − own): never both, NaN without own.

So every over-allocated core-hour is reported once, at the lowest entry that sub-allocates more than it has. If no entry
is over-allocated, all leaves together have no more than the capacity.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cached_property
from itertools import pairwise
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np

from apps.contrib.allocations.periods import Period
from apps.contrib.allocations.services import period_of
from apps.policies.models import Allocation
from apps.policies.tree.columns import F8, Mask, TreeColumns
from apps.policies.tree.terms import Dates

# Relative tolerance, so that rounding errors of sums aren't reported as over-allocated.
_SLACK = 1e-9
SOON_DAYS = (7, 30, 90)
# How long an ended allocation is listed.
_LISTED_AFTERWARDS = timedelta(days=30)


@dataclass(frozen=True, eq=False)
class AllocationSums:
    """Sums in core-hours; defined in the module's docstring."""

    own: F8
    committed: F8
    sub_allocated: F8
    kept: F8
    over: F8
    has_sub_allocations: Mask  # a descendant has an allocation

    @property
    def is_over(self) -> Mask:
        return np.asarray(np.nan_to_num(self.over) > 0)

    @cached_property
    def is_allocated(self) -> Mask:
        """Mask of entries that have an allocation, or a descendant with one."""
        return np.asarray(self.has_sub_allocations | ~np.isnan(self.own))


def allocated_in(
    allocations: Iterable[Allocation], period: Period, zone: ZoneInfo, *, until: datetime | None = None
) -> dict[UUID, float]:
    """Return the core-hours allocated to each entry within a period, optionally up to an instant.

    An allocation is spread evenly over its own real hours; those within the period count.
    """
    allocated: dict[UUID, float] = {}
    for allocation in allocations:
        whole = period_of(allocation)
        shared = whole.overlap(period)
        if shared is not None:
            part = 1.0 if shared == whole and until is None else shared.hours(zone, until=until) / whole.hours(zone)
            allocated[allocation.entry_uid] = allocated.get(allocation.entry_uid, 0.0) + allocation.amount * part
    return allocated


def add_up(tree: TreeColumns, allocated: Mapping[UUID, float], capacity: float | None) -> AllocationSums:
    """Sum the core-hours from the leaves to the root. Allocations of entries outside the tree are ignored."""
    own = np.full(len(tree), np.nan)
    for uid, amount in allocated.items():
        i = tree.index_of_uid(uid)
        if i is not None:
            own[i] = amount
    own[0] = np.nan if capacity is None else capacity
    committed, sub_allocated = own.copy(), np.zeros(len(tree))
    has_sub_allocations = np.zeros(len(tree), dtype=np.bool_)
    starts = tree.level_starts
    for lo, hi in reversed(list(pairwise(starts[1:]))):
        stated = ~np.isnan(own[lo:hi])
        committed[lo:hi] = np.where(stated, own[lo:hi], sub_allocated[lo:hi])
        parents = tree.parent[lo:hi]
        np.add.at(sub_allocated, parents, committed[lo:hi])
        np.logical_or.at(has_sub_allocations, parents, stated | has_sub_allocations[lo:hi])
    committed[0] = sub_allocated[0] if np.isnan(own[0]) else own[0]
    left = own - sub_allocated
    left = np.where(np.abs(left) <= _SLACK * np.maximum(np.abs(own), sub_allocated), 0.0, left)
    return AllocationSums(
        own, committed, sub_allocated, np.maximum(left, 0.0), np.maximum(-left, 0.0), has_sub_allocations
    )


@dataclass(frozen=True, slots=True)
class Event:
    """The beginning or end of shares or an allocation. kind: shares_begin, shares_end, allocation_begins,
    allocation_ends.

    on: the first day for beginnings, the last day for ends.
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
        """Whether another allocation of the same entry follows without a gap."""
        return self.successor is not None


def events_in(tree: TreeColumns, mask: Mask, allocations: Sequence[Allocation], period: Period) -> list[Event]:
    """List events of the entries in the mask, by day and path."""
    events = _events(tree, mask, allocations, lambda on: on in period)
    return sorted(events, key=lambda event: (event.on, event.path, event.kind))


def ending_soon(
    tree: TreeColumns, mask: Mask, allocations: Sequence[Allocation], today: date, days: int
) -> list[Event]:
    """List what ends within these days, and what ended without a successor: shares, and allocations of the last 30
    days."""
    latest = today + timedelta(days=days)
    events = []
    for event in _events(tree, mask, allocations, lambda on: on <= latest, since=today - _LISTED_AFTERWARDS):
        if not event.is_end:
            continue
        is_over = event.on < today
        too_old = event.allocation is not None and event.on < today - _LISTED_AFTERWARDS
        if not is_over or (not event.is_covered and not too_old):
            events.append(event)
    return sorted(events, key=lambda event: (event.on, event.path, event.kind))


class Successors:
    """Which allocation continues where another one of the same entry and unit ends: n allocations take n · log n."""

    def __init__(self, allocations: Iterable[Allocation]) -> None:
        self._by_unit: dict[str, tuple[list[Allocation], list[date]]] = {}
        for each in sorted(allocations, key=lambda each: (each.starts_on, each.pk)):
            rows, latest_ends = self._by_unit.setdefault(each.unit, ([], []))
            rows.append(each)
            latest_ends.append(max(each.ends_on, latest_ends[-1]) if latest_ends else each.ends_on)

    def of(self, allocation: Allocation) -> Allocation | None:
        """The first one that ends later, if it begins on the next day at the latest."""
        rows, latest_ends = self._by_unit[allocation.unit]
        at = bisect_right(latest_ends, allocation.ends_on)
        first = rows[at] if at < len(rows) else None
        return first if first is not None and (first.starts_on - allocation.ends_on).days <= 1 else None


def _events(
    tree: TreeColumns,
    mask: Mask,
    allocations: Sequence[Allocation],
    is_wanted: Callable[[date], bool],
    *,
    since: date = date.min,
) -> Iterator[Event]:
    """Events on wanted days; of allocations since a day."""
    for i, dates in tree.dates.items():
        if mask[i]:
            for day, kind in ((dates.starts_on, "shares_begin"), (dates.ends_on, "shares_end")):
                if day is not None and is_wanted(day):
                    yield _event(tree, i, day, kind, dates=dates)
    by_entry: dict[UUID, list[Allocation]] = {}
    for allocation in allocations:
        by_entry.setdefault(allocation.entry_uid, []).append(allocation)
    for uid, own in by_entry.items():
        at = tree.index_of_uid(uid)
        if at is None or not mask[at]:
            continue
        successors = Successors(own)
        for allocation in own:
            first, last = allocation.starts_on, allocation.ends_on
            if first >= since and is_wanted(first):
                yield _event(tree, at, first, "allocation_begins", allocation=allocation)
            if last >= since and is_wanted(last):
                after = successors.of(allocation)
                yield _event(tree, at, last, "allocation_ends", allocation=allocation, successor=after)


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
