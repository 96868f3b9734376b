"""Convert allocations to shares and back in verifiable steps, and create a draft that applies the conversion.

Shares are weights among siblings. So the whole is the sum of the allocations, not the machine's capacity:
fraction of the parent = own amount / amount of the parent, and shares = fraction × the siblings' current sum
(to six significant digits), so that the numbers keep their scale. Nothing changes before the draft is published, and
publishing checks all rights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import Annotated, Any, Literal
from uuid import UUID
from zoneinfo import ZoneInfo

from apps.accounts.actor import Actor
from apps.contrib.allocations.capacities import capacities_of, capacity_in
from apps.contrib.allocations.periods import Period, begins_at, day_of
from apps.contrib.allocations.services import allocations_of, period_of
from apps.contrib.allocations.summary import add_up, allocated_in
from apps.contrib.allocations.terms import VisibilityOf, invalid
from apps.contrib.allocations.units import of_unit, policy_units, shown_unit
from apps.core.errors import Invalid, NotAllowed
from apps.policies.access.scope import visible_entries
from apps.policies.changesets.change_sets import require_reason_to_publish
from apps.policies.models import Allocation, ChangeSet, Policy
from apps.policies.records import NewChangeSet
from apps.policies.selectors import get_policy
from apps.policies.services import make_change_set
from apps.policies.tree.columns import F8, TreeColumns
from apps.policies.tree.names import RESERVE
from apps.policies.tree.stored import load_tree
from apps.policies.tree.terms import AT_END, Dates
from apps.policies.units import CORE_HOUR, Unit

Basis = Literal["allocated", "rest", "none"]
RESTS = ("spread", "reserve")
_DIGITS = 6
_SAME = 1.5e-5
_USUAL_SUM = 100.0
_NEW = -1


@dataclass(frozen=True, slots=True)
class ConvertedLine:
    """One child's fraction of what the parent has, the reason, and the resulting shares.

    basis: allocated; rest (its part of what is unallocated); none (nothing allocated, nothing left).
    """

    entry: Annotated[UUID | None, "null: a reserve that has to be made"]
    name: str
    kind: str
    basis: Basis
    amount: float
    part: float  # fraction of `divided`, 0..1
    shares_before: float | None
    shares_after: float
    ends_on: date | None = None  # last day of its allocations

    @property
    def is_changed(self) -> bool:
        return self.shares_before != self.shares_after


@dataclass(frozen=True)
class Conversion:
    """The shares of a group's children from allocations. available: of the parent; None if unknown."""

    of: UUID
    parent_name: str
    available: float | None
    allocated: float
    unallocated: float
    # Allocated beyond available; targets are then fractions of the sum allocated.
    over_committed: float
    divided: float
    sum_of_shares: float
    rest: str
    lines: Sequence[ConvertedLine] = field(default_factory=tuple)
    unit: str = CORE_HOUR.symbol  # of the amounts

    @property
    def is_changed(self) -> bool:
        return any(line.is_changed for line in self.lines)


def convert(
    tree: TreeColumns,
    parent: int,
    allocated: Mapping[int, float],
    available: float | None,
    *,
    rest: str = "spread",
    last_days: Mapping[int, date] | None = None,
) -> Conversion:
    """Compute shares of an entry's children in proportion to their allocations.

    allocated: amounts by index, for some of the children. rest: what happens to what is unallocated.
    `reserve`: they go to the reserve, which is added if missing. `spread`: they go to the children without an
    allocation, in proportion to their current shares; if there are none, all allocations grow in proportion, and a
    reserve gets nothing.
    """
    if rest not in RESTS:
        raise invalid("rest", f"must be one of {', '.join(RESTS)}")
    children = list(tree.children(parent))
    inheriting = next((i for i in children if tree.inherit[i]), None)
    if inheriting is not None:
        raise Invalid(
            f"{tree.path(inheriting)} inherits its shares: its children compete one level up. Give it a number first.",
            code="inherits",
        )
    total = sum(allocated.values())
    if total <= 0:
        raise Invalid(
            "These entries have no allocation in this period: allocate something to them first.", code="no_allocation"
        )
    left = 0.0 if available is None else max(available - total, 0.0)
    of_rest = _parts_of_rest(tree, children, allocated, left, rest)
    divided = total + sum(of_rest.values())
    scale = float(tree.shares[list(children)].sum()) or _USUAL_SUM
    days = last_days or {}
    lines = [replace(_line(tree, i, allocated, of_rest, divided, scale), ends_on=days.get(i)) for i in children]
    if _NEW in of_rest:
        part = left / divided
        name = _free_name({tree.name[i] for i in children})
        lines.append(ConvertedLine(None, name, RESERVE, "rest", left, part, None, _rounded(part * scale)))
    over = 0.0 if available is None else max(total - available, 0.0)
    return Conversion(
        tree.uuid(parent), tree.name[parent], available, total, left, over, divided, scale, rest, tuple(lines)
    )


