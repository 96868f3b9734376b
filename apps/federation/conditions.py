"""The condition of a peer at an instant, as pages, REST, `doctor` and monitoring show it."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from django.db.models import Exists, OuterRef, QuerySet

from apps.federation.models import HeldHour, Mount, Remote, Subscription
from apps.federation.staleness import is_stale
from apps.policies.models import ChangeSet

STILL_OPEN = (ChangeSet.State.DRAFT, ChangeSet.State.PROPOSED, ChangeSet.State.APPROVED)
_LATE_AFTER = 3  # intervals without a successful fetch
_LATE_AT_LEAST_S = 60


class Condition(StrEnum):
    """Condition of a peer: the first of these that applies."""

    BLOCKED = "blocked"
    PAUSED = "paused"  # not fetched by choice, so its age is irrelevant
    EXPIRED = "expired"
    STALE = "stale"  # checked before frozen, because a frozen one is fetched and may be unreachable
    FROZEN = "frozen"
    HELD = "held"
    LATE = "late"
    NEW = "new"  # nothing was fetched yet, without an error
    FRESH = "fresh"


NEEDS_ATTENTION = (Condition.BLOCKED, Condition.EXPIRED, Condition.STALE, Condition.HELD)


def condition_of(remote: Mount | Subscription, *, is_held: bool, at: datetime) -> Condition:
    """The condition at an instant. is_held: as `is_held` returns, if the caller knows it already."""
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
    """Whether something waits for a decision. Rows of the two functions below need no further query."""
    if isinstance(remote, Mount):
        return remote.held is not None and remote.held.state in STILL_OPEN
    reported = remote.reported_capacity_cores
    asks_for_more = reported is not None and reported > remote.capacity_cores
    return remote.running_held or asks_for_more or _has_quarantined_hours(remote)


def mounts_with_pending_version(rows: QuerySet[Mount]) -> QuerySet[Mount]:
    """Mounts with their waiting change set, without the large columns of documents and operations."""
    big = ("document", "held__operations", "held__asked", "held__undone")
    return rows.select_related("held").defer(*big)


def subscriptions_with_quarantine(rows: QuerySet[Subscription]) -> QuerySet[Subscription]:
    """Subscriptions, each with a flag for held hours."""
    return rows.annotate(has_quarantined_hours=Exists(HeldHour.objects.filter(subscription=OuterRef("pk"))))


def _has_quarantined_hours(remote: Subscription) -> bool:
    known: bool | None = getattr(remote, "has_quarantined_hours", None)
    return HeldHour.objects.filter(subscription=remote).exists() if known is None else known
