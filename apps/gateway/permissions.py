"""Who may ask the gateway about jobs, who sets its rules, and who reads its ledger."""

from __future__ import annotations

from apps.accounts.actor import Actor
from apps.accounts.models import Token
from apps.core.errors import NotAllowed, NotFound
from apps.gateway.models import Ledger
from apps.policies.access.scope import rules_all
from apps.policies.models import Policy
from apps.policies.selectors import get_policy


def may_use(actor: Actor) -> bool:
    """Administrators, and tokens that an administrator made for a scheduler."""
    if actor.is_admin:
        return True
    token = actor.token
    return token is not None and Token.Scope.SCHEDULERS in token.scopes and token.subtree_uid is None


def policy_to_use(actor: Actor, slug: str) -> Policy:
    """The policy, for those who may have its jobs decided.

    Raises:
        NotFound: there is none, or the token is of another one.
        Archived: nothing is decided there any more.
        NotAllowed: jobs are decided for administrators and schedulers alone.
    """
    policy = get_policy(slug=slug, actor=actor, scope=Token.Scope.SCHEDULERS)
    if not may_use(actor):
        raise NotAllowed("Jobs are decided for administrators, or with a token of scope schedulers.")
    return policy


def policy_to_manage(actor: Actor, slug: str) -> Policy:
    policy = get_policy(slug=slug, actor=actor, scope=Token.Scope.POLICIES_WRITE)
    if not rules_all(actor) or (actor.token is not None and actor.token.subtree_uid is not None):
        raise NotAllowed("Administrators set the rules of a SAM ledger.")
    return policy


def no_ledger(slug: str) -> NotFound:
    return NotFound(f"The policy {slug} has no SAM ledger: PUT policies/{slug}/sam opens one.")


def lock_ledger(policy: Policy) -> Ledger:
    """One at a time in each policy: a decision sees the books of the one before."""
    ledger = Ledger.objects.select_for_update().filter(policy=policy).first()
    if ledger is None:
        raise no_ledger(policy.slug)
    return ledger
