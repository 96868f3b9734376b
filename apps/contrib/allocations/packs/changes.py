"""Changes of shares with their reasons, and what ends soon, for a pack."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db.models import Max, Min, Q

from apps.accounts.actor import Actor
from apps.contrib.allocations.periods import Period
from apps.contrib.allocations.summary import Event
from apps.contrib.allocations.upcoming import get_ending_soon
from apps.policies.models import Entry, Revision
from apps.policies.tree.columns import Mask
from apps.policies.units import CORE_HOUR
from apps.priorities.selectors.history import HistoryLine, history_lines
from apps.priorities.selectors.rows import PolicyView
from apps.priorities.serving.served_snapshot import instant
from apps.series.days import site_zone

MOST_PACK_CHANGES = 50
SOON_DAYS = 90

Json = dict[str, Any]


def changes(view: PolicyView, entries: Sequence[int], period: Period) -> list[Json]:
    """Published changes of the entry and its children in the period, newest first, each revision once."""
    begin, end = period.instants(site_zone())
    by_revision: dict[int, Json] = {}
    for i in _changed_entries(view, entries, begin, end):
        for line in history_lines(view, view.tree.uuid(i), until=None, limit=MOST_PACK_CHANGES):
            if begin <= line.at < end and line.fields:
                change = by_revision.setdefault(line.revision, _change(line))
                change["entries"] += [
                    {"path": view.tree.path(i), "before": before, "after": after}
                    for field, before, after in line.fields
                    if field == "shares"
                ]
    return [by_revision[number] for number in sorted(by_revision, reverse=True)][:MOST_PACK_CHANGES]


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


def expiring(view: PolicyView, i: int, actor: Actor, people: Mask) -> list[Json]:
    """What ends within 90 days or has ended without a successor, without people, and the effect of renewing it."""
    upcoming = get_ending_soon(
        policy_slug=view.policy.slug, zone=site_zone(), days=SOON_DAYS, actor=actor, of=view.tree.uuid(i)
    )
    events = [each for each in upcoming.events if not people[view.tree.index_of_uid(each.uid) or 0]]
    return [_event(view, event) for event in events]


def _event(view: PolicyView, event: Event) -> Json:
    """target: with its present shares, as after a renewal; target_after: with those after its end."""
    i = view.tree.index_of_uid(event.uid) or 0
    after = _target_after(view, i, event)
    return {
        "entry_uid": str(event.uid),
        "path": event.path,
        "on": event.on.isoformat(),
        "kind": event.kind,
        **_amount(event),
        "is_covered": event.is_covered,
        "target": float(view.target[0][i]) if view.competes[i] else None,
        "target_after": after,
    }


def _amount(event: Event) -> Json:
    """What ends, in core-hours, or in another unit with its symbol."""
    own = event.allocation
    if own is None or own.unit == CORE_HOUR.symbol:
        return {"core_h": own and own.amount}
    return {"amount": own.amount, "unit": own.unit}


def _target_after(view: PolicyView, i: int, event: Event) -> float | None:
    """Target among siblings once its shares have ended; None if they don't end automatically."""
    at_end = None if event.dates is None else event.dates.at_end
    if event.kind != "shares_end" or at_end == "keep" or at_end is None or not view.competes[i]:
        return None
    target, shares = float(view.target[0][i]), float(view.tree.shares[i])
    left = 0.0 if at_end in ("zero", "archive") else float(at_end)
    others = shares * (1.0 - target) / target if target > 0 else 1.0
    return left / (left + others) if left + others > 0 else 0.0
