"""The allocations of now in one unit: who runs out when, who won't use theirs, and what can still be allocated.

An entry has the allocations that are valid today, with what is left of them as `balance` defines it; without one, those
that ended last, within 60 days, or else the next that begin. Their amounts are whole, so nothing is cut to a year. Of
what has ended nothing is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property
from typing import Annotated
from uuid import UUID
from zoneinfo import ZoneInfo

from apps.accounts.actor import Actor
from apps.contrib.allocations.capacities import may_add_capacity
from apps.contrib.allocations.current import Current, current_of, hours_of
from apps.contrib.allocations.loaded import Loaded, open_allocations
from apps.contrib.allocations.outlook import STATES, Outlook, State, Use, outlook_of, recent_from
from apps.contrib.allocations.periods import HOUR, Period, day_of, whole_year
from apps.contrib.allocations.services import period_of
from apps.contrib.allocations.table_sums import TableSums, table_sums
from apps.contrib.allocations.units import of_unit, shown_unit
from apps.policies.access.scope import list_own_levels
from apps.policies.models import Allocation, Capacity
from apps.policies.requests.requested_shares import leads
from apps.policies.selectors import READ
from apps.policies.units import Unit
from apps.priorities.delivered_usage import Delivered, load_delivered
from apps.priorities.held_usage import Held, load_held
from apps.priorities.selectors.rows import PolicyView
from apps.priorities.selectors.tree import offset

MOST_BOARD_ROWS = 100
MOST_WITHOUT_NAMED = 60
_SECONDS = HOUR.total_seconds()


@dataclass(frozen=True, slots=True)
class BoardRow:
    """The current allocations of one entry, in hours of the unit; None where not known or hidden from the reader."""

    entry: UUID
    path: str
    kind: str
    starts_on: Annotated[date, "First day of those valid today; if none is, of the last that ended, or the next"]
    ends_on: Annotated[date, "Last day of these"]
    allocated: Annotated[float, "Their amounts together"]
    due: Annotated[float, "The allocation spread evenly over its days, by now"]
    used: Annotated[float | None, "Charged to them by now: what an ended one beside them paid for isn't"]
    held: Annotated[float | None, "What its running and waiting jobs may still use, not part of `used`"]
    jobs: Annotated[int | None, "Running and waiting jobs"]
    unlimited_jobs: Annotated[int | None, "Those without a requested time, which may use more than is held"]
    remaining: Annotated[float | None, "Allocated less used; below 0 if more was used; 0 after their end"]
    state: Annotated[State, "How it will end at the rate of the last 28 days"]
    at_end: Annotated[float | None, "Used at its end at this rate"]
    unused: Annotated[
        float | None, "Allocated, and begun before their end, less `at_end`; at least what ends earlier unused"
    ]
    runs_out_on: Annotated[date | None, "Day on which it is used up at this rate; null: not before its end"]
    renewed_on: Annotated[date | None, "First day of its next allocation"]
    sub_allocated: Annotated[float | None, "Allocated to its children on its days"]
    over_committed: Annotated[float | None, "Of that, more than it has itself"]
    suppressed: Annotated[bool, "Its use is hidden: you see sums only here"]
    n_allocations: int
    name: str
    level: int
    may_allocate: bool
    has_sub_allocations: bool

    @property
    def days(self) -> Period:
        return Period(self.starts_on, self.ends_on)

    @property
    def held_over(self) -> float:
        """What open jobs may use beyond what is left; 0 if they fit, or where one of both isn't known."""
        if self.remaining is None or self.held is None or self.state == "ended":
            return 0.0
        return max(self.held - max(self.remaining, 0.0), 0.0)


@dataclass(frozen=True, slots=True)
class ToGive:
    """What a group can still allocate: of its own allocation on its days, at most what is left of it, or of the
    capacity from today on."""

    amount: float
    of: float
    days: Period
    of_capacity: bool


