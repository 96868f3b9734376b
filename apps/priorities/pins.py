"""Pinned entries of a user. They affect only the user's own pages, so the audit log doesn't record them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from uuid import UUID

from apps.accounts.actor import Actor
from apps.accounts.models import User
from apps.accounts.request_cache import once_per_request
from apps.core.errors import Conflict, DomainError, NotAllowed
from apps.policies.models import Pin
from apps.priorities.selectors.rows import EntryRow, PolicyView, open_view

MOST_PINS = 50


def list_pinned(*, actor: Actor) -> list[tuple[PolicyView, EntryRow]]:
    """The actor's pinned entries, oldest pin first; archived and hidden entries are left out."""
    if actor.user is None:
        return []
    views: dict[str, PolicyView | None] = {}
    rows = []
    for pin in _pins_of(actor.user):
        slug = pin.policy.slug
        if slug not in views:
            views[slug] = _view_or_none(slug, actor)
        view = views[slug]
        i = None if view is None else view.tree.index_of_uid(pin.entry_uid)
        if view is not None and i is not None and view.visibility.may_see(i):
            rows.append((view, view.row(i)))
    return rows


def pinned_among(*, policy_slug: str, uids: Sequence[UUID], actor: Actor) -> set[UUID]:
    """Which of these entries the actor has pinned."""
    if actor.user is None:
        return set()
    return {pin.entry_uid for pin in _pins_of(actor.user) if pin.policy.slug == policy_slug} & set(uids)


def _pins_of(user: User) -> Sequence[Pin]:
    """At most MOST_PINS, oldest first; read once per request."""
    rows = Pin.objects.filter(user=user).select_related("policy").order_by("pk")
    return once_per_request(("pins", user.pk), partial(list, rows))


def pin_entry(*, policy_slug: str, uid: UUID, at: datetime, actor: Actor) -> None:
    """Pin a visible entry; pinning it again changes nothing."""
    if actor.user is None:
        raise NotAllowed("Only a person pins entries.")
    view = open_view(policy_slug=policy_slug, actor=actor)
    view.require(uid)
    known = Pin.objects.filter(user=actor.user)
    if not known.filter(policy=view.policy, entry_uid=uid).exists() and known.count() >= MOST_PINS:
        raise Conflict(f"You have {MOST_PINS} pins: remove one first.", code="too_many_pins")
    Pin.objects.get_or_create(user=actor.user, policy=view.policy, entry_uid=uid, defaults={"created_at": at})


def unpin_entry(*, policy_slug: str, uid: UUID, actor: Actor) -> None:
    """Remove a pin, also from an entry that is archived or hidden now."""
    if actor.user is None:
        raise NotAllowed("Only a person has pins.")
    Pin.objects.filter(user=actor.user, policy__slug=policy_slug, entry_uid=uid).delete()


def _view_or_none(slug: str, actor: Actor) -> PolicyView | None:
    try:
        return open_view(policy_slug=slug, actor=actor)
    except DomainError:  # no longer visible to this user
        return None
