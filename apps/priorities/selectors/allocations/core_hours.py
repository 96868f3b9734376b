"""The core-hours of one entry: what it is promised, what its shares come to, and until when it has them."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID
from zoneinfo import ZoneInfo

from apps.accounts.actor import Actor
from apps.policies.allocations.conversion import Step, walk_down
from apps.policies.allocations.periods import Period
from apps.policies.allocations.services import allocations_of
from apps.policies.models import Allocation
from apps.policies.tree.terms import Dates
from apps.priorities.selectors.allocations.promises import AllocationRow, AllocationTable, get_allocation_table
from apps.priorities.selectors.rows import EntryRow, open_view


@dataclass(frozen=True)
class EntryCoreHours:
    """table: of the entry's own group. allocations: all that stand, whenever. steps: from the capacity down to it."""

    table: AllocationTable
    entry: EntryRow
    revision: int
    allocations: list[Allocation]
    steps: list[Step]
    dates: Dates | None
    may_change_dates: bool

    @property
    def row(self) -> AllocationRow:
        return self.table.group


def get_entry_core_hours(
    *, policy_slug: str, uid: UUID, period: Period, zone: ZoneInfo, actor: Actor
) -> EntryCoreHours:
    """For who sees the entry."""
    view = open_view(policy_slug=policy_slug, actor=actor)
    i = view.require(uid)
    entry = view.row(i)
    table = get_allocation_table(policy_slug=policy_slug, period=period, zone=zone, actor=actor, of=uid)
    own = [each for each in allocations_of(view.policy) if each.entry_uid == uid]
    capacity = table.capacity_core_h
    steps = walk_down(view.tree, i, capacity, view.target[0]) if capacity is not None and i else []
    return EntryCoreHours(
        table, entry, view.revision, own, steps, view.tree.dates.get(i), may_change_dates=entry.may_change
    )  # fmt: skip
