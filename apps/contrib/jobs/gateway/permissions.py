"""Permission checks for deciding jobs, setting rules and reading ledgers."""

from __future__ import annotations

from apps.accounts.actor import Actor
from apps.accounts.models import Token
from apps.contrib.jobs.models import Ledger
from apps.core.errors import NotAllowed, NotFound
from apps.policies.access.scope import administers_policies
from apps.policies.models import Policy
from apps.policies.selectors import get_policy


def may_use(actor: Actor) -> bool:
    """Whether the actor may have jobs of reached policies decided: administrators, and tokens of scope schedulers.

    None bound to a subtree: each decision weighs all groups, and books for any of them.
    """
    if actor.top_uid is not None:
        return False
    token = actor.token
    is_scheduler = token is not None and Token.Scope.SCHEDULERS in token.scopes
    return is_scheduler or administers_policies(actor, Token.Scope.ADMIN)


def policy_to_use(actor: Actor, slug: str) -> Policy:
    """The policy, if the actor may have its jobs decided.

    Raises:
        NotFound: there is no such policy, or the token is bound to another one.
        Archived: the policy is archived.
        NotAllowed: the actor is neither administrator nor scheduler.
    """
    policy = get_policy(slug=slug, actor=actor, scope=Token.Scope.SCHEDULERS)
    if not may_use(actor):
        raise NotAllowed("Only administrators and tokens of scope schedulers may have jobs decided.")
    return policy


def policy_to_manage(actor: Actor, slug: str) -> Policy:
    """The policy, if the actor may set the rules of its ledger.

    Raises:
        NotFound: there is no such policy.
        NotAllowed: the actor is not an administrator of all of it.
    """
    policy = get_policy(slug=slug, actor=actor, scope=Token.Scope.POLICIES_WRITE)
    if not administers_policies(actor):
        raise NotAllowed("Only administrators may set the rules of a SAM ledger.")
    return policy


def no_ledger(slug: str) -> NotFound:
    return NotFound(f"The policy {slug} has no SAM ledger: PUT policies/{slug}/sam creates one.")


def lock_ledger(policy: Policy) -> Ledger:
    """Lock the policy's ledger, so that each decision sees the bookings of the previous one."""
    ledger = Ledger.objects.select_for_update(no_key=True).filter(policy=policy).first()
    if ledger is None:
        raise no_ledger(policy.slug)
    return ledger
