"""Core-hours of each week of a period, and what is left of allocations."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID
from zoneinfo import ZoneInfo

from apps.policies.allocations.periods import Period


@dataclass(frozen=True, slots=True)
class WeekAmounts:
    """Core-hours of each week. place: among its siblings or sites, so that a colour stays whatever else is shown."""

    key: str
    name: str
    place: int
    core_h: tuple[float, ...]

    @property
    def total_core_h(self) -> float:
        return sum(self.core_h)


@dataclass(frozen=True, slots=True)
class AllocationLeft:
    """at: its first instant in the period, then each end of a week up to now or its end; left_core_h: allocated less
    delivered at each. due_core_h: by now, spread evenly over its days."""

    uid: UUID
    name: str
    place: tuple[int, int]  # level below the root, place among its siblings: for its colour
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
    """edges: begin of each week (the first one of the period), then the end of the last; empty before the period.

    entries: the largest children whose amounts the actor may see, else the group itself. rest: of the group beside
    them, or of further children; zeros where there is nothing. n_hidden: visible children without amounts. promises:
    the largest. n_promises: all that could be drawn.
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
    promises: tuple[AllocationLeft, ...]
    n_promises: int
