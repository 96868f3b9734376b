"""The table of allocations: allocated, sub-allocated, expected and delivered, by entry, in one unit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated, Literal
from uuid import UUID
from zoneinfo import ZoneInfo

from apps.accounts.actor import Actor
from apps.contrib.allocations.capacities import may_add_capacity
from apps.contrib.allocations.conversion import Step, list_conversion_steps
from apps.contrib.allocations.loaded import Loaded, open_allocations
from apps.contrib.allocations.periods import HOUR, Period
from apps.contrib.allocations.table_sums import TableSums, table_sums
from apps.contrib.allocations.units import of_unit, shown_unit
from apps.policies.models import Allocation, Capacity
from apps.policies.selectors import first_published_at
from apps.policies.tree.past_targets import past_targets
from apps.policies.tree.terms import Dates
from apps.policies.units import Unit
from apps.priorities.delivered_usage import Delivered, load_delivered
from apps.priorities.selectors.rows import EntryRow
from apps.priorities.selectors.tree import offset

PACE_TOLERANCE = 0.05
PAGE = 200
Pace = Literal["ahead", "behind", "on", "idle", "not_begun", "unknown"]
_SECONDS = HOUR.total_seconds()


@dataclass(frozen=True, slots=True)
class AllocationRow:
    """One entry in a period, in hours of the table's unit; None where a number is unknown or hidden from the reader.

    starts_on, ends_on: of its allocations, cut to the period. share_of_parent: fraction of the parent's allocation.
    sub_allocated: allocated to its children; unallocated: the rest of its own allocation; over_committed: the excess
    over it. due of the root: sum of its children's, if that is visible. Expected and delivered cover the days of its
    allocations; without one, the period since the entry joined the policy.
    """

    entry: UUID
    path: str
    kind: str
    starts_on: date | None
    ends_on: date | None
    allocated: float | None
    share_of_parent: float | None
    sub_allocated: float | None
    unallocated: float | None
    over_committed: float | None
    expected: Annotated[float | None, "Target of each day × capacity of the day since it joined, by now"]
    due: Annotated[float | None, "The allocation spread evenly over its days, by now"]
    delivered: Annotated[float | None, "Raw usage, by now"]
    remaining: Annotated[float | None, "Now, as on the board: 0 once its allocations of the period have ended"]
    pace: Pace
    suppressed: Annotated[bool, "The delivery is hidden: you see sums only here"]
    parent_uid: UUID | None
    name: str
    level: int  # 0 for a child of the table's group
    n_allocations: int
    beyond: tuple[float, date] | None  # allocations that continue outside the period: amount, last day
    target_global: float | None
    expected_whole: float | None  # to the end of the period
    pace_part: float | None  # delivered / due − 1
    has_sub_allocations: bool
    may_allocate: bool
    sees_all_children: bool  # false: its allocations can't be converted to shares

    @property
    def days(self) -> Period | None:
        return None if self.starts_on is None or self.ends_on is None else Period(self.starts_on, self.ends_on)


@dataclass(frozen=True, slots=True)
class OnAllocations:
    """Hours due and delivered of the topmost entries with allocations below a group, on the allocations' days."""

    due: float
    delivered: float
    pace: Pace
    pace_part: float | None


@dataclass(frozen=True)
class AllocationTable:
    """A group with its children, and entries below them that have an allocation. unit: what all amounts are in.

    units: all units of the policy; used: the symbols of those that an allocation or a capacity has.
    """

    policy_slug: str
    policy_name: str
    period: Period
    zone: ZoneInfo
    now: datetime
    unit: Unit
    units: tuple[Unit, ...]
    used: frozenset[str]
    group: AllocationRow
    above: list[tuple[UUID, str]]  # visible ancestors of the group, root first
    rows: list[AllocationRow]
    n_rows: int
    next_cursor: str | None
    is_over: list[AllocationRow]  # rows that sub-allocate more than they have, the group first
    capacity: float | None
    capacities: list[Capacity]
    uncovered: list[Period]  # days of the period for which no capacity is stated
    has_usage: bool
    on_allocations: OnAllocations | None
    unmapped: float | None  # None unless the reader sees the whole tree
    n_of_archived: int  # allocations to archived entries, for readers of the whole tree
    may_add_capacity: bool
    may_allocate_below: bool


