"""Actions on an existing mount or subscription. Each records its reason in the audit log."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import transaction

from apps.accounts.actor import Actor
from apps.core.errors import Conflict, FieldProblem, Invalid
from apps.federation import staleness
from apps.federation.fetch_requests import NOT_FETCHED, AnyRemote, Kind, sealed_token
from apps.federation.fetch_schedule import request_fetch
from apps.federation.models import Mount, Remote, Subscription
from apps.federation.mounts.services import clean_fingerprint, clean_settings, get_mount, unmount
from apps.federation.usage_feeds.lineage import read_from_0
from apps.federation.usage_feeds.subscriptions import clean_cores, get_subscription, unsubscribe
from apps.runs.models import Run

State = Remote.State


def get_remote(*, kind: Kind, remote_id: int, actor: Actor, at: datetime, lock: bool = False) -> AnyRemote:
    """Return a mount or subscription; NotFound unless the actor may mount at its entry."""
    if kind == "mount":
        return get_mount(mount_id=remote_id, actor=actor, at=at, lock=lock)
    return get_subscription(subscription_id=remote_id, actor=actor, at=at, lock=lock)


@transaction.atomic
def pause(*, kind: Kind, remote_id: int, reason: str, at: datetime, actor: Actor) -> AnyRemote:
    """Stop fetching until it is resumed; the current content stays."""
    remote = _load_locked(kind, remote_id, at, actor)
    if remote.state == State.PAUSED:
        return remote
    return _set_state(remote, State.PAUSED, "federation.paused", reason, at, actor)


@transaction.atomic
def resume(*, kind: Kind, remote_id: int, reason: str, at: datetime, actor: Actor) -> AnyRemote:
    """Fetch again immediately, with the trusted state unchanged.

    A blocked one is blocked again unless the cause is gone.

    Raises:
        Conflict: it is frozen; unfreezing also applies what was fetched meanwhile, so it is a separate action.
    """
    remote = _load_locked(kind, remote_id, at, actor)
    if remote.state == State.FROZEN:
        raise Conflict("It is frozen, but still fetched: unfreeze it to apply its data.", code="frozen")
    if remote.state == State.ACTIVE:
        return remote
    remote.due_at = at
    return _set_state(remote, State.ACTIVE, "federation.resumed", reason, at, actor)


@transaction.atomic
def freeze(*, kind: Kind, remote_id: int, reason: str, at: datetime, actor: Actor) -> AnyRemote:
    """Keep fetching and checking, but apply nothing until it is unfrozen.

    Raises:
        Conflict: it is paused or blocked, so that nothing is applied anyway.
    """
    remote = _load_locked(kind, remote_id, at, actor)
    if remote.state == State.FROZEN:
        return remote
    _refuse_not_fetched(remote)
    return _set_state(remote, State.FROZEN, "federation.frozen", reason, at, actor)


@transaction.atomic
def unfreeze(*, kind: Kind, remote_id: int, reason: str, at: datetime, actor: Actor) -> AnyRemote:
    """Apply what was fetched while it was frozen, by making the next fetch due immediately."""
    remote = _load_locked(kind, remote_id, at, actor)
    if remote.state == State.ACTIVE:
        return remote
    _refuse_not_fetched(remote)
    remote.due_at = at
    return _set_state(remote, State.ACTIVE, "federation.unfrozen", reason, at, actor)


@transaction.atomic
def fetch_now(*, kind: Kind, remote_id: int, reason: str = "", at: datetime, actor: Actor) -> Run:
    """Request a fetch now; return the pending run if there is one.

    Raises:
        Conflict: it is paused or blocked.
    """
    remote = _load_locked(kind, remote_id, at, actor)
    _refuse_not_fetched(remote)
    run = request_fetch(remote, at=at)
    _note(remote, "federation.fetch_asked", reason, at, actor, {"run": run.pk})
    return run


@transaction.atomic
def change_settings(
    *,
    kind: Kind,
    remote_id: int,
    settings: Mapping[str, Any],
    token: str | None = None,
    reason: str,
    at: datetime,
    actor: Actor,
) -> AnyRemote:
    """Change limits and interval; omitted values stay.

    token: replaces the present one, "" removes it; it is never shown.

    Raises:
        Invalid: an unknown or out-of-range value, each with its location.
    """
    remote = _load_locked(kind, remote_id, at, actor)
    read = clean_settings(settings, of_usage=kind == "subscription")
    before = {name: getattr(remote, name) for name in read}
    changed = sorted(name for name, value in read.items() if before[name] != value)
    for name in changed:
        setattr(remote, name, read[name])
    details: dict[str, Any] = {
        "before": {name: before[name] for name in changed},
        "after": {name: read[name] for name in changed},
    }
    if token is not None:
        remote.sealed_token = sealed_token(token)
        details["token"] = "replaced" if remote.sealed_token else "removed"
    if not changed and token is None:
        return remote
    if "every_s" in changed or token is not None:
        remote.due_at = at
    remote.save()
    if remote.stale_action != Remote.StaleAction.LOCAL or not staleness.is_stale(remote, at):
        staleness.end_fallback(remote, at)
    _note(remote, "federation.settings_changed", reason, at, actor, details)
    return remote


@transaction.atomic
def trust_key(*, kind: Kind, remote_id: int, fingerprint: str, reason: str, at: datetime, actor: Actor) -> AnyRemote:
    """Trust another key, which an administrator compared over a separate channel; fetch immediately if it was blocked.

    Usage is read from number 0 under the new key, because nothing proves that its numbers continue those signed by the
    old key.

    Raises:
        Invalid: no reason, or no fingerprint.
    """
    _require_reason(reason)
    remote = _load_locked(kind, remote_id, at, actor)
    plain, before = clean_fingerprint(fingerprint), remote.fingerprint
    if plain == before:
        raise Conflict("This key is the one that is trusted already.", code="same_key")
    remote.fingerprint, remote.etag = plain, ""
    if isinstance(remote, Subscription):
        read_from_0(remote)
    _unblock(remote, at)
    remote.save()
    _note(remote, "federation.key_trusted", reason, at, actor, {"from": before, "to": plain})
    return remote


@transaction.atomic
def reset_history(*, kind: Kind, remote_id: int, reason: str, at: datetime, actor: Actor) -> AnyRemote:
    """Accept the documents served now as a new history, after a fork or if the site was restored from an older state.

    The trusted key stays. The current content stays until the new one is applied, within the usual limits.

    Raises:
        Invalid: no reason.
    """
    _require_reason(reason)
    remote = _load_locked(kind, remote_id, at, actor)
    if isinstance(remote, Mount):
        details: dict[str, Any] = {"version": remote.version, "digest": remote.digest}
        remote.version, remote.digest = 0, ""
    else:
        details = {"number": remote.number, "root": str(remote.root_uid or "")}
        read_from_0(remote)
        remote.root_uid, remote.issued_at = None, None
    remote.etag = ""
    _unblock(remote, at)
    remote.save()
    _note(remote, "federation.begun_anew", reason, at, actor, details)
    return remote


@transaction.atomic
def agree_capacity(*, subscription: int, cores: float, reason: str, at: datetime, actor: Actor) -> Subscription:
    """Set the capacity agreed with the other site; read all its usage again, which releases held hours within it.

    Raises:
        Invalid: no reason, or no number of cores.
    """
    _require_reason(reason)
    row = get_subscription(subscription_id=subscription, actor=actor, at=at, lock=True)
    before, row.capacity_cores = row.capacity_cores, clean_cores(cores)
    read_from_0(row)
    if row.state not in NOT_FETCHED:
        row.due_at = at
    row.save()
    details = {"before": before, "after": row.capacity_cores}
    _note(row, "federation.capacity_agreed", reason, at, actor, details)
    return row


def remove(*, kind: Kind, remote_id: int, reason: str, at: datetime, actor: Actor) -> None:
    """End a mount, whose entries become local, or a subscription, whose usage is removed."""
    if kind == "mount":
        unmount(mount_id=remote_id, reason=reason, at=at, actor=actor)
    else:
        unsubscribe(subscription_id=remote_id, reason=reason, at=at, actor=actor)


def _load_locked(kind: Kind, remote_id: int, at: datetime, actor: Actor) -> AnyRemote:
    return get_remote(kind=kind, remote_id=remote_id, actor=actor, at=at, lock=True)


def _set_state(remote: AnyRemote, state: str, verb: str, reason: str, at: datetime, actor: Actor) -> AnyRemote:
    before, remote.state = remote.state, state
    remote.save()
    _note(remote, verb, reason, at, actor, {"from": before})
    return remote


def _unblock(remote: AnyRemote, at: datetime) -> None:
    if remote.state == State.BLOCKED:
        remote.state = State.ACTIVE
    if remote.state not in NOT_FETCHED:
        remote.due_at = at


def _refuse_not_fetched(remote: AnyRemote) -> None:
    if remote.state == State.PAUSED:
        raise Conflict("It is paused: resume it first.", code="paused")
    if remote.state == State.BLOCKED:
        message = "It is blocked: trust its new key, reset its document history, or resume it unchanged."
        raise Conflict(message, code="blocked")


def _require_reason(reason: str) -> None:
    if not reason.strip():
        message = "Say why: it changes what is believed of another site."
        raise Invalid(message, fields=[FieldProblem("reason", message)])


def _note(
    remote: AnyRemote, verb: str, reason: str, at: datetime, actor: Actor, details: Mapping[str, Any] | None = None
) -> None:
    staleness.record_of(remote, verb=verb, at=at, actor=actor, reason=reason.strip(), details=details)
