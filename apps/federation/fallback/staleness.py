"""Stale peers: after the allowed age, apply the action that the local authority chose, and record it."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction

from apps.accounts.actor import SYSTEM
from apps.accounts.audit.log import record
from apps.federation.models import Mount, Remote, Subscription
from apps.priorities.fallback import services as fallbacks

_LOCAL, _FREEZE = Remote.StaleAction.LOCAL, Remote.StaleAction.FREEZE


def last_contact_at(remote: Remote) -> datetime:
    """Instant of the last successful fetch; before the first one, of the set-up."""
    return remote.good_at or remote.made_at


def is_stale(remote: Remote, at: datetime) -> bool:
    return last_contact_at(remote) + timedelta(seconds=remote.max_age_s) <= at


def act_on_stale(at: datetime) -> int:
    """Freeze, or use local usage only, where that was chosen; returns on how many. Safe to run twice and at once."""
    n_new = 0
    for remote in _stale(at):
        with transaction.atomic():
            row = type(remote)._default_manager.select_for_update(of=("self",)).filter(pk=remote.pk).first()
            if row is not None and is_stale(row, at):
                n_new += _freeze(row, at) if row.stale_action == _FREEZE else _fall_back(row, at)
    return n_new


def note_success(remote: Mount | Subscription, at: datetime) -> None:
    """After a successful fetch: end the local-only fallback. Frozen stays until a manager decides."""
    end_fallback(remote, at)


def end_fallback(remote: Mount | Subscription, at: datetime) -> None:
    """End a fallback that no other subscription at the entry needs: after a successful fetch, and when one is
    removed.
    """
    if remote.entry_uid not in fallbacks.load_fallbacks(remote.policy):
        return
    if any(other.stale_action == _LOCAL and is_stale(other, at) for other in _others(remote)):
        return
    fallbacks.recover(remote.policy, remote.entry_uid, at=at)


def _stale(at: datetime) -> list[Mount | Subscription]:
    acting = {"stale_action__in": (_FREEZE, _LOCAL)}
    found: list[Mount | Subscription] = [*Mount.objects.filter(**acting), *Subscription.objects.filter(**acting)]
    return [remote for remote in found if is_stale(remote, at)]


def _others(remote: Mount | Subscription) -> list[Mount | Subscription]:
    place = {"policy_id": remote.policy_id, "entry_uid": remote.entry_uid}
    found: list[Mount | Subscription] = [*Mount.objects.filter(**place), *Subscription.objects.filter(**place)]
    return [other for other in found if (type(other), other.pk) != (type(remote), remote.pk)]


def _freeze(remote: Mount | Subscription, at: datetime) -> int:
    """Apply nothing that was unconfirmed for too long until a manager has checked it."""
    if remote.state != Remote.State.ACTIVE:
        return 0
    remote.state = Remote.State.FROZEN
    remote.save(update_fields=["state"])
    record(
        actor=SYSTEM, verb="federation.frozen", at=at, policy_slug=remote.policy.slug, entry_uid=remote.entry_uid,
        subject=str(remote), reason=_reason(remote),
    )  # fmt: skip
    return 1


def _fall_back(remote: Mount | Subscription, at: datetime) -> int:
    """Below the entry everybody is compared by this site's usage alone: nothing is scaled up for what is missing."""
    reason = f"{remote}: {_reason(remote)}"
    return int(fallbacks.fall_back(remote.policy, remote.entry_uid, reason=reason, at=at))


def _reason(remote: Remote) -> str:
    return f"Not confirmed since {last_contact_at(remote):%Y-%m-%d %H:%M} UTC."
