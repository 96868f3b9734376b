"""Core-hours of weeks beside their allocations."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID
from zoneinfo import ZoneInfo

from apps.contrib.allocations.periods import Period


@dataclass(frozen=True, slots=True)
class WeekAmounts:
    """Core-hours of each week. place: index among all siblings or sites, which decides the colour."""

    key: str
    name: str
    place: int
    core_h: tuple[float, ...]

    @property
    def total_core_h(self) -> float:
        return sum(self.core_h)


@dataclass(frozen=True, slots=True)
class AllocationLeft:
    """The remaining core-hours of an allocation over time.

    at: its first instant in the period, then each end of a week until now or its end. left_core_h: allocated less
    delivered at each. due_core_h: the allocation by now, if spread evenly over its days.
    """

    uid: UUID
    name: str
    place: tuple[int, int]  # level below the root and index among siblings, which decide the colour
    days: Period
    allocated_core_h: float
    due_core_h: float
    at: tuple[datetime, ...]
    left_core_h: tuple[float, ...]

    @property
    def delivered_core_h(self) -> float:
        return self.allocated_core_h - self.left_core_h[-1]


@dataclass(frozen=True)
class CoreHourWeeks:
    """Core-hours of a group by week, entry and site.

    edges: start of each week (the first is the period's start), then the end of the last; empty before the period.
    entries: the largest children whose amounts the actor may see, or the group itself. rest: the rest of the group;
    zeros if there is none. n_hidden: visible children with hidden amounts. allocations_left: the largest allocations;
    n_allocations: number of all.
    """

    policy_slug: str
    name: str
    period: Period
    zone: ZoneInfo
    now: datetime
    edges: tuple[datetime, ...]
    entries: tuple[WeekAmounts, ...]
    rest: WeekAmounts | None
    sites: tuple[WeekAmounts, ...]
    n_hidden: int
    allocations_left: tuple[AllocationLeft, ...]
    n_allocations: int
