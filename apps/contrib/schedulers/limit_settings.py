"""Bounds of limits of accounts: the accounts that the owner names, and the second person who approves them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from agent.limits import MOST_NAMED_ACCOUNTS
from agent.names import GROUP
from apps.accounts.actor import Actor
from apps.accounts.models import User
from apps.contrib.schedulers.limit_orders import has_wider_bounds, settings_of
from apps.contrib.schedulers.models import LimitSettings, Scheduler
from apps.contrib.schedulers.services import find_to_change, lock_to_change, log, refusals_of
from apps.core.errors import Conflict, FieldProblem, Invalid, NotAllowed, Stale

PERCENT_A_DAY = (0, 100)
LAPSE_S = (600, 7_776_000)
_APPROVED = ("percent_a_day", "lapse_s")  # with the accounts, by a second person
NAMES = ("accounts", "canary_account", "percent_a_day", "lapse_s")


def limits_tag(settings: LimitSettings) -> str:
    """Version tag of the bounds: what a caller reviewed."""
    asked = "-".join(str(at.timestamp()) for at in (settings.requested_at, settings.approved_at) if at is not None)
    names = ",".join((*settings.accounts, "", *settings.approved_accounts))
    approved = f"{settings.approved_percent_a_day}-{settings.approved_lapse_s}"
    parts = (names, settings.canary_account, str(settings.percent_a_day), str(settings.lapse_s), asked, approved)
    return sha256("|".join(parts).encode()).hexdigest()[:16]


def change_limit_settings(
    *, name: str, tag: str, changes: Mapping[str, Any], at: datetime, actor: Actor
) -> LimitSettings:
    """Change the given bounds. Naming further accounts, or a wider bound, ends a request for approval: it was for
    others. An account that is no longer named loses its approval, and so does a bound that is made narrower.

    Raises:
        Stale: they changed since.
        Conflict: the scheduler doesn't carry limits (`carries_no_limits`).
        Invalid: `bad_limits`, with the problem of each field.
    """
    unlocked = find_to_change(name, actor, at)
    with refusals_of("scheduler.limits_changed", actor, at, unlocked.policy.slug, name), transaction.atomic():
        scheduler, settings = _lock(unlocked, actor, at)
        if tag != limits_tag(settings):
            raise Stale(_("Another person changed this first"))
        before = {key: getattr(settings, key) for key in NAMES}
        _apply(settings, changes)
        after = {key: getattr(settings, key) for key in NAMES}
        changed = [key for key in NAMES if before[key] != after[key]]
        settings.approved_accounts = [name for name in settings.approved_accounts if name in set(settings.accounts)]
        for key in _APPROVED:
            approved = getattr(settings, f"approved_{key}")
            if approved is not None:
                setattr(settings, f"approved_{key}", min(approved, getattr(settings, key)))
        if not _is_requested(settings):
            _forget_request(settings)
        if changed:
            _save(scheduler, settings, at)
            was, is_now = ({key: values[key] for key in changed} for values in (before, after))
            log("scheduler.limits_changed", scheduler, at, actor, before=was, after=is_now)
    return settings


def request_limits(*, name: str, tag: str, at: datetime, actor: Actor) -> LimitSettings:
    """Ask a second person to approve the named accounts, the part a day, and the time to the lapse.

    Raises:
        Stale: the bounds changed since.
        Conflict: the scheduler doesn't carry limits, or all of it is approved (`nothing_to_approve`).
        NotAllowed: the caller isn't a person.
    """
    person = _require_person(actor)
    unlocked = find_to_change(name, actor, at)
    with refusals_of("scheduler.limits_requested", actor, at, unlocked.policy.slug, name), transaction.atomic():
        scheduler, settings = _lock(unlocked, actor, at)
        if tag != limits_tag(settings):
            raise Stale(_("Another person changed this first"))
        is_covered = set(settings.accounts) <= set(settings.approved_accounts) and not has_wider_bounds(settings)
        if is_covered or not settings.accounts:
            raise Conflict(_("Every named account and bound is approved."), code="nothing_to_approve")
        settings.requested_accounts, settings.requested_at = list(settings.accounts), at
        settings.requested_by, settings.requested_by_name = person, actor.name
        bounds = {key: getattr(settings, key) for key in _APPROVED}
        for key, value in bounds.items():
            setattr(settings, f"requested_{key}", value)
        _save(scheduler, settings, at)
        log("scheduler.limits_requested", scheduler, at, actor, accounts=settings.accounts, **bounds)
    return settings


def approve_limits(*, name: str, tag: str, at: datetime, actor: Actor) -> LimitSettings:
    """Approve the requested accounts, as a person other than the one who asked.

    Raises:
        Stale: the bounds changed since.
        Conflict: nothing is requested (`nothing_to_approve`).
        NotAllowed: the caller asked, or isn't a person (`second_person_needed`).
    """
    person = _require_person(actor)
    unlocked = find_to_change(name, actor, at)
    with refusals_of("scheduler.limits_approved", actor, at, unlocked.policy.slug, name), transaction.atomic():
        scheduler, settings = _lock(unlocked, actor, at)
        if tag != limits_tag(settings):
            raise Stale(_("Another person changed this first"))
        if settings.requested_at is None:
            raise Conflict(_("No approval is requested."), code="nothing_to_approve")
        if settings.requested_by_id is None or settings.requested_by_id == person.pk:
            raise NotAllowed(_("A person other than the one who asked has to approve."), code="second_person_needed")
        requested = set(settings.requested_accounts)
        settings.approved_accounts = [account for account in settings.accounts if account in requested]
        bounds = {key: getattr(settings, key) for key in _APPROVED}
        for key, value in bounds.items():
            setattr(settings, f"approved_{key}", value)
        settings.approved_at, settings.approved_by_name = at, actor.name
        requested_by = settings.requested_by_name
        _forget_request(settings)
        _save(scheduler, settings, at)
        accounts = settings.approved_accounts
        log("scheduler.limits_approved", scheduler, at, actor, accounts=accounts, requested_by=requested_by, **bounds)
    return settings


def _lock(unlocked: Scheduler, actor: Actor, at: datetime) -> tuple[Scheduler, LimitSettings]:
    scheduler = lock_to_change(unlocked, actor, at)
    if scheduler.carries != Scheduler.Carries.LIMITS:
        raise Conflict(_("This scheduler doesn’t send account limits."), code="carries_no_limits")
    return scheduler, settings_of(scheduler)


def _save(scheduler: Scheduler, settings: LimitSettings, at: datetime) -> None:
    settings.scheduler = scheduler
    settings.save()
    scheduler.revision += 1
    scheduler.changed_at = at
    scheduler.save(update_fields=["revision", "changed_at"])


def _forget_request(settings: LimitSettings) -> None:
    settings.requested_accounts, settings.requested_at = [], None
    settings.requested_by, settings.requested_by_name = None, ""
    settings.requested_percent_a_day = settings.requested_lapse_s = None


def _is_requested(settings: LimitSettings) -> bool:
    """Whether what is asked for covers the accounts and bounds of now."""
    if settings.requested_at is None or not set(settings.accounts) <= set(settings.requested_accounts):
        return False
    return all(getattr(settings, key) <= (getattr(settings, f"requested_{key}") or 0) for key in _APPROVED)


def _require_person(actor: Actor) -> User:
    if actor.user is None:
        raise NotAllowed(_("Only a person can ask for an approval, or give it."), code="second_person_needed")
    return actor.user


def _apply(settings: LimitSettings, changes: Mapping[str, Any]) -> None:
    problems: list[FieldProblem] = []
    for key, value in changes.items():
        try:
            setattr(settings, key, _checked(key, value))
        except ValueError as error:
            problems.append(FieldProblem(key, str(error)))
    if not problems and settings.canary_account and settings.canary_account not in settings.accounts:
        problems.append(FieldProblem("canary_account", _("It has to be one of the named accounts.")))
    if problems:
        raise Invalid(_("The bounds of limits are invalid."), code="bad_limits", fields=problems)


def _checked(key: str, value: Any) -> Any:
    if key == "accounts":
        return _accounts(value)
    if key == "canary_account":
        return "" if value in (None, "") else _account(value)
    if key in ("percent_a_day", "lapse_s"):
        least, most = PERCENT_A_DAY if key == "percent_a_day" else LAPSE_S
        if type(value) is not int or not least <= value <= most:
            raise ValueError(_("A whole number from %(least)d to %(most)d.") % {"least": least, "most": most})
        return value
    raise ValueError(_("There is: %(names)s.") % {"names": ", ".join(NAMES)})


def _accounts(value: Any) -> list[str]:
    if not isinstance(value, Sequence) or isinstance(value, str) or len(value) > MOST_NAMED_ACCOUNTS:
        raise ValueError(_("Write at most %(n)d names.") % {"n": MOST_NAMED_ACCOUNTS})
    return sorted({_account(name) for name in value})


def _account(value: Any) -> str:
    if not isinstance(value, str) or not GROUP.fullmatch(value):
        raise ValueError(_("This is no name of an account: %(name)s") % {"name": str(value)[:60]})
    if value == "root":
        raise ValueError(_("Everything runs below root: it never gets a limit."))
    return value
