"""Allocations against capacity: core-hours allocated, sub-allocated, reserved, expected and delivered, by entry."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from functools import cached_property
from typing import Annotated, Literal
from uuid import UUID
from zoneinfo import ZoneInfo

from apps.accounts.actor import Actor
from apps.policies.allocations.capacities import capacities_of, core_hours, may_state
from apps.policies.allocations.capacities import period_of as capacity_period
from apps.policies.allocations.conversion import Step, walk_down
from apps.policies.allocations.records import HOUR, Period, uncovered
from apps.policies.allocations.services import allocations_of, givable, period_of
from apps.policies.allocations.summary import AllocationSums, add_up, allocated_in
from apps.policies.models import Allocation, Capacity
from apps.policies.selectors import first_published_at
from apps.policies.tree.terms import Dates
from apps.priorities.delivered_usage import Delivered, load_delivered
from apps.priorities.selectors.rows import EntryRow, PolicyView, open_view
from apps.priorities.selectors.tree import offset

PACE_TOLERANCE = 0.05
PAGE = 200
Pace = Literal["ahead", "behind", "on", "idle", "not_begun", "unknown"]
_SECONDS = HOUR.total_seconds()


@dataclass(frozen=True, slots=True)
class AllocationRow:
    """One entry in a period, in core-hours; None where a number is unknown or hidden from the reader.

    starts_on, ends_on: of its allocations, as far as they overlap the period. share_of_parent: its part of the
    parent's allocation. sub_allocated: to its children; kept: the rest of its own; over_committed: sub-allocated beyond
    its own. due of the root: of its children's allocations, where their sum is visible, too. Expected and delivered are
    of the days of its allocation; where it has none, of the period, from the instant on at which it joined the policy.
    """

    entry: UUID
    path: str
    kind: str
    starts_on: date | None
    ends_on: date | None
    allocated_core_h: float | None
    share_of_parent: float | None
    sub_allocated_core_h: float | None
    kept_core_h: float | None
    over_committed_core_h: float | None
    expected_core_h: Annotated[float | None, "Target × capacity × time since it joined, by now"]
    due_core_h: Annotated[float | None, "The allocation spread evenly over its days, by now"]
    delivered_core_h: Annotated[float | None, "Raw usage, by now"]
    remaining_core_h: float | None
    pace: Pace
    suppressed: Annotated[bool, "The delivery is hidden: you see sums only here"]
    parent_uid: UUID | None
    name: str
    level: int  # 0 for a child of the group that the table is about
    n_allocations: int
    beyond: tuple[float, date] | None  # of allocations that go on outside the period: all core-hours, and the last day
    target_global: float | None
    expected_whole_core_h: float | None  # to the end of the period
    pace_part: float | None  # delivered / due − 1
    hands_out: bool
    may_give: bool
    sees_all_children: bool  # without it allocations aren't converted to shares

    @property
    def days(self) -> Period | None:
        return None if self.starts_on is None or self.ends_on is None else Period(self.starts_on, self.ends_on)


@dataclass(frozen=True, slots=True)
class OnAllocations:
    """Like with like: what is due by now of all allocations below a group, and what those entries were delivered.

    Of the topmost entries below it that have an allocation, on the days of these.
    """

    due_core_h: float
    delivered_core_h: float
    pace: Pace
    pace_part: float | None


@dataclass(frozen=True)
class AllocationTable:
    """Rows of a group, its children, and entries below them that have an allocation."""

    policy_slug: str
    policy_name: str
    period: Period
    zone: ZoneInfo
    now: datetime
    group: AllocationRow
    above: list[tuple[UUID, str]]  # entries on the way to the group, the root first
    rows: list[AllocationRow]
    n_rows: int
    next_cursor: str | None
    is_over: list[AllocationRow]  # entries shown here that sub-allocate more than they have, the group first
    capacity_core_h: float | None
    capacities: list[Capacity]
    uncovered: list[Period]  # days of the period for which no capacity is stated
    has_usage: bool
    on_allocations: OnAllocations | None
    unmapped_core_h: float | None  # for who sees everything
    n_of_archived: int  # allocations to archived entries, for readers of the whole tree
    may_state_capacity: bool
    may_give_below: bool


def get_allocation_table(
    *,
    policy_slug: str,
    period: Period,
    zone: ZoneInfo,
    actor: Actor,
    of: UUID | None = None,
    cursor: str | None = None,
    limit: int | None = PAGE,
) -> AllocationTable:
    """Of the root's group, or of an entry's: computed from one tree, the allocations, and the buckets."""
    view = open_view(policy_slug=policy_slug, actor=actor)
    group = view.require(view.tree.uuid(0) if of is None else of)
    sums = TableSums(view, period, zone, allocations_of(view.policy), capacities_of(view.policy))
    entries = list(listed_entries(sums, group))
    start = offset(cursor)
    shown = entries[start : None if limit is None else start + limit]
    topmost = list(_topmost_allocated(sums, group))
    wanted = sorted({group, *topmost, *(i for i, _ in shown)})
    uids = [view.tree.uuid(i) for i in wanted if i not in sums.days]
    sums.joined.update(first_published_at(policy=view.policy, uids=uids))
    used = load_delivered(policy=view.policy, tree=view.tree, entries=wanted, edges=sums.edges(wanted))
    rows = [_row(sums, used, i, level) for i, level in shown]
    top = _row(sums, used, group, -1)
    sees_all = view.visibility.all_visible
    more = limit is not None and len(entries) > start + limit
    return AllocationTable(
        policy_slug=view.policy.slug,
        policy_name=view.policy.name,
        period=period,
        zone=zone,
        now=view.now,
        group=top,
        rows=rows,
        n_rows=len(entries),
        next_cursor=str(start + (limit or 0)) if more else None,
        above=_above(view, group),
        is_over=[row for row in (top, *rows) if row.over_committed_core_h],
        capacity_core_h=sums.capacity_core_h,
        capacities=sums.capacities,
        uncovered=sums.uncovered,
        has_usage=used.has_any,
        on_allocations=_on_allocations(sums, used, group, topmost),
        unmapped_core_h=float(used.unmapped.sum()) / _SECONDS if sees_all else None,
        n_of_archived=sums.n_of_archived if sees_all else 0,
        may_state_capacity=may_state(policy=view.policy, tree=view.tree, at=view.now, actor=actor),
        may_give_below=any(row.may_give for row in rows),
    )


def _above(view: PolicyView, group: int) -> list[tuple[UUID, str]]:
    tree = view.tree
    return [(tree.uuid(j), tree.name[j]) for j in tree.ancestors(group) if view.visibility.may_see(j)]


@dataclass(frozen=True, slots=True)
class _Told:
    """The stretches of time that numbers are shown for, and the capacity in them."""

    instants: tuple[tuple[datetime, datetime], ...]
    capacity_core_h: float | None
    capacity_by_now_core_h: float


@dataclass(frozen=True, eq=False)
class TableSums:
    """The allocations of a period over a tree, to its end and up to now."""

    view: PolicyView
    period: Period
    zone: ZoneInfo
    allocations: list[Allocation]
    capacities: list[Capacity]
    joined: dict[UUID, datetime] = field(default_factory=dict)  # of entries that joined after the first revision

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
        promised = allocated_in(self.allocations, self.period, self.zone)
        return add_up(self.view.tree, promised, self.capacity_core_h)

    @cached_property
    def by_now(self) -> AllocationSums:
        promised = allocated_in(self.allocations, self.period, self.zone, until=self.view.now)
        return add_up(self.view.tree, promised, None)

    @cached_property
    def days(self) -> dict[int, list[Period]]:
        """The days in this period on which an entry has an allocation, one stretch each."""
        found: dict[int, list[Period]] = {}
        for allocation in self.allocations:
            i = self.view.tree.index_of_uid(allocation.entry_uid)
            shared = period_of(allocation).overlap(self.period)
            if i is not None and shared is not None:
                found.setdefault(i, []).append(shared)
        return found

    def beyond(self, i: int) -> tuple[float, date] | None:
        uid = self.view.tree.uuid(i)
        found = [each for each in self.allocations if each.entry_uid == uid and period_of(each).overlap(self.period)]
        if all(period_of(each).overlap(self.period) == period_of(each) for each in found):
            return None
        return sum(each.core_h for each in found), max(each.ends_on for each in found)

    @cached_property
    def may_give(self) -> Callable[[int], bool]:
        return givable(policy=self.view.policy, tree=self.view.tree, at=self.view.now, actor=self.view.actor)

    @property
    def n_of_archived(self) -> int:
        tree = self.view.tree
        return sum(
            tree.index_of_uid(each.entry_uid) is None
            for each in self.allocations
            if period_of(each).overlap(self.period) is not None
        )

    def stretches(self, i: int) -> list[Period]:
        """The days of its delivered and expected amounts: without gaps, none twice."""
        merged: list[Period] = []
        for period in sorted(self.days.get(i, [self.period])):
            if merged and (period.starts_on - merged[-1].ends_on).days <= 1:
                last = merged.pop()
                period = Period(last.starts_on, max(last.ends_on, period.ends_on))
            merged.append(period)
        return merged

    def edges(self, entries: Sequence[int]) -> list[datetime]:
        """Where the stretches of these entries begin and end, nothing beyond now; the period's own for all of them."""
        stretches = {self.period.instants(self.zone), *(each for i in entries for each in self.told_for(i).instants)}
        return sorted({min(edge, self.view.now) for each in stretches for edge in each})

    def told_for(self, i: int) -> _Told:
        """The period of an entry's numbers; one for all entries without an allocation that joined together."""
        since = None if i in self.days else self.joined.get(self.view.tree.uuid(i))
        stretches = self._usual if i not in self.days else tuple(self.stretches(i))
        key = (since, *stretches)
        found = self._told.get(key)
        if found is None:
            capacity = by_now = None
            if self.capacity_core_h is not None:
                before = [min(since or self.view.now, end) for _start, end in self._instants(stretches)]
                missed = [self.capacity_in(each, until=at) for each, at in zip(stretches, before, strict=True)]
                less = sum(missed) if since is not None else 0.0
                capacity = sum(self.capacity_in(each) for each in stretches) - less
                by_now = sum(self.capacity_in(each, until=self.view.now) for each in stretches) - less
            instants = tuple((max(start, since or start), end) for start, end in self._instants(stretches))
            found = self._told[key] = _Told(instants, capacity, max(by_now or 0.0, 0.0))
        return found

    def _instants(self, stretches: Sequence[Period]) -> list[tuple[datetime, datetime]]:
        return [each.instants(self.zone) for each in stretches]

    @cached_property
    def _told(self) -> dict[tuple[datetime | Period | None, ...], _Told]:
        return {}

    @cached_property
    def _usual(self) -> tuple[Period, ...]:
        return (self.period,)

    def hides_allocations(self, i: int) -> bool:
        """Whether children hidden from the reader have allocations: sums would reveal them."""
        children = self.view.tree.children(i)
        group = slice(children.start, children.stop)
        return bool((self.whole.is_allocated[group] & ~self.view.visibility.mask[group]).any())


