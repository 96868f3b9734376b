"""Who may read experiments of a policy (who may see all its numbers) and who may make them (its managers)."""

from __future__ import annotations

from datetime import datetime

from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.accounts.models import Token
from apps.core.errors import NotAllowed
from apps.policies.access.managers import manages
from apps.policies.access.scope import visible_entries
from apps.policies.models import Policy
from apps.policies.selectors import get_policy
from apps.policies.tree.stored import load_tree


def policy_to_read(*, slug: str, at: datetime, actor: Actor) -> Policy:
    """The policy, also an archived one, if the actor may read its experiments.

    Raises:
        NotFound: there is no such policy, or the token is bound to another one.
        NotAllowed: the numbers of some entries are hidden from the actor.
    """
    policy = get_policy(slug=slug, actor=actor, is_past=True)
    if not sees_all_numbers(policy, at=at, actor=actor):
        raise numbers_hidden()
    return policy


def numbers_hidden() -> NotAllowed:
    return NotAllowed(_("Experiments show waits and shares of all entries: they are for those who may see these."))


def sees_all_numbers(policy: Policy, *, at: datetime, actor: Actor) -> bool:
    """Whether the actor sees the numbers of every entry of the policy."""
    if manages(policy, actor, at):
        return True
    return visible_entries(policy=policy, tree=load_tree(policy), actor=actor, at=at).shows_all_numbers


def policy_to_manage(*, slug: str, at: datetime, actor: Actor) -> Policy:
    """The policy, if the actor may make, cancel and remove experiments.

    Raises:
        NotFound, Archived: as `get_policy`.
        NotAllowed: the actor doesn't manage the whole policy.
    """
    policy = get_policy(slug=slug, actor=actor, scope=Token.Scope.POLICIES_WRITE)
    if not may_manage(policy, at=at, actor=actor):
        raise NotAllowed(_("Only managers of the whole policy make experiments."))
    return policy


def may_manage(policy: Policy, *, at: datetime, actor: Actor) -> bool:
    return policy.archived_at is None and actor.has_scope(Token.Scope.POLICIES_WRITE) and manages(policy, actor, at)
