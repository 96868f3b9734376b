"""Who leads entries: the people with a right of their own to change the shares there, for members who have to ask."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from uuid import UUID

from django.db.models import Q

from apps.accounts.actor import Actor
from apps.policies.access.scope import Verb
from apps.policies.models import Grant

MOST_NAMED_LEADS = 3


def names_of_leads(
    *, policy_slug: str, uids: Collection[UUID], at: datetime, actor: Actor
) -> Mapping[UUID, Sequence[str]]:
    """Display names by entry, in order, at most `MOST_NAMED_LEADS` of each; without the actor, who needn't be asked.

    uids: entries on the path of an account of the actor, who may know who decides about the shares there.
    """
    grants = (
        Grant.objects.filter(policy__slug=policy_slug, entry_uid__in=uids, verbs__contains=[Verb.EDIT_SHARES])
        .filter(Q(expires_at=None) | Q(expires_at__gt=at), user__is_active=True)
        .select_related("user")
        .order_by("created_at", "pk")
    )
    names: dict[UUID, list[str]] = {}
    for grant in grants:
        if grant.user is None or grant.user == actor.user:
            continue
        known, name = names.setdefault(grant.entry_uid, []), str(grant.user)
        if name not in known and len(known) < MOST_NAMED_LEADS:
            known.append(name)
    return names
