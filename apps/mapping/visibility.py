"""What of a tree an actor may see, computed or not: entries by their rights, and those of their own accounts."""

from __future__ import annotations

from datetime import datetime

import numpy as np

from apps.accounts.actor import Actor
from apps.accounts.names.account_ids import AccountKey
from apps.accounts.selectors import list_accounts_of
from apps.core.errors import NotAllowed
from apps.mapping.rules.resolver import UNMAPPED
from apps.mapping.rules.rule_set import load_rulebook
from apps.policies.access.scope import Rights, Visibility, visible_entries
from apps.policies.history.past_visibility import seen_then
from apps.policies.models import Policy
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_tree


def own_keys(actor: Actor) -> list[AccountKey]:
    """The actor's accounts; without any, the user name alone."""
    if actor.user is None:
        return []
    accounts = list_accounts_of(actor.user)
    keys = [AccountKey(a.namespace, a.user_name, a.group_name, a.dn, a.fqan, a.project) for a in accounts]
    return keys or [AccountKey("", actor.user.username)]


def see(*, policy: Policy, tree: TreeColumns, at: datetime, actor: Actor, rights: Rights | None = None) -> Visibility:
    """What of any of its trees the actor may see, computed or not: own accounts are placed by the rules of now.

    rights: the actor's, if they are known already.
    """
    resolver = load_rulebook(policy, tree, of=actor.user).on(tree) if actor.user is not None else None
    own = {resolver.resolve(key).entry for key in own_keys(actor)} - {UNMAPPED} if resolver is not None else set()
    return visible_entries(policy=policy, tree=tree, actor=actor, at=at, own_entries=sorted(own), rights=rights)


def see_then(*, policy: Policy, tree: TreeColumns, at: datetime, actor: Actor) -> Visibility:
    """What of a past tree the actor may see, by current grants: what was theirs to see then; of entries that
    still exist, only what is theirs now. Read-only.
    """
    then = see(policy=policy, tree=tree, at=at, actor=actor)
    mask = then.mask
    if not then.all_visible:
        mask = seen_then(then, see(policy=policy, tree=load_tree(policy), at=at, actor=actor))
    nothing = np.zeros(len(tree), dtype=np.bool_)
    return Visibility(tree, mask, nothing, bool(mask.all()), nothing, then.outright & mask, nothing)


def load_whole_tree(*, policy: Policy, number: int, at: datetime, actor: Actor) -> TreeColumns:
    """For readers of the whole mapping: a document with gaps could be published by mistake."""
    tree = load_tree(policy, number)
    if not see_then(policy=policy, tree=tree, at=at, actor=actor).all_visible:
        raise NotAllowed("You see a part of this policy only: ask for the tree of that part.", code="partial_view")
    return tree
