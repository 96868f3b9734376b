"""Permission checks for connecting schedulers, for their agents, and for reading their settings."""

from __future__ import annotations

from datetime import datetime

from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.accounts.models import Token
from apps.contrib.schedulers.models import Scheduler
from apps.core.errors import NotAllowed, NotFound
from apps.policies.access.managers import manages
from apps.policies.access.scope import holds_a_role, require_policy
from apps.policies.models import Policy

READ, WRITE, AGENT = Token.Scope.POLICIES_READ.value, Token.Scope.POLICIES_WRITE.value, Token.Scope.SCHEDULERS.value


def may_read(scheduler: Scheduler, actor: Actor, at: datetime) -> bool:
    """Whether the actor may read settings, passes and checks: managers of the policy, also with a token for the
    agent.
    """
    has_scope = any(actor.has_scope(scope) for scope in (READ, WRITE, AGENT))
    return has_scope and actor.reaches_scheduler(scheduler.name) and manages(scheduler.policy, actor, at)


def require_read(scheduler: Scheduler, actor: Actor, at: datetime) -> None:
    """Raise NotFound for actors who may not read the scheduler."""
    if not may_read(scheduler, actor, at):
        raise no_scheduler(scheduler.name)


def require_role(actor: Actor, at: datetime) -> None:
    """Raise NotAllowed for actors without a role anywhere, who manage no policy either."""
    if not holds_a_role(at=at, actor=actor):
        raise NotAllowed(_("Only managers of the whole policy may connect schedulers."))


def require_manage(policy: Policy, actor: Actor, at: datetime) -> None:
    """Check that the actor may connect and change schedulers of the policy.

    Raises:
        NotFound: the token is bound to another policy.
        NotAllowed: the actor doesn't manage the whole policy.
    """
    require_policy(actor, policy.slug)
    if not actor.has_scope(WRITE):
        raise NotAllowed(f"This token lacks the scope {WRITE}: create one with it.", code="scope_missing")
    if not manages(policy, actor, at):
        raise NotAllowed(_("Only managers of the whole policy may connect schedulers."))


def require_agent(scheduler: Scheduler, actor: Actor, at: datetime) -> None:
    """Check that the actor may act as the scheduler's agent.

    Raises:
        NotFound: the actor doesn't manage the policy, or the token is bound to another scheduler.
        NotAllowed: the token lacks the scope.
    """
    if not (actor.reaches_scheduler(scheduler.name) and manages(scheduler.policy, actor, at)):
        raise no_scheduler(scheduler.name)
    if not actor.has_scope(AGENT):
        raise NotAllowed(f"This token lacks the scope {AGENT}: create one with it.", code="scope_missing")


def require_reach(name: str, actor: Actor) -> None:
    """Raise NotFound for a token that is bound to another scheduler, whatever its scopes are."""
    if not actor.reaches_scheduler(name):
        raise no_scheduler(name)


def find_scheduler(name: str) -> Scheduler:
    """Find a scheduler by name; the caller checks permission.

    Raises:
        NotFound: there is none.
    """
    scheduler = Scheduler.objects.select_related("policy").filter(name=name[:100]).first() if "\0" not in name else None
    if scheduler is None:
        raise no_scheduler(name)
    return scheduler


def no_scheduler(name: str) -> NotFound:
    return NotFound(_("There is no scheduler %(name)r.") % {"name": name[:64]})