def get_allocation_table(
    *,
    policy_slug: str,
    period: Period,
    zone: ZoneInfo,
    actor: Actor,
    of: UUID | None = None,
    cursor: str | None = None,
    limit: int | None = PAGE,
    unit: str = "",
) -> AllocationTable:
    """The allocation table of the root or of an entry in a unit, by its symbol; "": see `shown_unit`."""
    loaded = open_allocations(policy_slug=policy_slug, actor=actor)
    return _table(loaded, period=period, zone=zone, of=of, cursor=cursor, limit=limit, unit=unit)


def _table(
    loaded: Loaded, *, period: Period, zone: ZoneInfo, of: UUID | None, cursor: str | None, limit: int | None, unit: str
) -> AllocationTable:
    view, allocations, capacities, units = loaded.view, loaded.allocations, loaded.capacities, loaded.units
    group = view.require(view.tree.uuid(0) if of is None else of)
    chosen = shown_unit(units, unit, (*allocations, *capacities))
    sums = table_sums(view, period, zone, allocations, capacities, chosen)
    entries = list(listed_entries(sums, group))
    start = offset(cursor)
    shown = entries[start : None if limit is None else start + limit]
    topmost = list(_topmost_allocated(sums, group))
    wanted = sorted({group, *topmost, *(i for i, _ in shown)})
    uids = [view.tree.uuid(i) for i in wanted if i not in sums.days]
    sums.joined.update(first_published_at(policy=view.policy, uids=uids))
    if sums.capacity is not None:
        every = [view.tree.uuid(i) for i in wanted]
        sums.targets.update(past_targets(policy=view.policy, uids=every, zone=zone))
    used = load_delivered(policy=view.policy, tree=view.tree, entries=wanted, edges=sums.edges(wanted), unit=chosen)
    rows = [_row(sums, used, i, level) for i, level in shown]
    top = _row(sums, used, group, -1)
    sees_all = view.visibility.all_visible
    more = limit is not None and len(entries) > start + limit
    tree = view.tree
    return AllocationTable(
        policy_slug=view.policy.slug,
        policy_name=view.policy.name,
        period=period,
        zone=zone,
        now=view.now,
        unit=chosen,
        units=units,
        used=frozenset({row.unit for row in allocations} | {row.unit for row in capacities}),
        group=top,
        rows=rows,
        n_rows=len(entries),
        next_cursor=str(start + (limit or 0)) if more else None,
        above=[(tree.uuid(j), tree.name[j]) for j in tree.ancestors(group) if view.visibility.may_see(j)],
        is_over=[row for row in (top, *rows) if row.over_committed],
        capacity=sums.capacity,
        capacities=sums.capacities,
        uncovered=sums.uncovered,
        has_usage=used.has_any,
        on_allocations=_on_allocations(sums, used, group, topmost),
        unmapped=_unmapped(sums, used) if sees_all else None,
        n_of_archived=sums.n_of_archived if sees_all else 0,
        may_add_capacity=may_add_capacity(policy=view.policy, tree=view.tree, at=view.now, actor=view.actor),
        may_allocate_below=any(row.may_allocate for row in rows),
    )


def listed_entries(sums: TableSums, group: int) -> Iterator[tuple[int, int]]:
    """Entries (index, level) depth first: visible children of the group, and below them entries with allocations."""
    tree, mask, whole = sums.view.tree, sums.view.visibility.mask, sums.whole
    waiting = [(i, 0) for i in reversed(tree.children(group)) if mask[i]]
    while waiting:
        i, level = waiting.pop()
        yield i, level
        if whole.has_sub_allocations[i]:
            below = (j for j in reversed(tree.children(i)) if mask[j])
            waiting += [(j, level + 1) for j in below if whole.is_allocated[j]]


def _topmost_allocated(sums: TableSums, group: int) -> Iterator[int]:
    """The topmost entries below a group that have an allocation."""
    tree, whole = sums.view.tree, sums.whole
    waiting = list(tree.children(group))
    while waiting:
        i = waiting.pop()
        if i in sums.days:
            yield i
        elif whole.has_sub_allocations[i]:
            waiting += tree.children(i)


def _on_allocations(sums: TableSums, used: Delivered, group: int, topmost: Sequence[int]) -> OnAllocations | None:
    """Due and delivered; None without usage or allocations, or if the reader doesn't see all these entries by name."""
    sees = sums.view.visibility
    if not topmost or not used.has_any or not (sees.outright & sees.mask)[[group, *topmost]].all():
        return None
    due = sum(_known(sums.by_now.own[i]) or 0.0 for i in topmost)
    periods = [(i, each) for i in topmost for each in sums.counted_time(i).instants]
    delivered = sum(used.between(i, *each) for i, each in periods) / _SECONDS
    begun = any(each[0] < sums.view.now for _i, each in periods)
    return OnAllocations(due, delivered, *_pace(due, delivered, begun=begun))