def operations_of(conversion: Conversion, *, at_end: str | float | None = None) -> list[dict[str, Any]]:
    """Return the operations of a change set: changed shares, and a missing reserve.

    at_end: also set the last day of each child's allocations as the end of its shares, and what happens then.
    """
    if at_end is not None and not (at_end in AT_END or isinstance(at_end, int | float)):
        raise invalid("at_end", f"must be one of {', '.join(AT_END)}, or a number of shares")
    operations: list[dict[str, Any]] = []
    for line in conversion.lines:
        if line.entry is None:
            parent = str(conversion.of)
            new = {"op": "add", "parent": parent, "name": line.name, "kind": RESERVE, "shares": line.shares_after}
            operations.append(new)
            continue
        if line.is_changed:
            operations.append({"op": "set_shares", "entry": str(line.entry), "shares": line.shares_after})
        if at_end is not None and line.ends_on is not None:
            dates = Dates(ends_on=line.ends_on, at_end=at_end)
            operations.append({"op": "set_dates", "entry": str(line.entry), "dates": dates.to_json()})
    return operations


@dataclass(frozen=True, slots=True)
class Step:
    """One level of the path from the root: the entry's shares, and those of all that it competes with."""

    uid: UUID
    name: str
    shares: float | None
    of_shares: float
    part: float
    amount: float  # of the capacity, at this level


def list_conversion_steps(tree: TreeColumns, i: int, capacity: float, target: F8) -> list[Step]:
    """Return the core-hours that an entry's shares amount to, level by level: capacity × target, without the root.

    target: of every entry among its competitors, as computed by the engine. Entries that inherit are skipped.
    """
    steps, left = [], capacity
    for j in [*tree.ancestors(i), i][1:]:
        if tree.inherit[j]:
            continue
        part = float(target[j])
        left *= part
        own = float(tree.shares[j])
        steps.append(Step(tree.uuid(j), tree.name[j], own, own / part if part else 0.0, part, left))
    return steps


def _parts_of_rest(
    tree: TreeColumns, children: Sequence[int], allocated: Mapping[int, float], left: float, rest: str
) -> dict[int, float]:
    """Return unallocated core-hours by child; those of a reserve to be added are under `_NEW`."""
    if left <= 0:
        return {}
    if rest == RESERVE:
        reserves = [i for i in children if tree.is_reserve[i]]
        return {i: left / len(reserves) for i in reserves} if reserves else {_NEW: left}
    without = {i: float(tree.shares[i]) for i in children if i not in allocated and not tree.is_reserve[i]}
    weight = sum(without.values())
    return {i: left * shares / weight for i, shares in without.items()} if weight > 0 else {}


def _line(
    tree: TreeColumns,
    i: int,
    allocated: Mapping[int, float],
    of_rest: Mapping[int, float],
    divided: float,
    scale: float,
) -> ConvertedLine:
    basis: Basis = "allocated" if i in allocated else "rest" if of_rest.get(i) else "none"
    amount = allocated[i] if i in allocated else of_rest.get(i, 0.0)
    part = amount / divided
    kind = tree.kind_names[int(tree.kind_code[i])]
    before, after = float(tree.shares[i]), _rounded(part * scale)
    # Equal to six significant digits: no change.
    if abs(before - after) <= _SAME * max(before, after):
        after = before
    return ConvertedLine(tree.uuid(i), tree.name[i], kind, basis, amount, part, before, after)


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _free_name(taken: set[str]) -> str:
    names = (RESERVE, *(f"{RESERVE} {n}" for n in range(2, len(taken) + 3)))
    return next(name for name in names if name not in taken)