@dataclass(frozen=True)
class AllocationBoard:
    """The group's own row first, then all entries below it, by what needs attention. n_of: number by state."""

    policy_slug: str
    policy_name: str
    now: datetime
    zone: ZoneInfo
    unit: Unit
    units: tuple[Unit, ...]
    in_use: frozenset[str]  # symbols that an allocation or a capacity has
    group_uid: UUID
    group_name: str
    above: list[tuple[UUID, str]]  # visible ancestors of the group, root first
    own: BoardRow | None
    rows: list[BoardRow]
    n_rows: int
    n_of: Mapping[State, int]
    without: list[tuple[UUID, str]]  # children of the group without a current allocation, the first by name
    n_without: int
    unused: float  # Σ unused of the topmost rows that won't use theirs
    next_cursor: str | None
    held: float | None  # by open jobs of the whole group, also of entries without an allocation
    jobs: int | None
    to_give: ToGive | None
    has_capacity: bool
    has_usage: bool
    unmapped: float | None  # used since the first day of a row; None unless the reader sees the whole tree
    may_add_capacity: bool
    may_allocate_below: bool
    may_ask: bool  # may request hours for the group


def get_allocation_board(
    *,
    policy_slug: str,
    zone: ZoneInfo,
    actor: Actor,
    of: UUID | None = None,
    unit: str = "",
    cursor: str | None = None,
    limit: int | None = MOST_BOARD_ROWS,
    scope: str = READ,
) -> AllocationBoard:
    """The board of an entry; without `of`, of the first group that the reader leads, else of the root.

    unit: its symbol; "": see `shown_unit`. scope: required of a token. Raises NotFound if the policy or entry is hidden
    from the reader.
    """
    loaded = open_allocations(policy_slug=policy_slug, actor=actor, scope=scope)
    return board_of(loaded, zone=zone, of=of, unit=unit, cursor=cursor, limit=limit)


def board_of(
    loaded: Loaded,
    *,
    zone: ZoneInfo,
    of: UUID | None = None,
    unit: str = "",
    cursor: str | None = None,
    limit: int | None = MOST_BOARD_ROWS,
) -> AllocationBoard:
    """As get_allocation_board, of what is loaded."""
    view, allocations, capacities, units = loaded.view, loaded.allocations, loaded.capacities, loaded.units
    group = own_group(view) if of is None else view.require(of)
    chosen = shown_unit(units, unit, (*allocations, *capacities))
    builder = _Builder(view, zone, chosen, of_unit(allocations, chosen), of_unit(capacities, chosen))
    return builder.board(group, allocations, capacities, units, offset(cursor), limit)


def rows_of(
    view: PolicyView,
    zone: ZoneInfo,
    unit: Unit,
    allocations: Sequence[Allocation],
    capacities: Sequence[Capacity],
    entries: Sequence[int],
) -> dict[int, BoardRow]:
    """Rows of those of these entries that have current allocations in the unit; the reader may see all of them."""
    builder = _Builder(view, zone, unit, of_unit(allocations, unit), of_unit(capacities, unit))
    shown = [i for i in entries if i in builder.current]
    return builder.rows(shown) if shown else {}


def own_group(view: PolicyView) -> int:
    """The first group whose children the reader divides, else the root."""
    levels = list_own_levels(policy=view.policy, tree=view.tree, actor=view.actor, at=view.now)
    visible = [i for i in levels if view.visibility.may_see(i)]
    return visible[0] if visible else view.require(view.tree.uuid(0))


