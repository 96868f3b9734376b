"""Allocations of one period summed over a tree, with the periods that each entry's numbers cover."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cached_property
from uuid import UUID
from zoneinfo import ZoneInfo

from apps.contrib.allocations.capacities import capacity_in
from apps.contrib.allocations.capacities import period_of as capacity_period
from apps.contrib.allocations.current import Current, current_of, hours_of
from apps.contrib.allocations.periods import Period, day_of, uncovered
from apps.contrib.allocations.services import allocation_permission, period_of
from apps.contrib.allocations.summary import AllocationSums, add_up, allocated_in
from apps.contrib.allocations.units import of_unit
from apps.policies.models import Allocation, Capacity
from apps.policies.tree.past_targets import TargetSpan
from apps.policies.units import Unit
from apps.priorities.delivered_usage import Delivered
from apps.priorities.selectors.rows import PolicyView


@dataclass(frozen=True, slots=True)
class CountedTime:
    """The periods that the numbers of an entry cover, and the capacity in them."""

    instants: tuple[tuple[datetime, datetime], ...]
    capacity: float | None
    capacity_by_now: float


@dataclass(frozen=True, eq=False)
class TableSums:
    """Allocations of one period and unit, summed over the tree: for the whole period and until now."""

    view: PolicyView
    period: Period
    zone: ZoneInfo
    allocations: list[Allocation]
    capacities: list[Capacity]
    unit: Unit
    joined: dict[UUID, datetime] = field(default_factory=dict)  # entries that joined after the first revision
    targets: dict[UUID, list[TargetSpan]] = field(default_factory=dict)  # of the entries whose expected hours are asked

    @cached_property
    def capacity(self) -> float | None:
        return self.capacity_in(self.period) if self.capacities else None

    def capacity_in(self, period: Period, until: datetime | None = None) -> float:
        return capacity_in(self.capacities, period, self.zone, until=until)

    @cached_property
    def uncovered(self) -> list[Period]:
        return uncovered(self.period, [capacity_period(each) for each in self.capacities])

    @cached_property
    def whole(self) -> AllocationSums:
        allocated = allocated_in(self.allocations, self.period, self.zone)
        return add_up(self.view.tree, allocated, self.capacity)

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

    @cached_property
    def _of_entry(self) -> dict[UUID, list[Allocation]]:
        by_uid: dict[UUID, list[Allocation]] = {}
        for allocation in self.allocations:
            by_uid.setdefault(allocation.entry_uid, []).append(allocation)
        return by_uid

    def current(self, i: int) -> Current | None:
        """What the board has of an entry with an allocation in the period, if that is what the period has, too; else
        the next of the period; None if all of it is over."""
        today, own = day_of(self.view.now, self.zone), self._of_entry.get(self.view.tree.uuid(i), [])
        current = current_of(own, today)
        if current is not None and any(period_of(each).overlap(self.period) for each in current.allocations):
            return current
        coming = [each for each in own if each.starts_on > today and period_of(each).overlap(self.period)]
        return current_of(coming, today)

    def beyond(self, i: int) -> tuple[float, date] | None:
        """Amount and last day of allocations that continue outside the period; None if none does."""
        uid = self.view.tree.uuid(i)
        allocations = [
            each for each in self.allocations if each.entry_uid == uid and period_of(each).overlap(self.period)
        ]
        if all(period_of(each).overlap(self.period) == period_of(each) for each in allocations):
            return None
        return sum(each.amount for each in allocations), max(each.ends_on for each in allocations)

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
        """Start and end of the counted periods of these entries and of their current allocations, until now; those of
        the whole period are included."""
        periods = {self.period.instants(self.zone), *(each for i in entries for each in self.counted_time(i).instants)}
        edges = {min(edge, self.view.now) for each in periods for edge in each}
        current = (self.current(i) for i in entries if i in self.days)
        edges |= {min(at, self.view.now) for each in current if each is not None for at in each.instants(self.zone)}
        return sorted(edges)

    def remaining(self, i: int, used: Delivered) -> float:
        """What can still be used of an entry's allocations in the period: as on the board, 0 if they are over."""
        current, today = self.current(i), day_of(self.view.now, self.zone)
        if current is None:
            return 0.0
        return current.remaining(current.used(hours_of(used, i, self.zone, self.view.now), today), today)

    def counted_time(self, i: int) -> CountedTime:
        """The periods that an entry's numbers cover, cached for entries with equal days and time of users_to_add."""
        since = None if i in self.days else self.joined.get(self.view.tree.uuid(i))
        periods = self._whole_period if i not in self.days else tuple(self.periods(i))
        key = (since, *periods)
        counted_time = self._counted_time.get(key)
        if counted_time is None:
            capacity = by_now = None
            if self.capacity is not None:
                before = [min(since or self.view.now, end) for _start, end in self._instants(periods)]
                before_joining = [self.capacity_in(each, until=at) for each, at in zip(periods, before, strict=True)]
                excluded = sum(before_joining) if since is not None else 0.0
                capacity = sum(self.capacity_in(each) for each in periods) - excluded
                by_now = sum(self.capacity_in(each, until=self.view.now) for each in periods) - excluded
            instants = tuple((min(max(start, since or start), end), end) for start, end in self._instants(periods))
            counted_time = self._counted_time[key] = CountedTime(instants, capacity, max(by_now or 0.0, 0.0))
        return counted_time

    def expected(self, i: int) -> tuple[float | None, float | None]:
        """Hours by now and to the end of the period: each day's target × its capacity, from now on today's.

        None without a capacity, and for an entry that has no target now.
        """
        counted, view = self.counted_time(i), self.view
        target = 1.0 if i == 0 else float(view.target[1][i]) if view.competes[i] else None
        if target is None or counted.capacity is None:
            return None, None
        spans = self.targets.get(view.tree.uuid(i), [])
        by_now = 0.0
        for at, span in enumerate(spans):
            until = spans[at + 1].since if at + 1 < len(spans) else view.now
            capacity = self._capacity_until(i, until) - self._capacity_until(i, span.since)
            by_now += (span.target_global or 0.0) * capacity
        return by_now, by_now + target * (counted.capacity - counted.capacity_by_now)

    def _capacity_until(self, i: int, at: datetime) -> float:
        """Capacity in the time that an entry's numbers cover, until an instant, at most until now."""
        instants, until = self.counted_time(i).instants, min(at, self.view.now)
        key = (instants, until)
        if key not in self._capacities_until:
            self._capacities_until[key] = sum(
                self.capacity_in(day, until=min(until, end)) - self.capacity_in(day, until=min(start, until))
                for day, (start, end) in zip(self.periods(i), instants, strict=True)
                if until > start
            )
        return self._capacities_until[key]

    @cached_property
    def _capacities_until(self) -> dict[tuple[tuple[tuple[datetime, datetime], ...], datetime], float]:
        return {}

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


def table_sums(
    view: PolicyView,
    period: Period,
    zone: ZoneInfo,
    allocations: Sequence[Allocation],
    capacities: Sequence[Capacity],
    unit: Unit,
) -> TableSums:
    """Sums of the allocations and capacities of one unit."""
    return TableSums(view, period, zone, of_unit(allocations, unit), of_unit(capacities, unit), unit)
