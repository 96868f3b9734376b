"""What isn't heard any more: after the allowed age the action that the local authority chose, and never in silence."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction

from apps.accounts.actor import SYSTEM
from apps.accounts.audit.log import record
from apps.federation.models import Mount, Remote, Subscription
from apps.priorities.local_only import services

_LOCAL, _FREEZE = Remote.StaleAction.LOCAL, Remote.StaleAction.FREEZE


def heard_at(remote: Remote) -> datetime:
    """The last good look; before the first one, when it was set up."""
    return remote.good_at or remote.made_at


def is_stale(remote: Remote, at: datetime) -> bool:
    return heard_at(remote) + timedelta(seconds=remote.max_age_s) <= at


def act_on_stale(at: datetime) -> int:
    """Freeze, or fall back to this site's usage, where that was chosen; on how many. Safe to run twice and at once."""
    n_new = 0
    for remote in _stale(at):
        with transaction.atomic():
            row = type(remote)._default_manager.select_for_update(of=("self",)).filter(pk=remote.pk).first()
            if row is not None and is_stale(row, at):
                n_new += _freeze(row, at) if row.stale_action == _FREEZE else _fall_back(row, at)
    return n_new


def heard(remote: Mount | Subscription, at: datetime) -> None:
    """A good look: what counted alone for a while is one among others again. Frozen stays until somebody decides."""
    let_go(remote, at)


def let_go(remote: Mount | Subscription, at: datetime) -> None:
    """Of a fallback that no other at the same entry still needs: on a good look, and when one is taken away."""
    if remote.entry_uid not in services.load_fallbacks(remote.policy):
        return
    if any(other.stale_action == _LOCAL and is_stale(other, at) for other in _others(remote)):
        return
    services.recover(remote.policy, remote.entry_uid, at=at)


def _stale(at: datetime) -> list[Mount | Subscription]:
    acting = {"stale_action__in": (_FREEZE, _LOCAL)}
    found: list[Mount | Subscription] = [*Mount.objects.filter(**acting), *Subscription.objects.filter(**acting)]
    return [remote for remote in found if is_stale(remote, at)]


def _others(remote: Mount | Subscription) -> list[Mount | Subscription]:
    place = {"policy_id": remote.policy_id, "entry_uid": remote.entry_uid}
    found: list[Mount | Subscription] = [*Mount.objects.filter(**place), *Subscription.objects.filter(**place)]
    return [other for other in found if (type(other), other.pk) != (type(remote), remote.pk)]


def _freeze(remote: Mount | Subscription, at: datetime) -> int:
    """What hasn't been confirmed for too long is put in force no more before somebody looks."""
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
    return int(services.fall_back(remote.policy, remote.entry_uid, reason=reason, at=at))


def _reason(remote: Remote) -> str:
    return f"Not confirmed since {heard_at(remote):%Y-%m-%d %H:%M} UTC."
