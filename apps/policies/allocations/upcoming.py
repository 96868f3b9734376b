"""What begins and what ends: dates of shares and allocations, by the day on which it happens. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from uuid import UUID

from apps.policies.allocations.periods import Period
from apps.policies.allocations.services import successor_of
from apps.policies.models import Allocation
from apps.policies.tree.columns import Mask, TreeColumns
from apps.policies.tree.terms import Dates

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