@dataclass(frozen=True, eq=False)
class _Builder:
    view: PolicyView
    zone: ZoneInfo
    unit: Unit
    allocations: list[Allocation]
    capacities: list[Capacity]

    def board(
        self,
        group: int,
        allocations: Sequence[Allocation],
        capacities: Sequence[Capacity],
        units: tuple[Unit, ...],
        start: int,
        limit: int | None,
    ) -> AllocationBoard:
        view, tree = self.view, self.view.tree
        in_group = tree.subtree_mask(group) & view.visibility.mask
        shown = [i for i in self.current if in_group[i]]
        used = self._used(shown)
        held = load_held(policy=view.policy, tree=tree, entries=[group, *shown], at=view.now, unit=self.unit)
        rows = {i: self._row(i, used, held[i]) for i in shown}
        below = sorted((i for i in shown if i != group), key=lambda i: _order(rows[i]))
        page = below[start : None if limit is None else start + limit]
        more = limit is not None and len(below) > start + limit
        n_of = Counter(rows[i].state for i in below)
        topmost = [i for i in below if not any(j in rows and j != group for j in tree.ancestors(i))]
        may = self.sums(self._today_period).may_allocate
        own_uid = tree.uuid(group)
        without = self._without(group)
        return AllocationBoard(
            policy_slug=view.policy.slug,
            policy_name=view.policy.name,
            now=view.now,
            zone=self.zone,
            unit=self.unit,
            units=units,
            in_use=frozenset({row.unit for row in allocations} | {row.unit for row in capacities}),
            group_uid=own_uid,
            group_name=tree.name[group],
            above=[(tree.uuid(j), tree.name[j]) for j in tree.ancestors(group) if view.visibility.may_see(j)],
            own=rows.get(group),
            rows=[rows[i] for i in page],
            n_rows=len(below),
            n_of={state: n_of[state] for state in STATES if n_of[state]},
            without=[(tree.uuid(i), tree.name[i]) for i in without[:MOST_WITHOUT_NAMED]],
            n_without=len(without),
            unused=sum(rows[i].unused or 0.0 for i in topmost if rows[i].state == "unused"),
            next_cursor=str(start + (limit or 0)) if more else None,
            held=held[group].amount_s / _SECONDS if view.visibility.outright[group] else None,
            jobs=held[group].n_jobs if view.visibility.outright[group] else None,
            to_give=self._to_give(group, rows),
            has_capacity=bool(self.capacities),
            has_usage=used.has_any,
            unmapped=self._unmapped(used, shown) if view.visibility.all_visible else None,
            may_add_capacity=may_add_capacity(policy=view.policy, tree=tree, at=view.now, actor=view.actor),
            may_allocate_below=any(may(i) for i in tree.children(group)),
            may_ask=group > 0 and not may(group) and leads(view.policy, tree, own_uid, view.actor, view.now),
        )

    def _without(self, group: int) -> list[int]:
        """Visible children of a group that have no current allocation in the unit, by name; a reserve never has one."""
        tree, may_see = self.view.tree, self.view.visibility.may_see
        entries = (i for i in tree.children(group) if i not in self.current and may_see(i))
        return sorted((i for i in entries if not tree.is_reserve[i]), key=lambda i: tree.name[i].casefold())

    def rows(self, entries: Sequence[int]) -> dict[int, BoardRow]:
        used = self._used(entries)
        held = load_held(
            policy=self.view.policy, tree=self.view.tree, entries=entries, at=self.view.now, unit=self.unit
        )
        return {i: self._row(i, used, held[i]) for i in entries}

    @cached_property
    def today(self) -> date:
        return day_of(self.view.now, self.zone)

    @cached_property
    def current(self) -> dict[int, Current]:
        """By entry, also of hidden ones, without the root."""
        by_uid: dict[UUID, list[Allocation]] = {}
        for each in self.allocations:
            by_uid.setdefault(each.entry_uid, []).append(each)
        current = {}
        for uid, own in by_uid.items():
            i, run = self.view.tree.index_of_uid(uid), current_of(own, self.today)
            if i is not None and run is not None:
                current[i] = run
        return current

    @cached_property
    def _sums(self) -> dict[Period, TableSums]:
        return {}

    def sums(self, period: Period) -> TableSums:
        """Sums of all allocations on these days, once for each period."""
        if period not in self._sums:
            self._sums[period] = table_sums(self.view, period, self.zone, self.allocations, self.capacities, self.unit)
        return self._sums[period]

    @property
    def _today_period(self) -> Period:
        return Period(self.today, self.today)

    def _times(self, i: int) -> tuple[datetime, datetime, datetime]:
        """First instant, end, and since when the use of an entry counts for its rate."""
        begin, end = self.current[i].period.instants(self.zone)
        return begin, end, recent_from(begin, self.view.now)

    def _used(self, entries: Sequence[int]) -> Delivered:
        now = self.view.now
        edges = {
            now,
            *(min(at, now) for i in entries for at in (*self._times(i), *self.current[i].instants(self.zone))),
        }
        return load_delivered(
            policy=self.view.policy, tree=self.view.tree, entries=entries, edges=sorted(edges), unit=self.unit
        )

    def _unmapped(self, used: Delivered, entries: Sequence[int]) -> float | None:
        """Hours since the first day of a row."""
        since = min((self._times(i)[0] for i in entries), default=None)
        return None if since is None else used.unmapped_between(min(since, self.view.now), self.view.now) / _SECONDS

    def _row(self, i: int, used: Delivered, held: Held) -> BoardRow:
        view, tree, current = self.view, self.view.tree, self.current[i]
        now = view.now
        # Any period can be allocated, so sums could reveal one person's usage: see the table of a period.
        suppressed = used.has_any and not view.visibility.outright[i]
        begin, end, since = self._times(i)
        allocated, amount, recent = current.holding.amount, None, None
        parts: tuple[tuple[datetime, float], ...] = ()
        if used.has_any and not suppressed:
            hours = hours_of(used, i, self.zone, now)
            amount, parts = current.used(hours, self.today), current.parts(hours, self.zone, self.today)
            recent = used.between(i, since, min(end, now)) / _SECONDS if since < min(end, now) else 0.0
        use = Use(begin, end, allocated, amount, recent, since, current.added(self.zone), parts)
        outlook: Outlook = outlook_of(use, now)
        has_below = bool(self.sums(self._all_days).whole.has_sub_allocations[i])
        out = over = None
        if has_below:
            sums = self.sums(current.period)
            if not sums.hides_allocations(i):
                out, over = float(sums.whole.sub_allocated[i]), float(sums.whole.over[i])
        return BoardRow(
            entry=tree.uuid(i),
            path=tree.path(i),
            kind=tree.kind_names[int(tree.kind_code[i])],
            starts_on=current.period.starts_on,
            ends_on=current.period.ends_on,
            allocated=allocated,
            due=current.due(self.zone, now),
            used=amount,
            held=None if suppressed else held.amount_s / _SECONDS,
            jobs=None if suppressed else held.n_jobs,
            unlimited_jobs=None if suppressed else held.n_unlimited,
            remaining=None if amount is None else current.remaining(amount, self.today),
            state=outlook.state,
            at_end=outlook.at_end,
            unused=outlook.unused,
            runs_out_on=None if outlook.runs_out_at is None else day_of(outlook.runs_out_at, self.zone),
            renewed_on=current.renewed_on,
            sub_allocated=out,
            over_committed=over or None,
            suppressed=suppressed,
            n_allocations=len(current.allocations),
            name=tree.name[i],
            level=int(tree.level[i]),
            may_allocate=self.sums(self._today_period).may_allocate(i),
            has_sub_allocations=has_below,
        )

    @cached_property
    def _all_days(self) -> Period:
        periods = [period_of(each) for each in self.allocations]
        return Period(min(each.starts_on for each in periods), max(each.ends_on for each in periods))

    def _to_give(self, group: int, rows: Mapping[int, BoardRow]) -> ToGive | None:
        own = rows.get(group)
        is_own = group > 0 and own is not None and own.ends_on >= self.today
        if is_own and own is not None:
            # Neither the group nor those below it can use what has ended, and no more is there than what is left.
            days, ahead = own.days, [each for each in self.allocations if each.ends_on >= self.today]
            sums = table_sums(self.view, days, self.zone, ahead, self.capacities, self.unit)
            whole, kept = float(sums.whole.own[group]), float(sums.whole.kept[group])
            if own.remaining is not None:
                kept = min(kept, max(whole - own.allocated + own.remaining, 0.0))
        elif group == 0 and self.capacities:
            ends = [row.ends_on for row in rows.values() if row.ends_on >= self.today]
            days = Period(self.today, max(ends, default=whole_year(self.today).ends_on))
            sums = self.sums(days)
            whole, kept = sums.capacity or 0.0, float(sums.whole.kept[group])
        else:
            return None
        if sums.hides_allocations(group):
            return None
        return ToGive(kept, whole, days, of_capacity=group == 0)


def _order(row: BoardRow) -> tuple[int, date, float, str]:
    """By state; then the day on which it runs out or ends, then the largest unused amount."""
    day = row.runs_out_on or row.ends_on
    unused = -(row.unused or 0.0)
    return (STATES.index(row.state), date.min if row.state == "unused" else day, unused, row.path)
