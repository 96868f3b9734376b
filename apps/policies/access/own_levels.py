"""At which levels of a policy a user's questions begin: the entries that they answer for."""

from __future__ import annotations

from datetime import datetime

from apps.accounts.actor import Actor
from apps.policies.access.scope import EVERYBODY, Verb, active_grants_of, administers_within_bounds
from apps.policies.models import Policy
from apps.policies.tree.columns import TreeColumns


def list_own_levels(*, policy: Policy, tree: TreeColumns, actor: Actor, at: datetime) -> list[int]:
    """Return the indices of entries by path: those whose children the actor divides, else those of other roles.

    The top for administrators; empty for users without a role, and without the roles of all signed-in users.
    """
    if administers_within_bounds(actor):
        top = 0 if actor.top_uid is None else tree.index_of_uid(actor.top_uid)
        return [] if top is None else [top]
    if actor.user is None:
        return []
    grants = [
        grant
        for grant in active_grants_of(actor.user, at)
        if grant.policy_id == policy.pk and grant.people != EVERYBODY
    ]
    divided = {grant.entry_uid for grant in grants if Verb.EDIT_SHARES in grant.verbs}
    indices = (tree.index_of_uid(uid) for uid in divided or {grant.entry_uid for grant in grants})
    levels = [
        i for i in indices if i is not None and actor.reaches_entry({tree.uuid(j) for j in (*tree.ancestors(i), i)})
    ]
    return sorted(levels, key=tree.path)
