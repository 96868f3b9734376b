"""Core-hours delivered by week, and allocations that start or end soon.

Amounts of freely chosen periods are shown only for entries that the reader sees by name, as in the table of
allocations: sums over any period could reveal one person's usage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import pairwise
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
from django.conf import settings as site_settings
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from apps.accounts.actor import Actor
from apps.contrib.allocations.capacities import capacities_of
from apps.contrib.allocations.core_hour_weeks import AllocationLeft, CoreHourWeeks, WeekAmounts
from apps.contrib.allocations.periods import HOUR, Period, begins_at, day_of
from apps.contrib.allocations.services import allocation_permission, allocations_of
from apps.contrib.allocations.summary import Event, ending_soon, events_in
from apps.contrib.allocations.table import listed_entries
from apps.contrib.allocations.table_sums import TableSums
from apps.core.errors import FieldProblem, Invalid
from apps.policies.models import Allocation
from apps.priorities.delivered_usage import DeliveredBySite, load_delivered_by_site
from apps.priorities.selectors.rows import PolicyView, open_view
from apps.usage.models import Source

LONGEST_DAYS = 5 * 366
MOST_SERIES = 8
_SECONDS = HOUR.total_seconds()
_TRACE_CORE_H = 1e-6  # a smaller rest is rounding error

F8 = npt.NDArray[np.float64]


def get_core_hour_weeks(
    *, policy_slug: str, period: Period, zone: ZoneInfo, actor: Actor, of: UUID | None = None
) -> CoreHourWeeks:
    """Core-hours of the root or of an entry, by week, child and site.

    Raises:
        Invalid: the period is longer than five years.
        NotFound: the policy or entry doesn't exist, or is hidden from the actor.
    """
    view = open_view(policy_slug=policy_slug, actor=actor)
    group = view.require(view.tree.uuid(0) if of is None else of)
    if period.n_days > LONGEST_DAYS:
        message = _("The period is longer than 5 years. Choose a shorter one.")
        raise Invalid(message, fields=[FieldProblem("from", message)])
    sums = TableSums(view, period, zone, allocations_of(view.policy), capacities_of(view.policy))
    by_name = view.visibility.outright & view.visibility.mask
    visible = view.visible_children(group)
    children = [i for i in visible if by_name[i]]
    allocated = _allocated(sums, group, by_name)
    weeks = _weeks(period, zone, view.now)
    whole = [group] if by_name[group] else children
    used = load_delivered_by_site(
        policy=view.policy,
        tree=view.tree,
        entries=[*whole, *children, *allocated],
        whole=whole,
        edges=[*weeks, *(edge for edge in sums.edges(allocated) if edge <= view.now)],
    )
    entries, rest = _by_entry(view, used, weeks, group, children or whole, knows_group=bool(by_name[group]))
    left = [_left(sums, used, weeks, i) for i in allocated[:MOST_SERIES]]
    return CoreHourWeeks(
        policy_slug=view.policy.slug,
        name=view.tree.name[group],
        period=period,
        zone=zone,
        now=view.now,
        edges=tuple(weeks),
        entries=entries,
        rest=rest,
        sites=_by_site(used, weeks),
        n_hidden=len(visible) - len(children),
        allocations_left=tuple(left),
        n_allocations=len(allocated),
    )


def _weeks(period: Period, zone: ZoneInfo, now: datetime) -> list[datetime]:
    """Start of the period, each Monday in it, and its end or now; empty if it hasn't started."""
    begin, end = period.instants(zone)
    end = min(end, now)
    if end <= begin:
        return []
    day = period.starts_on + timedelta(days=7 - period.starts_on.weekday())
    starts = [begin]
    while (monday := begins_at(day, zone)) < end:
        starts.append(monday)
        day += timedelta(days=7)
    return [*starts, end]


def _allocated(sums: TableSums, group: int, by_name: npt.NDArray[np.bool_]) -> list[int]:
    """Entries (the group included) with an allocation that has started, largest first."""
    begun = [
        i
        for i in [group, *(i for i, _level in listed_entries(sums, group))]
        if i in sums.days
        and by_name[i]
        and sums.counted_time(i).instants[0][0] < sums.view.now
        and sums.whole.own[i] > 0
    ]
    return sorted(begun, key=lambda i: -float(sums.whole.own[i]))


def _in_weeks(used: DeliveredBySite, columns: F8, weeks: Sequence[datetime]) -> F8:
    """Sum periods (periods, …) into weeks (weeks, …), in core-hours."""
    index = {edge: at for at, edge in enumerate(used.edges)}
    cuts = [index[edge] for edge in weeks]
    parts = [columns[a:b].sum(axis=0) for a, b in pairwise(cuts)]
    return np.array(parts).reshape(len(parts), *columns.shape[1:]) / _SECONDS


