"""Revisions of a policy published since a day, for the whole policy or one subtree."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time
from uuid import UUID
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db.models import Q

from apps.policies.models import Entry, Revision
from apps.policies.revision_reading import hidden_revisions
from apps.policies.tree.columns import Mask
from apps.priorities.selectors.rows import PolicyView

_MOST_REVISIONS = 2_000  # searched for changes of a subtree
_MOST_EVENTS = 8
_MOST_VERSIONS = 50_000  # versions of entries read in that search


@dataclass(frozen=True, slots=True)
class SearchEvent:
    """One revision, as in the history."""

    revision: int
    at: datetime
    author: str
    reason: str


def list_changes(view: PolicyView, top: int | None, since: date) -> tuple[list[SearchEvent], int]:
    """Return the newest revisions since a day, and their number. top: only revisions that changed this subtree.

    The actor must see `top`. Changes of hidden entries below it are ignored.
    """
    begin = datetime.combine(since, time.min, ZoneInfo(settings.TIME_ZONE))
    found = Revision.objects.filter(policy=view.policy, published_at__gte=begin, number__lte=view.revision)
    rows = found.order_by("-number").values_list("number", "published_at", "author_name", "reason")[:_MOST_REVISIONS]
    hidden = hidden_revisions(view.policy.pk, [row[0] for row in rows], view.visibility)
    events = [
        SearchEvent(number, at, author, reason.strip().partition("\n")[0])
        for number, at, author, reason in rows
        if number not in hidden
    ]
    if top is None:
        return events[:_MOST_EVENTS], len(events) if hidden else found.count()
    changed = _revisions_changing(view, top, [event.revision for event in events])
    events = [event for event in events if event.revision in changed]
    return events[:_MOST_EVENTS], len(events)


def _revisions_changing(view: PolicyView, top: int, numbers: list[int]) -> set[int]:
    """Return the revisions that added, changed or archived a visible entry at or below `top`."""
    below = view.tree.subtree_mask(top) & view.visibility.mask
    versions = Entry.objects.filter(policy=view.policy).filter(Q(since__in=numbers) | Q(until__in=numbers))
    wanted, changed = set(numbers), set[int]()
    for uid, since, until in versions.values_list("uid", "since", "until")[:_MOST_VERSIONS].iterator():
        if {since, until} & wanted - changed and _is_in(view, below, uid):
            changed |= {number for number in (since, until) if number in wanted}
    return changed


def _is_in(view: PolicyView, below: Mask, uid: UUID) -> bool:
    i = view.tree.index_of_uid(uid)
    return i is not None and bool(below[i])
