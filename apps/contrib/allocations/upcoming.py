"""Allocations and shares that start or end soon, and those of a period, by day."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from uuid import UUID
from zoneinfo import ZoneInfo

from apps.accounts.actor import Actor
from apps.contrib.allocations.loaded import Loaded, open_allocations
from apps.contrib.allocations.periods import Period, day_of
from apps.contrib.allocations.services import allocation_permission
from apps.contrib.allocations.summary import Event, ending_soon, events_in
from apps.priorities.selectors.rows import PolicyView


@dataclass(frozen=True)
class Upcoming:
    """Starts and ends of allocations and shares by day. may_allocate: whether the reader may allocate to an entry."""

    policy_slug: str
    policy_name: str
    today: date
    now: datetime
    events: list[Event]
    may_allocate: Callable[[UUID], bool]


def get_ending_soon(*, policy_slug: str, zone: ZoneInfo, days: int, actor: Actor, of: UUID | None = None) -> Upcoming:
    """What ends within some days or has ended without a successor; of an entry: at and below it."""
    return ending_soon_of(open_allocations(policy_slug=policy_slug, actor=actor), zone=zone, days=days, of=of)


def ending_soon_of(loaded: Loaded, *, zone: ZoneInfo, days: int, of: UUID | None = None) -> Upcoming:
    """As get_ending_soon, of what is loaded."""
    view = loaded.view
    mask = view.visibility.mask
    if of is not None:
        mask = mask & view.tree.subtree_mask(view.require(of))
    today = day_of(view.now, zone)
    return _upcoming(view, today, ending_soon(view.tree, mask, loaded.allocations, today, days))


def calendar_of(loaded: Loaded, *, period: Period, zone: ZoneInfo) -> Upcoming:
    """Everything that starts or ends within a period."""
    view = loaded.view
    events = events_in(view.tree, view.visibility.mask, loaded.allocations, period)
    return _upcoming(view, day_of(view.now, zone), events)


def _upcoming(view: PolicyView, today: date, events: list[Event]) -> Upcoming:
    tree = view.tree
    may = allocation_permission(policy=view.policy, tree=tree, at=view.now, actor=view.actor)

    def may_allocate(uid: UUID) -> bool:
        i = tree.index_of_uid(uid)
        return i is not None and may(i)

    return Upcoming(view.policy.slug, view.policy.name, today, view.now, events, may_allocate)