@dataclass(frozen=True, kw_only=True)
class ConversionQuery:
    """The group and period of a conversion. zone: in which days are counted. rest: see `convert`. unit:
    of the allocations, by its symbol; "": see `shown_unit`."""

    parent_uid: UUID
    period: Period
    zone: ZoneInfo
    rest: str = "spread"
    unit: str = ""


def get_conversion(
    *,
    policy_slug: str,
    query: ConversionQuery,
    at: datetime,
    actor: Actor,
    visibility: VisibilityOf = visible_entries,
) -> Conversion:
    """Return the allocations of an entry's children in a period as shares; the actor must see all children."""
    policy = get_policy(slug=policy_slug, actor=actor)
    return _convert(policy, load_tree(policy), query, at, actor, visibility)


def draft_shares(
    *,
    policy_slug: str,
    query: ConversionQuery,
    at_end: str | float | None = None,
    reason: str,
    at: datetime,
    actor: Actor,
    visibility: VisibilityOf = visible_entries,
) -> ChangeSet:
    """Create a draft of these shares, with end dates if `at_end` is given; for a future period, effective on its first
    day."""
    policy = get_policy(slug=policy_slug, actor=actor)
    tree = load_tree(policy)
    conversion = _convert(policy, tree, query, at, actor, visibility)
    operations = operations_of(conversion, at_end=at_end)
    if not operations:
        raise Invalid("The shares already match the allocations: there is nothing to draft.", code="nothing_to_change")
    starts_on = query.period.starts_on
    later = starts_on > day_of(at, query.zone)
    return make_change_set(
        policy_slug=policy_slug,
        new=NewChangeSet(
            base_revision=tree.number,
            operations=operations,
            reason=require_reason_to_publish(reason),
            effective_at=begins_at(starts_on, query.zone) if later else None,
        ),
        at=at,
        actor=actor,
    )


def _in_unit(policy: Policy, query: ConversionQuery) -> tuple[Unit, list[Allocation], float | None]:
    """Return the unit, its allocations, and its capacity in the whole tree in the period; None if none is recorded."""
    allocations, capacities = allocations_of(policy), capacities_of(policy)
    unit = shown_unit(policy_units(policy), query.unit, (*allocations, *capacities))
    own = of_unit(capacities, unit)
    capacity = capacity_in(own, query.period, query.zone) if own else None
    return unit, of_unit(allocations, unit), capacity


def _convert(
    policy: Policy,
    tree: TreeColumns,
    query: ConversionQuery,
    at: datetime,
    actor: Actor,
    visibility: VisibilityOf,
) -> Conversion:
    visible = visibility(policy=policy, tree=tree, actor=actor, at=at)
    parent = visible.require(tree.index_of_uid(query.parent_uid))
    children = tree.children(parent)
    if not all(visible.may_see(i) for i in children):
        raise NotAllowed("You see only a part of this group, and shares are divided among all its groups and users.")
    unit, allocations, capacity = _in_unit(policy, query)
    sums = add_up(tree, allocated_in(allocations, query.period, query.zone), capacity)
    allocated = {i: float(sums.committed[i]) for i in children if sums.is_allocated[i]}
    own = float(sums.own[parent])
    has = own if own == own else None
    last_days = _last_days(tree, children, allocations, query.period)
    return replace(convert(tree, parent, allocated, has, rest=query.rest, last_days=last_days), unit=unit.symbol)


def _last_days(tree: TreeColumns, children: range, allocations: list[Allocation], period: Period) -> dict[int, date]:
    """Return the last day of each child's allocations that overlap the period."""
    last_days: dict[int, date] = {}
    for allocation in allocations:
        i = tree.index_of_uid(allocation.entry_uid)
        if i is not None and i in children and period_of(allocation).overlap(period) is not None:
            last_days[i] = max(last_days.get(i, allocation.ends_on), allocation.ends_on)
    return last_days
