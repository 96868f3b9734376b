"""What happens once another authority is stale: its mount or subscription freezes, or only local usage counts."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from apps.accounts.actor import SYSTEM, Actor
from apps.accounts.audit_log import record
from apps.accounts.clock_watch import believed
from apps.federation.models import Mount, Remote, Subscription
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


def end_fallback(remote: Mount | Subscription, at: datetime) -> None:
    """End the fallback at the entry unless another subscription needs it.

    Called after a successful fetch and on removal. A frozen one stays frozen until a manager decides.
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
