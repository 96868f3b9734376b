"""Allocations of one period summed over a tree, with the periods that each entry's numbers cover."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cached_property
from uuid import UUID
from zoneinfo import ZoneInfo

from apps.contrib.allocations.capacities import core_hours
from apps.contrib.allocations.capacities import period_of as capacity_period
from apps.contrib.allocations.periods import Period, uncovered
from apps.contrib.allocations.services import allocation_permission, period_of
from apps.contrib.allocations.summary import AllocationSums, add_up, allocated_in
from apps.policies.models import Allocation, Capacity
from apps.priorities.selectors.rows import PolicyView


@dataclass(frozen=True, slots=True)
class CountedTime:
    """The periods that the numbers of an entry cover, and the capacity in them."""

    instants: tuple[tuple[datetime, datetime], ...]
    capacity_core_h: float | None
    capacity_by_now_core_h: float


@dataclass(frozen=True, eq=False)
class TableSums:
    """Allocations of one period, summed over the tree: for the whole period and until now."""

    view: PolicyView
    period: Period
    zone: ZoneInfo
    allocations: list[Allocation]
    capacities: list[Capacity]
    joined: dict[UUID, datetime] = field(default_factory=dict)  # entries that joined after the first revision

    @cached_property
    def capacity_core_h(self) -> float | None:
        return self.capacity_in(self.period) if self.capacities else None

    def capacity_in(self, period: Period, until: datetime | None = None) -> float:
        return core_hours(self.capacities, period, self.zone, until=until)

    @cached_property
    def uncovered(self) -> list[Period]:
        return uncovered(self.period, [capacity_period(each) for each in self.capacities])

    @cached_property
    def whole(self) -> AllocationSums:
        allocated = allocated_in(self.allocations, self.period, self.zone)
        return add_up(self.view.tree, allocated, self.capacity_core_h)

    @cached_property
    def by_now(self) -> AllocationSums:
        allocated = allocated_in(self.allocations, self.period, self.zone, until=self.view.now)
        return add_up(self.view.tree, allocated, None)

    @cached_property
    def days(self) -> dict[int, list[Period]]:
        """For each entry with allocations: the days of each allocation within the period."""
        periods: dict[int, list[Period]] = {}
        for allocation in self.allocations:
            i = self.view.tree.index_of_uid(allocation.entry_uid)
            shared = period_of(allocation).overlap(self.period)
            if i is not None and shared is not None:
                periods.setdefault(i, []).append(shared)
        return periods

    def beyond(self, i: int) -> tuple[float, date] | None:
        """Core-hours and last day of allocations that continue outside the period; None if none does."""
        uid = self.view.tree.uuid(i)
        allocations = [
            each for each in self.allocations if each.entry_uid == uid and period_of(each).overlap(self.period)
        ]
        if all(period_of(each).overlap(self.period) == period_of(each) for each in allocations):
            return None
        return sum(each.core_h for each in allocations), max(each.ends_on for each in allocations)

    @cached_property
    def may_allocate(self) -> Callable[[int], bool]:
        return allocation_permission(
            policy=self.view.policy, tree=self.view.tree, at=self.view.now, actor=self.view.actor
        )

    @property
    def n_of_archived(self) -> int:
        tree = self.view.tree
        return sum(
            tree.index_of_uid(each.entry_uid) is None
            for each in self.allocations
            if period_of(each).overlap(self.period) is not None
        )

    def periods(self, i: int) -> list[Period]:
        """Days that count for delivered and expected amounts: those of its allocations, merged, or the whole period."""
        merged: list[Period] = []
        for period in sorted(self.days.get(i, [self.period])):
            if merged and (period.starts_on - merged[-1].ends_on).days <= 1:
                last = merged.pop()
                period = Period(last.starts_on, max(last.ends_on, period.ends_on))
            merged.append(period)
        return merged

    def edges(self, entries: Sequence[int]) -> list[datetime]:
        """Start and end of the counted periods of these entries, until now; those of the whole period are included."""
        periods = {self.period.instants(self.zone), *(each for i in entries for each in self.counted_time(i).instants)}
        return sorted({min(edge, self.view.now) for each in periods for edge in each})

    def counted_time(self, i: int) -> CountedTime:
        """The periods that an entry's numbers cover, cached for entries with equal days and time of users_to_add."""
        since = None if i in self.days else self.joined.get(self.view.tree.uuid(i))
        periods = self._whole_period if i not in self.days else tuple(self.periods(i))
        key = (since, *periods)
        counted_time = self._counted_time.get(key)
        if counted_time is None:
            capacity = by_now = None
            if self.capacity_core_h is not None:
                before = [min(since or self.view.now, end) for _start, end in self._instants(periods)]
                before_joining = [self.capacity_in(each, until=at) for each, at in zip(periods, before, strict=True)]
                excluded = sum(before_joining) if since is not None else 0.0
                capacity = sum(self.capacity_in(each) for each in periods) - excluded
                by_now = sum(self.capacity_in(each, until=self.view.now) for each in periods) - excluded
            instants = tuple((min(max(start, since or start), end), end) for start, end in self._instants(periods))
            counted_time = self._counted_time[key] = CountedTime(instants, capacity, max(by_now or 0.0, 0.0))
        return counted_time

    def _instants(self, periods: Sequence[Period]) -> list[tuple[datetime, datetime]]:
        return [each.instants(self.zone) for each in periods]

    @cached_property
    def _counted_time(self) -> dict[tuple[datetime | Period | None, ...], CountedTime]:
        return {}

    @cached_property
    def _whole_period(self) -> tuple[Period, ...]:
        return (self.period,)

    def hides_allocations(self, i: int) -> bool:
        """Whether hidden children have allocations, which sums would reveal."""
        children = self.view.tree.children(i)
        group = slice(children.start, children.stop)
        return bool((self.whole.is_allocated[group] & ~self.view.visibility.mask[group]).any())
