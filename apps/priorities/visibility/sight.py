"""What of a snapshot, or of a revision, an actor may see: the mask that look-ups and documents are asked with."""

from __future__ import annotations

from datetime import datetime

import numpy as np

from apps.accounts.actor import Actor
from apps.accounts.models import Token
from apps.accounts.names.intern import AccountKey
from apps.accounts.selectors import list_accounts_of
from apps.core.errors import NotAllowed
from apps.policies.access.scope import Rights, Visibility, visible_entries
from apps.policies.history.past import seen_then
from apps.policies.models import Grant, Policy
from apps.policies.selectors import get_policy
from apps.policies.tree.columns import Mask, TreeColumns
from apps.policies.tree.stored import load_tree
from apps.priorities.mapping.rules.resolver import UNMAPPED
from apps.priorities.mapping.rules.rule_set import load_rulebook
from apps.priorities.serving import served
from apps.priorities.serving.answers import ServedSnapshot
from apps.priorities.serving.lookup import AccountQuery
from apps.priorities.visibility.settled import told_of

_READS = (Token.Scope.PRIORITIES_READ, Token.Scope.POLICIES_READ, Token.Scope.SELF_READ)


def own_queries(actor: Actor) -> list[AccountQuery]:
    """The actor's accounts as look-ups; somebody without any is asked for by user name."""
    if actor.user is None:
        return []
    accounts = list_accounts_of(actor.user)
    found = [
        AccountQuery(one.user_name, one.group_name, one.namespace, one.dn, one.fqan, one.project) for one in accounts
    ]
    return found or [AccountQuery(actor.user.username)]


def served_to(*, policy_slug: str, at: datetime, actor: Actor) -> tuple[ServedSnapshot, Mask | None]:
    """The newest snapshot, and of which of its entries the actor is told what it is now; None for all of them."""
    scope = next((scope for scope in _READS if actor.has_scope(scope)), Token.Scope.PRIORITIES_READ)
    policy = get_policy(slug=policy_slug, actor=actor, scope=scope)
    snapshot = served.newest(policy.slug)
    return snapshot, readable_now(policy=policy, snapshot=snapshot, at=at, actor=actor)


def readable_now(*, policy: Policy, snapshot: ServedSnapshot, at: datetime, actor: Actor) -> Mask | None:
    """Entries of the newest snapshot whose numbers of now the actor may be told; None for all of them.

    Through a token: what its scopes give and its owner may be told.
    """
    visibility = _see_in(policy=policy, snapshot=snapshot, at=at, actor=actor)
    mask: Mask = visibility.mask & visibility.outright
    return None if mask.all() else mask


def visible_in(*, policy: Policy, snapshot: ServedSnapshot, at: datetime, actor: Actor) -> Mask:
    """By the one scope function, with the entries of the actor's own accounts."""
    return _see_in(policy=policy, snapshot=snapshot, at=at, actor=actor).mask


def told_in(*, policy: Policy, snapshot: ServedSnapshot, at: datetime, actor: Actor) -> Mask:
    """Entries of a snapshot whose numbers the actor may be told: usage, actual, deviation, priority, rank, factor and
    demand. Of one that isn't the last of a finished day these are the ones told outright.
    """
    visibility = _see_in(policy=policy, snapshot=snapshot, at=at, actor=actor)
    return told_of(policy, snapshot, visibility, at)


def _see_in(*, policy: Policy, snapshot: ServedSnapshot, at: datetime, actor: Actor) -> Visibility:
    own: set[int] = set()
    if actor.has_scope(Token.Scope.SELF_READ):
        own = {entry for query in own_queries(actor) for entry in snapshot.index.find_certain(query)}
    return visible_entries(policy=policy, tree=snapshot.tree, actor=actor, at=at, own_entries=sorted(own))


def reads_sums(*, policy: Policy, tree: TreeColumns, at: datetime, actor: Actor) -> bool:
    """Whether there are entries of which the actor is told sums only, and so those of finished days."""
    everything = actor.user is None or actor.user.is_superuser or policy.visibility == Policy.Visibility.TREE
    if everything:
        return False
    rights = Rights(policy, actor, at)
    by_name = rights.at(Grant.Verb.VIEW_MEMBERS)
    places = (tree.index_of_uid(uid) for uid in rights.anywhere - by_name)
    return any(by_name.isdisjoint(map(tree.uuid, (*tree.ancestors(i), i))) for i in places if i is not None)


def see(*, policy: Policy, tree: TreeColumns, at: datetime, actor: Actor, rights: Rights | None = None) -> Visibility:
    """What of any of its trees the actor may see, computed or not: own accounts are placed by the rules of now.

    rights: the actor's, if they are known already.
    """
    resolver = load_rulebook(policy, tree, of=actor.user).on(tree) if actor.user is not None else None
    keys = (AccountKey(q.namespace, q.user, q.group, q.dn, q.fqan, q.project) for q in own_queries(actor))
    own = {resolver.resolve(key).entry for key in keys} - {UNMAPPED} if resolver is not None else set()
    return visible_entries(policy=policy, tree=tree, actor=actor, at=at, own_entries=sorted(own), rights=rights)


def see_then(*, policy: Policy, tree: TreeColumns, at: datetime, actor: Actor) -> Visibility:
    """What of a tree of the past the actor may see, by the grants of now: what was theirs to see then, and what of it
    is in force still only as far as it is theirs now. Nothing of it can be changed.
    """
    then = see(policy=policy, tree=tree, at=at, actor=actor)
    mask = then.mask
    if not then.all_visible:
        mask = seen_then(then, see(policy=policy, tree=load_tree(policy), at=at, actor=actor))
    nothing = np.zeros(len(tree), dtype=np.bool_)
    return Visibility(tree, mask, nothing, bool(mask.all()), nothing, then.outright & mask, nothing)


def load_whole_tree(*, policy: Policy, number: int, at: datetime, actor: Actor) -> TreeColumns:
    """For who sees all of it: a document with holes could be published by mistake."""
    tree = load_tree(policy, number)
    if not see_then(policy=policy, tree=tree, at=at, actor=actor).all_visible:
        raise NotAllowed("You see a part of this policy only: ask for the tree of that part.", code="partial_view")
    return tree
