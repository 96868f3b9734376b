"""What was published in a policy since a day, in all of it or at and below one entry."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time
from uuid import UUID
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db.models import Q

from apps.policies.models import Entry, Revision
from apps.policies.tree.columns import Mask
from apps.priorities.selectors.rows import PolicyView

_MOST_REVISIONS = 2_000  # of which those that touched a part are looked for
_MOST_EVENTS = 8
_MOST_VERSIONS = 50_000  # of entries that are read to find which revisions touched a part


@dataclass(frozen=True, slots=True)
class SearchEvent:
    """One revision, as history lists it."""

    revision: int
    at: datetime
    author: str
    reason: str


def list_changes(view: PolicyView, top: int | None, since: date) -> tuple[list[SearchEvent], int]:
    """The newest revisions from a day on, and how many there are; top: only those that changed it or what is below.

    The actor sees `top`. Changes of hidden entries below it don't count.
    """
    begin = datetime.combine(since, time.min, ZoneInfo(settings.TIME_ZONE))
    found = Revision.objects.filter(policy=view.policy, published_at__gte=begin, number__lte=view.revision)
    rows = found.order_by("-number").values_list("number", "published_at", "author_name", "reason")[:_MOST_REVISIONS]
    events = [SearchEvent(number, at, author, reason.strip().partition("\n")[0]) for number, at, author, reason in rows]
    if top is None:
        return events[:_MOST_EVENTS], found.count()
    touched = _touching(view, top, [event.revision for event in events])
    events = [event for event in events if event.revision in touched]
    return events[:_MOST_EVENTS], len(events)


def _touching(view: PolicyView, top: int, numbers: list[int]) -> set[int]:
    """Those of the revisions that added, changed or archived a visible entry at or below `top`."""
    below = view.tree.subtree_mask(top) & view.visibility.mask
    versions = Entry.objects.filter(policy=view.policy).filter(Q(since__in=numbers) | Q(until__in=numbers))
    wanted, touched = set(numbers), set[int]()
    for uid, since, until in versions.values_list("uid", "since", "until")[:_MOST_VERSIONS].iterator():
        if {since, until} & wanted - touched and _is_in(view, below, uid):
            touched |= {number for number in (since, until) if number in wanted}
    return touched


def _is_in(view: PolicyView, below: Mask, uid: UUID) -> bool:
    i = view.tree.index_of_uid(uid)
    return i is not None and bool(below[i])