def listed_entries(sums: TableSums, group: int) -> Iterator[tuple[int, int]]:
    """(entry, level) depth first: each visible child of the group, below them only entries with an allocation."""
    tree, mask, whole = sums.view.tree, sums.view.visibility.mask, sums.whole
    waiting = [(i, 0) for i in reversed(tree.children(group)) if mask[i]]
    while waiting:
        i, level = waiting.pop()
        yield i, level
        if whole.hands_out[i]:
            below = (j for j in reversed(tree.children(i)) if mask[j])
            waiting += [(j, level + 1) for j in below if whole.is_allocated[j]]


def _topmost_allocated(sums: TableSums, group: int) -> Iterator[int]:
    """Entries below a group with an allocation of their own, none of them below another."""
    tree, whole = sums.view.tree, sums.whole
    waiting = list(tree.children(group))
    while waiting:
        i = waiting.pop()
        if i in sums.days:
            yield i
        elif whole.hands_out[i]:
            waiting += tree.children(i)


def _on_allocations(sums: TableSums, used: Delivered, group: int, topmost: Sequence[int]) -> OnAllocations | None:
    """None without usage or allocations, and for a reader who doesn't see all of these entries by name."""
    sees = sums.view.visibility
    if not topmost or not used.has_any or not (sees.outright & sees.mask)[[group, *topmost]].all():
        return None
    due = sum(_known(sums.by_now.own[i]) or 0.0 for i in topmost)
    told = [(i, each) for i in topmost for each in sums.told_for(i).instants]
    delivered = sum(used.between(i, *each) for i, each in told) / _SECONDS
    begun = any(each[0] < sums.view.now for _i, each in told)
    return OnAllocations(due, delivered, *_pace(due, delivered, begun=begun))


