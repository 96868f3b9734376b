"""Who sees which numbers of a user at an entry, by the current rights: by role, never by name."""

from __future__ import annotations

from collections import Counter
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Q

from apps.accounts.actor import Actor
from apps.accounts.models import User
from apps.core import clock
from apps.core.errors import NotAllowed
from apps.explain.my_priority import MyPriority
from apps.policies.access.scope import EVERYBODY
from apps.policies.models import Grant, Policy
from apps.policies.selectors import get_policy
from apps.policies.tree.stored import load_tree
from apps.priorities.sentences import Message, say

Verb = Grant.Verb


def who_sees_me(mine: MyPriority, *, actor: Actor) -> list[Message]:
    """What colleagues, role holders and administrators see of a user's own entry."""
    if actor.user is None or mine.entry_uid is None:
        raise NotAllowed("Sign in to see what others see about you.")
    policy = get_policy(slug=mine.policy_slug, actor=actor, scope="self:read")
    lineage = {step.uid: step.name for step in mine.walk}
    is_open = policy.visibility == Policy.Visibility.TREE
    by_grants = _by_grants(policy, lineage, actor.user)
    told = [say("seen.open", policy=policy.name)] if is_open else []
    if not is_open and not any(said.key.endswith("_all") for said in by_grants):
        told = [say("seen.closed")]
    told += by_grants
    n_admins = User.objects.filter(is_active=True, is_superuser=True).exclude(pk=actor.user.pk).count()
    if n_admins:
        told.append(say("seen.administrators", n=n_admins))
    return [*told, say("seen.schedulers")]


def _by_grants(policy: Policy, lineage: dict[UUID, str], user: User) -> list[Message]:
    """One sentence for each role at each level, the nearest first; the user's own roles are left out."""
    in_force = Q(expires_at=None) | Q(expires_at__gt=clock.now())
    names = {load_tree(policy).uuid(0): policy.name, **lineage}
    grants = Grant.objects.filter(in_force, policy=policy, entry_uid__in=list(names))
    people: Counter[tuple[UUID, str, str]] = Counter()
    groups: set[tuple[UUID, str, str, str]] = set()
    for grant in grants:
        kind = _kind(grant)
        if grant.people:
            groups.add((grant.entry_uid, grant.role, kind, grant.people))
        elif grant.user_id != user.pk:
            people[grant.entry_uid, grant.role, kind] += 1
    order = list(reversed(list(names)))
    found = [
        (uid, role, say(f"seen.{kind}", n=n, **_about(names[uid], role))) for (uid, role, kind), n in people.items()
    ]
    for uid, role, kind, who in groups:
        suffix = "all" if who == EVERYBODY else "group"
        found.append((uid, role, say(f"seen.{kind}_{suffix}", people=who, **_about(names[uid], role))))
    found.sort(key=lambda each: (order.index(each[0]), each[1], each[2].key))
    return [said for _uid, _role, said in found]


def _about(name: str, role: str) -> dict[str, Any]:
    return {"name": name, "role": str(Grant.Role(role).label), "smallest": settings.FAIRSHARE_SMALLEST_GROUP}


def _kind(grant: Grant) -> str:
    """What a grant shows of a user below it."""
    verbs = set(grant.verbs)
    if Verb.VIEW_MEMBERS in verbs:
        return "by_name"
    if Verb.MAP_ACCOUNTS in verbs:
        return "jobs_by_name"
    return "in_sums" if verbs <= {Verb.VIEW_AGGREGATE} else "name_alone"
