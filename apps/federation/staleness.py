"""State of other authorities at an instant, and the action once one is stale: freeze, or local-only usage."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from apps.accounts.actor import SYSTEM, Actor
from apps.accounts.audit_log import record
from apps.accounts.clock_watch import believed
from apps.federation.models import HeldHour, Mount, Remote, Subscription
from apps.policies.models import ChangeSet
from apps.priorities import local_only as fallbacks

_LOCAL, _FREEZE = Remote.StaleAction.LOCAL, Remote.StaleAction.FREEZE


def last_contact_at(remote: Remote) -> datetime:
    """Instant of the last successful fetch; of the set-up before the first one."""
    return remote.good_at or remote.made_at


def is_stale(remote: Remote, at: datetime) -> bool:
    return last_contact_at(remote) + timedelta(seconds=remote.max_age_s) <= at


def act_on_stale(at: datetime) -> int:
    """Freeze stale ones, or switch to local-only usage, as configured; return their number.

    Idempotent, and safe concurrently. A frozen one stays so, therefore it goes by the believed clock.
    """
    n_new, at = 0, believed(at)
    for remote in _stale(at):
        with transaction.atomic():
            row = (
                type(remote)._default_manager.select_for_update(of=("self",), no_key=True).filter(pk=remote.pk).first()
            )
            if row is not None and is_stale(row, at):
                n_new += _freeze(row, at) if row.stale_action == _FREEZE else _use_local_only(row, at)
    return n_new


def end_fallback_after_success(remote: Mount | Subscription, at: datetime) -> None:
    """End the local-only fallback after a successful fetch. A frozen one stays frozen until a manager decides."""
    end_fallback(remote, at)


def end_fallback(remote: Mount | Subscription, at: datetime) -> None:
    """End the fallback at the entry unless another subscription needs it.

    Called after a successful fetch and on removal.
    """
    if remote.entry_uid not in fallbacks.load_fallbacks(remote.policy):
        return
    if any(other.stale_action == _LOCAL and is_stale(other, at) for other in _others(remote)):
        return
    fallbacks.recover(remote.policy, remote.entry_uid, at=at)


def _stale(at: datetime) -> list[Mount | Subscription]:
    acting = {"stale_action__in": (_FREEZE, _LOCAL)}
    remotes: list[Mount | Subscription] = [*Mount.objects.filter(**acting), *Subscription.objects.filter(**acting)]
    return [remote for remote in remotes if is_stale(remote, at)]


def _others(remote: Mount | Subscription) -> list[Mount | Subscription]:
    place = {"policy_id": remote.policy_id, "entry_uid": remote.entry_uid}
    remotes: list[Mount | Subscription] = [*Mount.objects.filter(**place), *Subscription.objects.filter(**place)]
    return [other for other in remotes if (type(other), other.pk) != (type(remote), remote.pk)]


def _freeze(remote: Mount | Subscription, at: datetime) -> int:
    """Freeze it, so that nothing is applied after a long outage until a manager has checked it."""
    if remote.state != Remote.State.ACTIVE:
        return 0
    remote.state = Remote.State.FROZEN
    remote.save(update_fields=["state"])
    record_of(remote, verb="federation.frozen", at=at, reason=_reason(remote))
    return 1


def record_of(remote: Mount | Subscription, *, verb: str, at: datetime, actor: Actor = SYSTEM, **event: Any) -> None:
    """Record an event about a mount or subscription in the audit log."""
    place: dict[str, Any] = {"policy_slug": remote.policy.slug, "entry_uid": remote.entry_uid}
    record(actor=actor, verb=verb, at=at, subject=str(remote), **place, **event)


def _use_local_only(remote: Mount | Subscription, at: datetime) -> int:
    """Below the entry, compare everyone by this site's usage alone; missing usage isn't extrapolated."""
    reason = f"{remote}: {_reason(remote)}"
    return int(fallbacks.fall_back(remote.policy, remote.entry_uid, reason=reason, at=at))


def _reason(remote: Remote) -> str:
    return f"Not confirmed since {last_contact_at(remote):%Y-%m-%d %H:%M} UTC."


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