def _row(sums: TableSums, used: Delivered, i: int, level: int) -> AllocationRow:
    view, whole = sums.view, sums.whole
    tree, parent = view.tree, int(view.tree.parent[i])
    hidden = sums.hides_allocations(i)
    own = _known(whole.own[i])
    due = _known(sums.by_now.own[i]) if i else None if hidden else float(sums.by_now.sub_allocated[0])
    kept, over = (None, None) if hidden else (_known(whole.kept[i]), _known(whole.over[i]))
    has_above = _known(whole.own[parent]) if parent >= 0 else None
    target = 1.0 if i == 0 else float(view.target[1][i]) if view.competes[i] else None
    told = sums.told_for(i)
    expected = whole_expected = delivered = None
    if target is not None and told.capacity_core_h is not None:
        expected, whole_expected = target * told.capacity_by_now_core_h, target * told.capacity_core_h
    # Any days can be requested, so sums would reveal one person's usage: shown in full, or not at all.
    suppressed = used.has_any and not view.visibility.outright[i]
    if used.has_any and not suppressed:
        delivered = sum(used.between(i, *each) for each in told.instants) / _SECONDS
    # The root has no allocation: due is the sum of its children's, and delivered all usage.
    even = (due or expected) if i else expected
    pace, part = _pace(even, delivered, begun=told.instants[0][0] < view.now)
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
        allocated_core_h=own,
        share_of_parent=own / has_above if own is not None and has_above else None,
        sub_allocated_core_h=None if hidden else float(whole.sub_allocated[i]),
        kept_core_h=kept,
        over_committed_core_h=over,
        target_global=target,
        expected_core_h=expected,
        expected_whole_core_h=whole_expected,
        due_core_h=due,
        delivered_core_h=delivered,
        remaining_core_h=None if own is None or delivered is None else own - delivered,
        pace=pace,
        pace_part=part,
        hands_out=bool(whole.hands_out[i]),
        may_give=sums.may_give(i),
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
class EntryCoreHours:
    """table: of the entry's own group. allocations: all published ones. steps: from the capacity down to it."""

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
    )
