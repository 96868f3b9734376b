"""Connect, change, pause, reset and remove schedulers, for managers of a policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from apps.accounts import audit_log as audit
from apps.accounts.actor import Actor
from apps.accounts.audit_log import log_refusals
from apps.accounts.services import revoke_tokens_of_scheduler
from apps.contrib.schedulers.limit_approval import require_approval
from apps.contrib.schedulers.models import KNOBS, Scheduler
from apps.contrib.schedulers.orders import NAME, SETTINGS, apply, orders_of, tag_of
from apps.contrib.schedulers.own_values import OwnValue, store_values
from apps.contrib.schedulers.permissions import (
    WRITE,
    find_scheduler,
    no_scheduler,
    require_manage,
    require_reach,
    require_read,
)
from apps.contrib.schedulers.selectors import newest_pass
from apps.core.errors import Conflict, FieldProblem, Invalid, Stale
from apps.policies.changesets.change_sets import require_reason
from apps.policies.publishing.revisions import lock_policy
from apps.policies.selectors import get_policy

MOST_SCHEDULERS = 100  # per policy
NEW = "new"  # a path of the pages, so no scheduler can have this name


def connect_scheduler(
    *,
    policy_slug: str,
    name: str,
    settings: Mapping[str, Any],
    at: datetime,
    actor: Actor,
    values: Sequence[OwnValue] = (),
    values_at: datetime | None = None,
    former_lines: Mapping[str, Any] | None = None,
) -> Scheduler:
    """Connect a scheduler to a policy, in mode off by default. Its agent needs a token.

    values: shares and usage that it listed at `values_at`, which are compared until its agent reports newer ones.
    former_lines: lines of its configuration as they are now, as in Scheduler.

    Raises:
        Invalid: invalid settings, with the problem of each field.
        Conflict: a scheduler has this name (`scheduler_exists`), or there are too many.
        NotFound: the token is bound to another scheduler.
    """
    policy = get_policy(slug=policy_slug, actor=actor, scope=WRITE)
    with refusals_of("scheduler.connected", actor, at, policy_slug, name), transaction.atomic():
        require_manage(policy, actor, at)
        require_reach(name, actor)
        policy = lock_policy(policy.pk)
        _refuse_name(name)
        if Scheduler.objects.filter(name=name).exists():
            message = _("A scheduler with this name already exists.")
            raise Conflict(message, code="scheduler_exists", fields=[FieldProblem("name", message)])
        if Scheduler.objects.filter(policy=policy).count() >= MOST_SCHEDULERS:
            raise Conflict(_("A policy has at most %(n)d schedulers.") % {"n": MOST_SCHEDULERS})
        kind = settings.get("kind", Scheduler.Kind.SLURM)
        first = KNOBS[kind][0] if kind in KNOBS else ""
        scheduler = Scheduler(name=name, policy=policy, knob=first, kind=kind, created_at=at, changed_at=at)
        scheduler.former_lines = dict(former_lines or {})
        apply(scheduler, settings)
        if _sends_limits(scheduler):
            message = _("Begin in shadow mode: the owner names accounts, and a second person approves them.")
            raise Conflict(message, code="second_person_needed", fields=[FieldProblem("mode", message)])
        scheduler.save()
        log("scheduler.connected", scheduler, at, actor, settings=_settings_of(scheduler))
        if values and values_at is not None:
            store_values(scheduler, list(values), values_at)
    return scheduler


def change_scheduler(
    *, name: str, tag: str, settings: Mapping[str, Any], at: datetime, actor: Actor, reason: str = ""
) -> Scheduler:
    """Change the given settings, also `paused` and `reset_values`. `tag`: as the caller loaded it.

    Raises:
        Stale: it changed since.
        Invalid: invalid settings, with the problem of each field.
    """
    unlocked = find_to_change(name, actor, at)
    with refusals_of("scheduler.changed", actor, at, unlocked.policy.slug, name), transaction.atomic():
        scheduler = lock_to_change(unlocked, actor, at)
        if tag != tag_of(scheduler):
            raise Stale(_("Another person changed this first"))
        before = _settings_of(scheduler)
        was_sending = _sends_limits(scheduler)
        switches = {key: settings[key] for key in ("paused", "reset_values") if key in settings}
        apply(scheduler, {key: value for key, value in settings.items() if key not in switches})
        for key, value in switches.items():
            if not isinstance(value, bool):
                raise Invalid(f"{key}: true or false", fields=[FieldProblem(key, _("Write true or false."))])
        _set_switches(scheduler, **switches)
        if _sends_limits(scheduler) and (not was_sending or scheduler.mode != before["mode"]):
            require_approval(scheduler)
        _save_changes(scheduler, "scheduler.changed", before, at, actor, reason)
    return scheduler


def pause_scheduler(*, name: str, at: datetime, actor: Actor) -> Scheduler:
    """The agent sends nothing until resumed; the scheduler keeps its last values. Safe to repeat."""
    return _switch(name, "scheduler.paused", {"paused": True}, at, actor)


def resume_scheduler(*, name: str, at: datetime, actor: Actor) -> Scheduler:
    """The agent resumes sending, also after a reset or a freeze, and accepts any change once. Safe to repeat."""
    return _switch(name, "scheduler.resumed", {"paused": False, "reset_values": False}, at, actor)


def request_reset(*, name: str, at: datetime, actor: Actor) -> Scheduler:
    """The agent resets every value that it set, and sends none until resumed. Safe to repeat."""
    return _switch(name, "scheduler.reset_requested", {"reset_values": True}, at, actor)


def remove_scheduler(*, name: str, tag: str, reason: str, at: datetime, actor: Actor) -> None:
    """Delete a scheduler with its passes, queue and values, and revoke its agent's tokens. Values set by its agent stay
    in the scheduler: reset them first.

    Raises:
        Stale: it changed since.
    """
    unlocked = find_to_change(name, actor, at)
    with refusals_of("scheduler.removed", actor, at, unlocked.policy.slug, name), transaction.atomic():
        scheduler = lock_to_change(unlocked, actor, at)
        if tag != tag_of(scheduler):
            raise Stale(_("Another person changed this first"))
        log("scheduler.removed", scheduler, at, actor, reason=require_reason(reason))
        revoke_tokens_of_scheduler(name=scheduler.name, at=at, actor=actor)
        scheduler.delete()


def _sends_limits(scheduler: Scheduler) -> bool:
    is_switched_on = scheduler.mode in (Scheduler.Mode.CANARY, Scheduler.Mode.ON)
    return is_switched_on and scheduler.carries == Scheduler.Carries.LIMITS


def find_to_change(name: str, actor: Actor, at: datetime) -> Scheduler:
    scheduler = find_scheduler(name)
    require_read(scheduler, actor, at)
    get_policy(slug=scheduler.policy.slug, actor=actor, scope=WRITE)
    return scheduler


def lock_to_change(unlocked: Scheduler, actor: Actor, at: datetime) -> Scheduler:
    require_manage(unlocked.policy, actor, at)
    scheduler = (
        Scheduler.objects.select_for_update(of=["self"], no_key=True)
        .select_related("policy")
        .filter(pk=unlocked.pk)
        .first()
    )
    if scheduler is None:
        raise no_scheduler(unlocked.name)
    return scheduler


def _switch(name: str, verb: str, switches: Mapping[str, bool], at: datetime, actor: Actor) -> Scheduler:
    unlocked = find_to_change(name, actor, at)
    with refusals_of(verb, actor, at, unlocked.policy.slug, name), transaction.atomic():
        scheduler = lock_to_change(unlocked, actor, at)
        before = _settings_of(scheduler)
        _set_switches(scheduler, **switches)
        _save_changes(scheduler, verb, before, at, actor, "")
    return scheduler


def _set_switches(scheduler: Scheduler, paused: bool | None = None, reset_values: bool | None = None) -> None:
    """Set the given switches. A resume is counted: the agent may see neither the pause before it nor the freeze."""
    last = newest_pass(scheduler)
    may_be_resumed = scheduler.is_paused or scheduler.is_reset_requested or (last is not None and last.awaits_resume)
    scheduler.is_paused = scheduler.is_paused if paused is None else paused
    scheduler.is_reset_requested = scheduler.is_reset_requested if reset_values is None else reset_values
    if paused is False and may_be_resumed and not scheduler.is_reset_requested:
        scheduler.resumes += 1


def _save_changes(
    scheduler: Scheduler, verb: str, before: Mapping[str, Any], at: datetime, actor: Actor, reason: str
) -> None:
    """Store and log the changes of a scheduler, if there are any."""
    after = _settings_of(scheduler)
    changed = [key for key in after if before[key] != after[key]]
    if not changed:
        return
    scheduler.revision += 1
    scheduler.changed_at = at
    scheduler.save()
    details = {"before": {key: before[key] for key in changed}, "after": {key: after[key] for key in changed}}
    log(verb, scheduler, at, actor, reason=reason, **details)


def _settings_of(scheduler: Scheduler) -> dict[str, Any]:
    orders = orders_of(scheduler)
    return {key: orders[key] for key in (*SETTINGS, "paused", "reset_values", "resumes")}


def _refuse_name(name: str) -> None:
    if not NAME.fullmatch(name) or "." in name or name == NEW:
        message = _("A name has letters, digits, hyphens and underscores, and isn’t “new”.")
        raise Invalid(message, fields=[FieldProblem("name", message)])


def log(verb: str, scheduler: Scheduler, at: datetime, actor: Actor, reason: str = "", **details: Any) -> None:
    audit.record(
        actor=actor,
        verb=verb,
        at=at,
        policy_slug=scheduler.policy.slug,
        subject=scheduler.name,
        reason=reason,
        details={**details, "revision": scheduler.revision},
    )


def refusals_of(verb: str, actor: Actor, at: datetime, policy_slug: str, name: str) -> Any:
    return log_refusals(verb, actor, at, policy_slug=policy_slug, subject=name[:64])