def _unmapped(sums: TableSums, used: Delivered) -> float:
    begin, end = (min(at, sums.view.now) for at in sums.period.instants(sums.zone))
    return used.unmapped_between(begin, end) / _SECONDS


def _remaining(sums: TableSums, used: Delivered, i: int, own: float | None, delivered: float | None) -> float | None:
    """Of the root, which has no allocation, of the capacity."""
    if own is None or delivered is None:
        return None
    return sums.remaining(i, used) if i else own - delivered


def _row(sums: TableSums, used: Delivered, i: int, level: int) -> AllocationRow:
    view, whole = sums.view, sums.whole
    tree, parent = view.tree, int(view.tree.parent[i])
    hidden = sums.hides_allocations(i)
    own = _known(whole.own[i])
    due = _known(sums.by_now.own[i]) if i else None if hidden else float(sums.by_now.sub_allocated[0])
    kept, over = (None, None) if hidden else (_known(whole.kept[i]), _known(whole.over[i]))
    has_above = _known(whole.own[parent]) if parent >= 0 else None
    target = 1.0 if i == 0 else float(view.target[1][i]) if view.competes[i] else None
    counted = sums.counted_time(i)
    delivered = None
    expected, whole_expected = sums.expected(i)
    # Any period can be requested, so sums could reveal one person's usage: only entries visible in full are shown.
    suppressed = used.has_any and not view.visibility.outright[i]
    if used.has_any and not suppressed:
        delivered = sum(used.between(i, *each) for each in counted.instants) / _SECONDS
    # The root has no allocation: due is the sum of its children's, and delivered all usage.
    even = (due or expected) if i else expected
    pace, part = _pace(even, delivered, begun=counted.instants[0][0] < view.now)
    days = sums.days.get(i)
    return AllocationRow(
        entry=tree.uuid(i),
        parent_uid=tree.uuid(parent) if parent >= 0 else None,
        path=tree.path(i),
        name=tree.name[i],
        kind=tree.kind_names[int(tree.kind_code[i])],
        level=level,
        starts_on=min(days).starts_on if days else None,
        ends_on=max(each.ends_on for each in days) if days else None,
        n_allocations=len(days or ()),
        beyond=sums.beyond(i) if days else None,
        allocated=own,
        share_of_parent=own / has_above if own is not None and has_above else None,
        sub_allocated=None if hidden else float(whole.sub_allocated[i]),
        unallocated=kept,
        over_committed=over,
        target_global=target,
        expected=expected,
        expected_whole=whole_expected,
        due=due,
        delivered=delivered,
        remaining=_remaining(sums, used, i, own, delivered),
        pace=pace,
        pace_part=part,
        has_sub_allocations=bool(whole.has_sub_allocations[i]),
        may_allocate=sums.may_allocate(i),
        sees_all_children=all(view.visibility.may_see(child) for child in view.tree.children(i)),
        suppressed=suppressed,
    )


def _pace(due: float | None, delivered: float | None, *, begun: bool) -> tuple[Pace, float | None]:
    if not begun:
        return "not_begun", None
    if due is None or delivered is None or due <= 0:
        return "unknown", None
    if delivered <= 0:
        return "idle", -1.0
    part = delivered / due - 1
    if abs(part) <= PACE_TOLERANCE:
        return "on", part
    return ("ahead", part) if part > 0 else ("behind", part)


def _known(value: float) -> float | None:
    return float(value) if value == value else None


@dataclass(frozen=True)
class EntryAllocations:
    """Allocations of one entry. table: of the entry and its children. steps: from the capacity down to the entry."""

    loaded: Loaded
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


def get_entry_allocations(
    *, policy_slug: str, uid: UUID, period: Period, zone: ZoneInfo, actor: Actor, unit: str = ""
) -> EntryAllocations:
    """Allocations of a visible entry in a unit, by its symbol; "": see `shown_unit`."""
    loaded = open_allocations(policy_slug=policy_slug, actor=actor)
    view = loaded.view
    i = view.require(uid)
    entry = view.row(i)
    table = _table(loaded, period=period, zone=zone, of=uid, cursor=None, limit=PAGE, unit=unit)
    own = of_unit([each for each in loaded.allocations if each.entry_uid == uid], table.unit)
    capacity = table.capacity
    steps = list_conversion_steps(view.tree, i, capacity, view.target[0]) if capacity is not None and i else []
    return EntryAllocations(
        loaded, table, entry, view.revision, own, steps, view.tree.dates.get(i), may_change_dates=entry.may_change
    )
