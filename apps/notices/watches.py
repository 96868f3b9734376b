"""Watches: a user's own notice rules for single entries, each until a date."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction

from apps.accounts.actor import Actor
from apps.accounts.models import User
from apps.core.errors import DomainError, FieldProblem, Invalid, NotAllowed, NotFound
from apps.notices.models import Watch
from apps.priorities.selectors.rows import EntryRow, open_view

DAYS, LONGEST_DAYS, MOST = 14, 180, 100  # default and longest; watches of one user
_KEPT = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class WatchLine:
    """One watch with its entry as its user sees it."""

    watch: Watch
    row: EntryRow


def watch_entry(*, policy_slug: str, uid: UUID, days: int = DAYS, at: datetime, actor: Actor) -> Watch:
    """Create a watch, or give an existing one a new end.

    Raises:
        Invalid: `days` out of range, or the user has too many watches.
        NotFound: the user sees no such entry.
        NotAllowed: its numbers are hidden from the user.
    """
    user = _person(actor)
    if not 1 <= days <= LONGEST_DAYS:
        message = f"is a whole number from 1 to {LONGEST_DAYS}"
        raise Invalid(f"days {message}.", fields=[FieldProblem("days", message)])
    view = open_view(policy_slug=policy_slug, actor=actor, is_live=True)
    row = view.row(view.require(uid))
    if row.suppressed:
        raise NotAllowed("The numbers of this entry are hidden from you.")
    with transaction.atomic():
        Watch.objects.filter(user=user, ends_at__lt=at - _KEPT).delete()
        given: dict[str, Any] = {"begins_at": at, "ends_at": at + timedelta(days=days), "actual_before": row.actual}
        if Watch.objects.filter(user=user).exclude(policy=view.policy, entry_uid=uid).count() >= MOST:
            raise Invalid(f"You watch {MOST} entries already: stop one first.", code="too_many")
        return Watch.objects.update_or_create(user=user, policy=view.policy, entry_uid=uid, defaults=given)[0]


def list_watches(*, at: datetime, actor: Actor) -> list[WatchLine]:
    """The actor's current watches, the first to end first."""
    if actor.user is None:
        return []
    found = Watch.objects.filter(user=actor.user, ends_at__gt=at, policy__archived_at=None).select_related("policy")
    lines = []
    for watch in found.order_by("ends_at", "pk"):
        try:
            view = open_view(policy_slug=watch.policy.slug, actor=actor, is_live=True)
            lines.append(WatchLine(watch, view.row(view.require(watch.entry_uid))))
        except DomainError:
            continue
    return lines


def stop_watching(*, id: int, actor: Actor) -> None:
    n_deleted = Watch.objects.filter(pk=id, user=_person(actor)).delete()[0] if 0 < id < 2**63 else 0
    if not n_deleted:
        raise NotFound(f"There is no watch {id}.")


def _person(actor: Actor) -> User:
    if actor.user is None:
        raise NotAllowed("Only people watch entries.")
    return actor.user