def _by_entry(
    view: PolicyView,
    used: DeliveredBySite,
    weeks: Sequence[datetime],
    group: int,
    entries: Sequence[int],
    *,
    knows_group: bool,
) -> tuple[tuple[WeekAmounts, ...], WeekAmounts | None]:
    """The largest entries, in sibling order, and the rest as one series; None without a rest."""
    if not entries or not weeks:
        return (), None
    table = _in_weeks(used, used.below[:, [used.column_of[i] for i in entries]], weeks)
    totals = table.sum(axis=0)
    kept = [at for at in np.argsort(-totals, kind="stable").tolist() if totals[at] > 0]
    n_other = max(len(kept) - (MOST_SERIES - 1), 0) if len(kept) > MOST_SERIES else 0
    largest = sorted(kept[: MOST_SERIES - 1] if n_other else kept)
    siblings = {i: at for at, i in enumerate(view.visible_children(group))}
    series = tuple(
        WeekAmounts(
            str(view.tree.uuid(entries[at])),
            view.tree.name[entries[at]],
            siblings.get(entries[at], 0),
            _floats(table[:, at]),
        )
        for at in largest
    )
    whole = _in_weeks(used, used.by_site.sum(axis=1), weeks) if knows_group else table.sum(axis=1)
    others = np.maximum(whole - table[:, largest].sum(axis=1), 0.0)
    others[others < _TRACE_CORE_H] = 0.0
    if not others.any():
        return series, None
    is_others = n_other and not knows_group
    if is_others:
        name = ngettext("%(n)s other", "%(n)s others", n_other) % {"n": n_other}
    else:
        name = _("all other usage of %(name)s") % {"name": view.tree.name[group]}
    return series, WeekAmounts("rest", name, MOST_SERIES, _floats(others))


def _by_site(used: DeliveredBySite, weeks: Sequence[datetime]) -> tuple[WeekAmounts, ...]:
    """Sites that delivered usage, this site first; at most eight series, the last one for the smallest sites."""
    if not weeks:
        return ()
    named = dict(Source.objects.exclude(origin="").exclude(site="").values_list("origin", "site"))
    here = str(site_settings.FAIRSHARE_SITE) or _("This site")
    table = _in_weeks(used, used.by_site, weeks)
    series = [
        WeekAmounts(origin or "here", named.get(origin, origin) if origin else here, at, _floats(table[:, at]))
        for at, origin in enumerate(used.origins)
        if table[:, at].any()
    ]
    if len(series) <= MOST_SERIES:
        return tuple(series)
    ordered = sorted(series, key=lambda site: -site.total_core_h)
    kept, others = ordered[: MOST_SERIES - 1], ordered[MOST_SERIES - 1 :]
    together = tuple(sum(column) for column in zip(*(site.core_h for site in others), strict=True))
    name = ngettext("%(n)s other", "%(n)s others", len(others)) % {"n": len(others)}
    rest = WeekAmounts("rest", name, MOST_SERIES, together)
    return (*sorted(kept, key=lambda site: site.place), rest)


def _left(sums: TableSums, used: DeliveredBySite, weeks: Sequence[datetime], i: int) -> AllocationLeft:
    periods = sums.counted_time(i).instants
    first, last = periods[0][0], min(periods[-1][1], sums.view.now)
    at = sorted({first, last, *(edge for edge in weeks if first <= edge <= last)})
    allocated, days, tree = float(sums.whole.own[i]), sums.days[i], sums.view.tree
    siblings = sums.view.visible_children(int(tree.parent[i])) if i else [i]
    delivered = [
        sum(used.between(i, begin, min(end, until)) for begin, end in periods if begin < until) / _SECONDS
        for until in at
    ]
    return AllocationLeft(
        uid=tree.uuid(i),
        name=tree.name[i],
        place=(int(tree.level[i]), siblings.index(i)),
        days=Period(min(days).starts_on, max(each.ends_on for each in days)),
        allocated_core_h=allocated,
        due_core_h=float(sums.by_now.own[i]),
        at=tuple(at),
        left_core_h=tuple(allocated - core_h for core_h in delivered),
    )


def _floats(values: Iterable[float]) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


@dataclass(frozen=True)
class Upcoming:
    """Starts and ends of allocations and shares by day. may_allocate: whether the reader may allocate to an entry."""

    policy_slug: str
    policy_name: str
    today: date
    now: datetime
    events: list[Event]
    may_allocate: Callable[[UUID], bool]
    allocations: list[Allocation]  # visible to the reader, by first day
    names: dict[UUID, str]  # of their entries


def get_ending_soon(*, policy_slug: str, zone: ZoneInfo, days: int, actor: Actor, of: UUID | None = None) -> Upcoming:
    """What ends within some days or has ended without a successor; of an entry: at and below it."""
    view = open_view(policy_slug=policy_slug, actor=actor)
    mask = view.visibility.mask
    if of is not None:
        mask = mask & view.tree.subtree_mask(view.require(of))
    allocations, today = allocations_of(view.policy), day_of(view.now, zone)
    return _upcoming(view, today, ending_soon(view.tree, mask, allocations, today, days), allocations)


def get_calendar(*, policy_slug: str, period: Period, zone: ZoneInfo, actor: Actor) -> Upcoming:
    """Everything that starts or ends within a period."""
    view = open_view(policy_slug=policy_slug, actor=actor)
    allocations = allocations_of(view.policy)
    events = events_in(view.tree, view.visibility.mask, allocations, period)
    return _upcoming(view, day_of(view.now, zone), events, allocations)


def _upcoming(view: PolicyView, today: date, events: list[Event], allocations: list[Allocation]) -> Upcoming:
    tree = view.tree
    may = allocation_permission(policy=view.policy, tree=tree, at=view.now, actor=view.actor)

    def may_allocate(uid: UUID) -> bool:
        i = tree.index_of_uid(uid)
        return i is not None and may(i)

    places = {uid: tree.index_of_uid(uid) for uid in {each.entry_uid for each in allocations}}
    names = {uid: tree.name[i] for uid, i in places.items() if i is not None and view.visibility.may_see(i)}
    shown = [each for each in allocations if each.entry_uid in names]
    return Upcoming(view.policy.slug, view.policy.name, today, view.now, events, may_allocate, shown, names)
