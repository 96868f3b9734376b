"""State of another authority at an instant: one rule for mounts and usage, on every page."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from django.db.models import Exists, OuterRef, QuerySet

from apps.federation.fallback.staleness import is_stale
from apps.federation.models import HeldHour, Mount, Remote, Subscription
from apps.policies.models import ChangeSet

STILL_OPEN = (ChangeSet.State.DRAFT, ChangeSet.State.PROPOSED, ChangeSet.State.APPROVED)
_LATE_AFTER = 3  # intervals without a successful fetch
_LATE_AT_LEAST_S = 60


class Condition(StrEnum):
    """The first of these that holds."""

    BLOCKED = "blocked"
    PAUSED = "paused"  # nobody fetches, by choice: its age is no news
    EXPIRED = "expired"
    STALE = "stale"  # before frozen: a frozen one is fetched, and is unreachable here
    FROZEN = "frozen"
    HELD = "held"
    LATE = "late"
    NEW = "new"  # nothing came yet, and nothing is wrong
    FRESH = "fresh"


NEEDS_ATTENTION = (Condition.BLOCKED, Condition.EXPIRED, Condition.STALE, Condition.HELD)


def condition_of(remote: Mount | Subscription, *, is_held: bool, at: datetime) -> Condition:
    """is_held: as below says, or as the caller knows already."""
    if remote.state == Remote.State.BLOCKED:
        return Condition.BLOCKED
    if remote.state == Remote.State.PAUSED:
        return Condition.PAUSED
    if remote.expires_at is not None and remote.expires_at <= at:
        return Condition.EXPIRED
    if is_stale(remote, at):
        return Condition.STALE
    if remote.state == Remote.State.FROZEN:
        return Condition.FROZEN
    if is_held:
        return Condition.HELD
    age_s = age_of(remote, at)
    if remote.n_failed or (age_s is not None and age_s > max(_LATE_AFTER * remote.every_s, _LATE_AT_LEAST_S)):
        return Condition.LATE
    return Condition.NEW if age_s is None else Condition.FRESH


def age_of(remote: Remote, at: datetime) -> float | None:
    """Seconds since the last successful fetch; None before the first."""
    return None if remote.good_at is None else max((at - remote.good_at).total_seconds(), 0.0)


def is_held(remote: Mount | Subscription) -> bool:
    """Something of it waits for a decision. Of the rows of the two below nothing more is asked of the database."""
    if isinstance(remote, Mount):
        return remote.held is not None and remote.held.state in STILL_OPEN
    told = remote.reported_capacity_cores
    asks_for_more = told is not None and told > remote.capacity_cores
    return remote.running_held or asks_for_more or _has_held_hours(remote)


def mounts_with_held(rows: QuerySet[Mount]) -> QuerySet[Mount]:
    """Each with the change set that waits, without the megabytes that a document and its operations may have."""
    big = ("document", "held__operations", "held__asked", "held__undone")
    return rows.select_related("held").defer(*big)


def usage_with_held(rows: QuerySet[Subscription]) -> QuerySet[Subscription]:
    """Each with whether it has held hours."""
    return rows.annotate(has_held_hours=Exists(HeldHour.objects.filter(subscription=OuterRef("pk"))))


def _has_held_hours(remote: Subscription) -> bool:
    known: bool | None = getattr(remote, "has_held_hours", None)
    return HeldHour.objects.filter(subscription=remote).exists() if known is None else known
