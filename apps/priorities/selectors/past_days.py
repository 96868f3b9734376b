"""Which days of a policy a look back can show: from the first usage or revision until now, stored or computed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

from django.db.models.functions import ExtractHour, TruncDate

from apps.policies.models import Revision
from apps.priorities.models import Snapshot
from apps.priorities.recompute.inputs import first_usage_at

_MOST_REVISIONS = 400


@dataclass(frozen=True)
class PastDays:
    """Days are ordinals of a time zone's calendar. stored: ends of days of which a snapshot is kept.

    revisions: (day, number) of those that were published on a day of the range, the newest few hundred, oldest first.
    """

    first_at: datetime
    first: int
    last: int
    stored: frozenset[int]
    revisions: tuple[tuple[int, int], ...]


def list_past_days(*, policy_slug: str, zone: tzinfo, now: datetime) -> PastDays | None:
    """None while there is nothing to look back at. No secret to those who may open a page of the policy."""
    published = Revision.objects.filter(policy__slug=policy_slug)
    first_revision_at = published.order_by("number").values_list("published_at", flat=True).first()
    used_at = first_usage_at()
    if used_at is None or first_revision_at is None:
        return None
    first_at = max(used_at + timedelta(seconds=1), first_revision_at)
    newest = published.order_by("-number").values_list("published_at", "number")[:_MOST_REVISIONS]
    revisions = tuple((_day(at, zone), number) for at, number in newest)[::-1]
    if first_at >= now:
        return None
    first, last = _day(first_at, zone), _day(now, zone)
    return PastDays(
        first_at, first, last, _stored(policy_slug, zone), tuple(one for one in revisions if one[0] >= first)
    )


def _stored(policy_slug: str, zone: tzinfo) -> frozenset[int]:
    """Days with a snapshot in their last hour: so close to the end of the day it stands for it."""
    live = Snapshot.objects.filter(policy__slug=policy_slug, is_live=True)
    days = live.annotate(day=TruncDate("as_of", tzinfo=zone), hour=ExtractHour("as_of", tzinfo=zone)).filter(hour=23)
    return frozenset(day.toordinal() for day in days.values_list("day", flat=True).distinct())


def _day(at: datetime, zone: tzinfo) -> int:
    return at.astimezone(zone).date().toordinal()
