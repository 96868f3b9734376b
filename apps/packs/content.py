"""Builds the JSON document of a pack, which page, PDF, link and REST share, with the rights of one actor.

Numbers are those of the core-hour table and of monthly statements. People are left out; what the actor may not see is
null with `suppressed`. Amounts are in the policy's metric (core-hours if it weights cores only).

`held_back`: for each day on which jobs of entry i waited, its unused entitlement (*missed*) is divided among the
siblings that used more than theirs, in proportion to what they borrowed:

    held_back[i, j] = Σ_d missed[i, d] · borrowed[j, d] / Σ_k borrowed[k, d]

over days that are visible to the actor for all of these entries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any
from uuid import UUID

import numpy as np
from django.db.models import Max, Min, Q
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.analytics.series.daily_series import site_zone
from apps.analytics.series.stored_series import load_series, series_state
from apps.analytics.series.visible_days import as_visible
from apps.core.errors import FieldProblem, Invalid
from apps.engine.convergence import fairness
from apps.notices.statements.selectors import AMOUNTS, Month, day_today, lines_of, month_of, read_month
from apps.policies.allocations.records import Period
from apps.policies.allocations.summary import Event
from apps.policies.models import Entry, Revision
from apps.policies.tree.columns import Mask
from apps.priorities.selectors.allocations import AllocationRow, get_allocation_table
from apps.priorities.selectors.history import HistoryLine, history_lines
from apps.priorities.selectors.rows import PolicyView, open_view
from apps.priorities.selectors.usage import get_ending_soon
from apps.priorities.serving.served_snapshot import instant

FORMAT = "fairshare-pack/1"
MOST_MONTHS = 12
MOST_ROWS = 200
_MOST_READ = 5_000  # rows of the core-hour table, including people
MOST_PAIRS = 20
MOST_CHANGES = 50
SOON_DAYS = 90
_HOUR_S = 3600.0
_LEAST_CORE_H = 1e-6

Json = dict[str, Any]


def read_months(first: str, last: str, today: date) -> list[Month]:
    """Parse first and last month, such as 2026-10; default: the last full month. Oldest first, at most 12."""
    newest = read_month(last, today) if last else read_month(first, today) if first else month_of(today).before()
    oldest = read_month(first, today) if first else newest
    found = [newest.before(n) for n in range(MOST_MONTHS) if newest.before(n).first_on >= oldest.first_on][::-1]
    if not found or found[0] != oldest:
        message = _("must be at most %(n)s months before the last one, and not after it") % {"n": MOST_MONTHS - 1}
        raise Invalid(f"from {message}.", code="bad_period", fields=[FieldProblem("from", message)])
    return found


@dataclass(frozen=True, slots=True)
class PackQuery:
    """uid: the entry, None for the root. first, last: months, see `read_months`."""

    policy_slug: str
    uid: UUID | None = None
    first: str = ""
    last: str = ""


def get_pack(query: PackQuery, *, actor: Actor) -> Json:
    """Return the pack of an entry and its children, by default the root.

    Raises: Invalid for malformed months, months that haven't started, or more than twelve. NotFound if the policy or
    entry doesn't exist for this actor.
    """
    view = open_view(policy_slug=query.policy_slug, actor=actor)
    i = view.require(view.tree.uuid(0) if query.uid is None else query.uid)
    people = view.tree.engine_tree().is_ranked
    if i and people[i]:
        message = _("is one person: choose the group")
        raise Invalid(f"entry {message}.", code="one_person", fields=[FieldProblem("entry", message)])
    months = read_months(query.first, query.last, day_today(view))
    period = Period(months[0].first_on, months[-1].last_on)
    visible = view.visible_children(i)
    groups = [child for child in visible if not people[child]]
    children = groups[:MOST_ROWS]
    balance = _balance(view, [*([i] if i else []), *children], months)
    return {
        "format": FORMAT,
        "policy": view.policy.slug,
        "policy_name": view.policy.name,
        "revision": view.revision,
        "entry": view.tree.path(i),
        "entry_uid": str(view.tree.uuid(i)),
        "name": view.policy.name if i == 0 else view.tree.name[i],
        "from": period.starts_on.isoformat(),
        "to": period.ends_on.isoformat(),
        "made_at": instant(view.now),
        "zone": site_zone().key,
        "allocations": _allocations(view, i, period, actor, people),
        "balance": balance,
        "fairness": _fairness(balance[-len(children) :]) if 0 < len(children) == len(groups) else None,
        "held_back": _held_back(view, children, period),
        "changes": _changes(view, [i, *children], period),
        "expiring": _expiring(view, i, actor, people),
        "n_people_left_out": len(visible) - len(groups),
    }


# --- Allocated and delivered ------------------------------------------------------------------------------------------
def _allocations(view: PolicyView, i: int, period: Period, actor: Actor, people: Mask) -> Json:
    """is_cut: there are more groups than listed."""
    table = get_allocation_table(
        policy_slug=view.policy.slug,
        period=period,
        zone=site_zone(),
        actor=actor,
        of=view.tree.uuid(i),
        limit=_MOST_READ,
    )
    rows = [row for row in table.rows if not people[_index_of(view, row.entry)]]
    return {
        "capacity_core_h": table.capacity_core_h,
        "rows": [_allocation(row) for row in (table.group, *rows[:MOST_ROWS])],
        "is_cut": table.next_cursor is not None or len(rows) > MOST_ROWS,
    }


def _index_of(view: PolicyView, uid: UUID) -> int:
    return view.tree.index_of_uid(uid) or 0


def _allocation(row: AllocationRow) -> Json:
    names = ("allocated", "due", "expected", "delivered", "remaining")
    return {
        "entry_uid": str(row.entry),
        "path": row.path,
        **{f"{name}_core_h": getattr(row, f"{name}_core_h") for name in names},
        "pace": row.pace,
        "suppressed": row.suppressed,
    }


# --- Lent and borrowed ------------------------------------------------------------------------------------------------
def _balance(view: PolicyView, entries: Sequence[int], months: Sequence[Month]) -> list[Json]:
    """Monthly statements summed over the months; null for an entry with a hidden month."""
    lines = lines_of(view, entries, months, series_state(view.policy).first_on)
    found = []
    for i in entries:
        own = [lines[i, month] for month in months]
        hidden = any(line.is_suppressed for line in own)
        known = [] if hidden else [line.figures for line in own if line.figures is not None]
        sums = {f"{name}_core_h": sum(getattr(one, name) for one in known) / _HOUR_S for name in AMOUNTS}
        found.append(
            {
                "entry_uid": str(view.tree.uuid(i)),
                "path": view.tree.path(i),
                **(sums if known else dict.fromkeys(sums)),
                "days": sum(one.n_days for one in known),
                "missing_days": sum(line.missing_days for line in own),
                "suppressed": hidden,
                "rounded": any(line.is_rounded for line in own),
            }
        )
    return found


def _fairness(rows: Sequence[Json]) -> Json | None:
    """How fair usage was among siblings, by entitlement and demand; None if one is hidden or left out, or without
    usage.

    Demand is what was used plus what was missed while jobs waited.
    """
    known = [row for row in rows if row["used_core_h"] is not None and row["entitled_core_h"]]
    if len(known) < 2 or any(row["suppressed"] for row in rows) or not any(row["used_core_h"] for row in known):
        return None
    entitled, used, missed = (
        np.array([row[f"{name}_core_h"] for row in known]) for name in ("entitled", "used", "missed")
    )
    found = fairness(entitled, used, demand=used + missed)
    return {
        "jain": found.jain,
        "gini": found.gini,
        "misplaced_percent": found.misplaced_points,
        "misplaced_with_demand_percent": found.demand_error_points,
    }


def _held_back(view: PolicyView, children: Sequence[int], period: Period) -> list[Json]:
    """The pairs with the largest amounts, largest first."""
    if len(children) < 2:
        return []
    uids = [view.tree.uuid(i) for i in children]
    series = load_series(view.policy, uids, from_on=period.starts_on, to_on=period.ends_on)
    if not series.days.on:
        return []
    series, visible = as_visible(series, view=view)
    is_counted = visible & series.exists & series.competes
    entitled = series.target * series.peers_used
    missed = np.where(is_counted & (series.waited_core_s > 0), np.maximum(entitled - series.used, 0.0), 0.0)
    borrowed = np.where(is_counted, np.maximum(series.used - entitled, 0.0), 0.0)
    whole = borrowed.sum(axis=0)
    part = np.divide(borrowed, whole, out=np.zeros_like(borrowed), where=whole > 0)
    core_h = missed @ part.T / _HOUR_S
    order = np.argsort(-core_h, axis=None, kind="stable")[:MOST_PAIRS]
    pairs = [divmod(int(n), len(children)) for n in order]
    return [
        {
            "path": view.tree.path(children[one]),
            "by_path": view.tree.path(children[other]),
            "core_h": float(core_h[one, other]),
        }
        for one, other in pairs
        if core_h[one, other] > _LEAST_CORE_H
    ]


# --- Changes and endings ----------------------------------------------------------------------------------------------
def _changes(view: PolicyView, entries: Sequence[int], period: Period) -> list[Json]:
    """Published changes of the entry and its children in the period, newest first, each revision once."""
    begin, end = period.instants(site_zone())
    found: dict[int, Json] = {}
    for i in _changed_entries(view, entries, begin, end):
        for line in history_lines(view, view.tree.uuid(i), until=None, limit=MOST_CHANGES):
            if begin <= line.at < end and line.fields:
                one = found.setdefault(line.revision, _change(line))
                one["entries"] += [
                    {"path": view.tree.path(i), "before": before, "after": after}
                    for field, before, after in line.fields
                    if field == "shares"
                ]
    return [found[number] for number in sorted(found, reverse=True)][:MOST_CHANGES]


def _changed_entries(view: PolicyView, entries: Sequence[int], begin: datetime, end: datetime) -> list[int]:
    """Return the entries with a version that starts or ends with a revision of the period."""
    revisions = Revision.objects.filter(policy=view.policy, published_at__gte=begin, published_at__lt=end)
    numbers = revisions.aggregate(first=Min("number"), last=Max("number"))
    if numbers["first"] is None:
        return []
    span = (numbers["first"], numbers["last"])
    rows = Entry.objects.filter(policy=view.policy, uid__in=[view.tree.uuid(i) for i in entries])
    changed = set(rows.filter(Q(since__range=span) | Q(until__range=span)).values_list("uid", flat=True))
    return [i for i in entries if view.tree.uuid(i) in changed]


def _change(line: HistoryLine) -> Json:
    return {
        "revision": line.revision,
        "at": instant(line.at),
        "author": line.author,
        "reason": line.reason,
        "entries": [],
    }


def _expiring(view: PolicyView, i: int, actor: Actor, people: Mask) -> list[Json]:
    """What ends within 90 days or has ended without a successor, without people, and the effect of renewing it."""
    upcoming = get_ending_soon(
        policy_slug=view.policy.slug, zone=site_zone(), days=SOON_DAYS, actor=actor, of=view.tree.uuid(i)
    )
    events = [each for each in upcoming.events if not people[_index_of(view, each.uid)]]
    return [_event(view, event) for event in events]


def _event(view: PolicyView, event: Event) -> Json:
    """target: with its present shares, as after a renewal; target_after: with those after its end."""
    i = _index_of(view, event.uid)
    after = _target_after(view, i, event)
    return {
        "entry_uid": str(event.uid),
        "path": event.path,
        "on": event.on.isoformat(),
        "kind": event.kind,
        "core_h": None if event.allocation is None else event.allocation.core_h,
        "is_covered": event.is_covered,
        "target": float(view.target[0][i]) if view.competes[i] else None,
        "target_after": after,
    }


def _target_after(view: PolicyView, i: int, event: Event) -> float | None:
    """Target among siblings once its shares have ended; None if they don't end automatically."""
    at_end = None if event.dates is None else event.dates.at_end
    if event.kind != "shares_end" or at_end == "keep" or at_end is None or not view.competes[i]:
        return None
    target, shares = float(view.target[0][i]), float(view.tree.shares[i])
    left = 0.0 if at_end in ("zero", "archive") else float(at_end)
    others = shares * (1.0 - target) / target if target > 0 else 1.0
    return left / (left + others) if left + others > 0 else 0.0
