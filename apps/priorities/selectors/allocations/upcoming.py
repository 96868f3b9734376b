"""What begins and what ends among the entries that somebody sees."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from uuid import UUID
from zoneinfo import ZoneInfo

from apps.accounts.actor import Actor
from apps.policies.allocations.periods import Period, day_of
from apps.policies.allocations.services import allocations_of, givable
from apps.policies.allocations.upcoming import Event, ending_soon, events_in
from apps.policies.models import Allocation
from apps.priorities.selectors.rows import PolicyView, open_view


@dataclass(frozen=True)
class Upcoming:
    """Events by day. may_give: to which entries the reader may promise core-hours."""

    policy_slug: str
    policy_name: str
    today: date
    now: datetime
    events: list[Event]
    may_give: Callable[[UUID], bool]
    allocations: list[Allocation]  # that the reader sees, by first day
    names: dict[UUID, str]  # of their entries


def get_ending_soon(*, policy_slug: str, zone: ZoneInfo, days: int, actor: Actor, of: UUID | None = None) -> Upcoming:
    """What ends within so many days, and what has ended with nothing after it; of an entry: at and below it."""
    view = open_view(policy_slug=policy_slug, actor=actor)
    mask = view.visibility.mask
    if of is not None:
        mask = mask & view.tree.subtree_mask(view.require(of))
    allocations, today = allocations_of(view.policy), day_of(view.now, zone)
    return _upcoming(view, today, ending_soon(view.tree, mask, allocations, today, days), allocations)


def get_calendar(*, policy_slug: str, period: Period, zone: ZoneInfo, actor: Actor) -> Upcoming:
    """Everything that begins or ends within a period."""
    view = open_view(policy_slug=policy_slug, actor=actor)
    allocations = allocations_of(view.policy)
    events = events_in(view.tree, view.visibility.mask, allocations, period)
    return _upcoming(view, day_of(view.now, zone), events, allocations)


def _upcoming(view: PolicyView, today: date, events: list[Event], allocations: list[Allocation]) -> Upcoming:
    tree = view.tree
    may = givable(policy=view.policy, tree=tree, at=view.now, actor=view.actor)

    def may_give(uid: UUID) -> bool:
        i = tree.index_of_uid(uid)
        return i is not None and may(i)

    places = {uid: tree.index_of_uid(uid) for uid in {each.entry_uid for each in allocations}}
    names = {uid: tree.name[i] for uid, i in places.items() if i is not None and view.visibility.may_see(i)}
    shown = [each for each in allocations if each.entry_uid in names]
    return Upcoming(view.policy.slug, view.policy.name, today, view.now, events, may_give, shown, names)
