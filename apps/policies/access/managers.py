"""Who manages a whole policy: a permission over its root to change the structure."""

from __future__ import annotations

from datetime import datetime

from apps.accounts.actor import Actor
from apps.policies.access.scope import Rights, Verb
from apps.policies.models import Policy
from apps.policies.selectors import list_policies
from apps.policies.tree.stored import load_tree


def manages(policy: Policy, actor: Actor, at: datetime) -> bool:
    """Whether the actor manages the whole policy. Scopes of tokens are checked separately."""
    if not actor.reaches_policy(policy.slug) or (actor.user is not None and not actor.user.is_active):
        return False
    if actor.top_uid is not None and actor.top_uid != load_tree(policy).uuid(0):
        return False
    if actor.administers:
        return True
    held = Rights(policy, actor, at).at(Verb.EDIT_STRUCTURE)
    return bool(held) and load_tree(policy).uuid(0) in held


def manages_any(*, at: datetime, actor: Actor) -> bool:
    """Whether the actor manages any policy; evaluated on every page."""
    if actor.user is not None and actor.administers and not actor.is_bound:
        return True
    return any(manages(policy, actor, at) for policy in list_policies(actor=actor))
