"""Where rules and webhooks apply: the site, a whole policy, or, for webhooks, an entry and what is below it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from apps.accounts.actor import Actor
from apps.core.errors import NotAllowed
from apps.mapping.permissions import load_visibility
from apps.policies.access.scope import WRITE, administers_policies, require_scope
from apps.policies.models import Policy
from apps.policies.selectors import get_policy
from apps.policies.tree.stored import load_tree


@dataclass(frozen=True, slots=True)
class Place:
    """The site without a policy; the whole policy without an entry."""

    policy: Policy | None = None
    entry_uid: UUID | None = None


def place_of(*, policy_slug: str = "", entry_uid: UUID | None = None, actor: Actor) -> Place:
    """Place by names. Raises NotFound for what the actor may not see."""
    return Place(policy=get_policy(slug=policy_slug, actor=actor), entry_uid=entry_uid) if policy_slug else Place()


def sees_whole(policy: Policy, at: datetime, actor: Actor) -> bool:
    """Whether the actor sees the policy's root: tokens that are bound to a part don't."""
    return load_visibility(policy=policy, tree=load_tree(policy), at=at, actor=actor).may_see(0)


def may_set(place: Place, at: datetime, actor: Actor) -> bool:
    """Whether the actor decides here: administrators everywhere, managers at their entries and below."""
    if not actor.has_scope(WRITE):
        return False
    if place.policy is None:
        return actor.is_admin
    tree = load_tree(place.policy)
    i = 0 if place.entry_uid is None else tree.index_of_uid(place.entry_uid)
    if i is None:
        return administers_policies(actor)
    sees = load_visibility(policy=place.policy, tree=tree, at=at, actor=actor)
    return sees.may_see(i) and sees.may_divide(i)


def require_place(place: Place, at: datetime, actor: Actor) -> None:
    """Raises:
    NotFound: the actor sees no such entry.
    NotAllowed: others decide there.
    """
    require_scope(actor, WRITE)
    if place.policy is not None and place.entry_uid is not None:
        tree = load_tree(place.policy)
        load_visibility(policy=place.policy, tree=tree, at=at, actor=actor).require(tree.index_of_uid(place.entry_uid))
    if not may_set(place, at, actor):
        raise NotAllowed("Administrators set this for the site; managers set it for what they manage.")
