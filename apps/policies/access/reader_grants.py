"""Grant the owner of a scheduler's token the read access that the token needs: a token never reads more than its owner.

Only users who see every entry may create such a token. The owner's access is a normal grant: it is listed with all
others, expires with the token, and can be withdrawn.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import transaction

from apps.accounts.actor import Actor
from apps.accounts.models import Token
from apps.policies.access.authority import GrantChange, GrantTerms
from apps.policies.access.delegation import change_grant, create_grant, tag_of
from apps.policies.access.scope import Verb, grants_of
from apps.policies.models import Grant, Policy
from apps.policies.tree.stored import load_tree


@transaction.atomic
def grant_owner_read(token: Token, *, at: datetime, actor: Actor) -> list[Policy]:
    """Grant the token's owner the right to see names where a `priorities:read` token needs it; return those policies.

    A token that isn't bound to a policy covers the policies that exist now.

    Raises:
        NotAllowed: the actor may not give this grant.
    """
    owner = token.user
    if Token.Scope.PRIORITIES_READ not in token.scopes or owner.is_superuser:
        return []
    policies = Policy.objects.filter(slug=token.policy_slug) if token.policy_slug else Policy.objects.all()
    granted = []
    for policy in policies.exclude(visibility=Policy.Visibility.TREE).order_by("slug"):
        tree = load_tree(policy)
        top = tree.uuid(0) if token.subtree_uid is None else token.subtree_uid
        i = tree.index_of_uid(top)
        if i is not None and not _sees(policy, token, {tree.uuid(each) for each in (*tree.ancestors(i), i)}, at):
            _give(policy, token, top, at, actor)
            granted.append(policy)
    return granted


def _sees(policy: Policy, token: Token, lineage: set[UUID], at: datetime) -> bool:
    """Return whether the owner already has the right at least until the token expires."""
    held = grants_of(policy, token.user, at).filter(entry_uid__in=lineage, verbs__contains=[Verb.VIEW_MEMBERS])
    return any(each.expires_at is None or each.expires_at >= token.expires_at for each in held)


def _give(policy: Policy, token: Token, entry_uid: UUID, at: datetime, actor: Actor) -> None:
    reason = f"Reads priorities with the token {token.name}"[:512]
    twin = Grant.objects.filter(policy=policy, entry_uid=entry_uid, user=token.user, role=Grant.Role.VIEWER).first()
    if twin is None:
        create_grant(
            policy_slug=policy.slug,
            entry_uid=entry_uid,
            terms=GrantTerms(
                username=token.user.username,
                role=Grant.Role.VIEWER,
                verbs=[Verb.VIEW_MEMBERS],
                reason=reason,
                expires_at=token.expires_at,
            ),
            at=at,
            actor=actor,
        )
        return
    ends = None if twin.expires_at is None else max(twin.expires_at, token.expires_at)
    change_grant(
        policy_slug=policy.slug,
        grant_id=twin.pk,
        tag=tag_of(twin),
        change=GrantChange(verbs=[*twin.verbs, Verb.VIEW_MEMBERS], reason=reason, expires_at=ends),
        at=at,
        actor=actor,
    )
