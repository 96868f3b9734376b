"""Who connects schedulers, whose agents fetch orders and report, and whose jobs a reader sees."""

from __future__ import annotations

from datetime import datetime

from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.accounts.models import Token
from apps.core.errors import NotAllowed, NotFound
from apps.policies.access.scope import Rights, Verb, require_policy
from apps.policies.models import Policy
from apps.policies.selectors import list_policies
from apps.policies.tree.stored import load_tree
from apps.schedulers.models import Scheduler

READ, WRITE, AGENT = Token.Scope.POLICIES_READ.value, Token.Scope.POLICIES_WRITE.value, Token.Scope.SCHEDULERS.value


def manages(policy: Policy, actor: Actor, at: datetime) -> bool:
    """Whether the actor manages the whole policy, on which a scheduler runs. A token's scopes are checked apart."""
    if actor.user is None:
        return True
    bounds = actor.token
    if not actor.user.is_active or (bounds is not None and bounds.policy_slug not in ("", policy.slug)):
        return False
    if bounds is not None and bounds.subtree_uid is not None and bounds.subtree_uid != load_tree(policy).uuid(0):
        return False
    if actor.user.is_superuser:
        return True
    held = Rights(policy, actor, at).at(Verb.EDIT_STRUCTURE)
    return bool(held) and load_tree(policy).uuid(0) in held


def manages_any(*, at: datetime, actor: Actor) -> bool:
    """Whether there is a policy that the actor manages: asked for on every page."""
    if actor.user is not None and actor.user.is_superuser:
        return True
    return any(manages(policy, actor, at) for policy in list_policies(actor=actor))


def may_read(scheduler: Scheduler, actor: Actor, at: datetime) -> bool:
    """Its settings, passes and checks: managers of the policy, and tokens of theirs for its agent."""
    has_scope = any(actor.has_scope(scope) for scope in (READ, WRITE, AGENT))
    return has_scope and manages(scheduler.policy, actor, at)


def require_read(scheduler: Scheduler, actor: Actor, at: datetime) -> None:
    """Others get the answer for a scheduler that doesn't exist."""
    if not may_read(scheduler, actor, at):
        raise no_scheduler(scheduler.name)


def require_manage(policy: Policy, actor: Actor, at: datetime) -> None:
    """
    Raises:
        NotFound: a token of another policy.
        NotAllowed: the actor doesn't manage the whole policy.
    """
    require_policy(actor, policy.slug)
    if not actor.has_scope(WRITE):
        raise NotAllowed(f"This token lacks the scope {WRITE}: make one that has it.", code="scope_missing")
    if not manages(policy, actor, at):
        raise NotAllowed(_("Only managers of the whole policy connect schedulers."))


def require_agent(scheduler: Scheduler, actor: Actor, at: datetime) -> None:
    """
    Raises:
        NotFound: the actor doesn't manage the policy.
        NotAllowed: the token is for something else.
    """
    if not manages(scheduler.policy, actor, at):
        raise no_scheduler(scheduler.name)
    if not actor.has_scope(AGENT):
        raise NotAllowed(f"This token lacks the scope {AGENT}: make one that has it.", code="scope_missing")


def find_scheduler(name: str) -> Scheduler:
    """By its name; the caller checks the rights.

    Raises:
        NotFound: there is none.
    """
    found = Scheduler.objects.select_related("policy").filter(name=name[:100]).first() if "\0" not in name else None
    if found is None:
        raise no_scheduler(name)
    return found


def no_scheduler(name: str) -> NotFound:
    return NotFound(_("There is no scheduler %(name)r.") % {"name": name[:64]})
