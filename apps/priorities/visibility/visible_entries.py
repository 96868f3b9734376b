"""What of a snapshot an actor may see: the mask that look-ups are asked with."""

from __future__ import annotations

from datetime import datetime

from apps.accounts.actor import Actor
from apps.accounts.models import Token
from apps.mapping.visibility import own_keys
from apps.policies.access.scope import Rights, Visibility, visible_entries
from apps.policies.models import Grant, Policy
from apps.policies.selectors import get_policy
from apps.policies.tree.columns import Mask, TreeColumns
from apps.priorities.serving import store
from apps.priorities.serving.lookup import AccountQuery
from apps.priorities.serving.lookup_index import ServedSnapshot
from apps.priorities.visibility.daily_snapshot import visible_numbers

_READS = (Token.Scope.PRIORITIES_READ, Token.Scope.POLICIES_READ, Token.Scope.SELF_READ)


def own_queries(actor: Actor) -> list[AccountQuery]:
    """The actor's accounts as look-ups; without any, the user name."""
    return [
        AccountQuery(key.user_name, key.group_name, key.namespace, key.dn, key.fqan, key.project)
        for key in own_keys(actor)
    ]


def served_to(*, policy_slug: str, at: datetime, actor: Actor) -> tuple[ServedSnapshot, Mask | None]:
    """The newest snapshot, and which of its entries the actor may see as of now; None for all of them."""
    scope = next((scope for scope in _READS if actor.has_scope(scope)), Token.Scope.PRIORITIES_READ)
    policy = get_policy(slug=policy_slug, actor=actor, scope=scope)
    snapshot = store.newest(policy.slug)
    return snapshot, readable_now(policy=policy, snapshot=snapshot, at=at, actor=actor)


def readable_now(*, policy: Policy, snapshot: ServedSnapshot, at: datetime, actor: Actor) -> Mask | None:
    """Entries of the newest snapshot whose present numbers the actor may see; None for all of them.

    Through a token: within its scopes and its owner's rights.
    """
    visibility = _see_in(policy=policy, snapshot=snapshot, at=at, actor=actor)
    mask: Mask = visibility.mask & visibility.outright
    return None if mask.all() else mask


def visible_in(*, policy: Policy, snapshot: ServedSnapshot, at: datetime, actor: Actor) -> Mask:
    """By the one scope function, with the entries of the actor's own accounts."""
    return _see_in(policy=policy, snapshot=snapshot, at=at, actor=actor).mask


def numbers_visible_in(*, policy: Policy, snapshot: ServedSnapshot, at: datetime, actor: Actor) -> Mask:
    """Entries of a snapshot whose numbers the actor may see: usage, actual, deviation, priority, rank, factor and
    demand. Unless it is the last of a finished day, only those visible in full.
    """
    visibility = _see_in(policy=policy, snapshot=snapshot, at=at, actor=actor)
    return visible_numbers(policy, snapshot, visibility, at)


def _see_in(*, policy: Policy, snapshot: ServedSnapshot, at: datetime, actor: Actor) -> Visibility:
    own: set[int] = set()
    if actor.has_scope(Token.Scope.SELF_READ):
        own = {entry for query in own_queries(actor) for entry in snapshot.index.find_certain(query)}
    return visible_entries(policy=policy, tree=snapshot.tree, actor=actor, at=at, own_entries=sorted(own))


def reads_sums(*, policy: Policy, tree: TreeColumns, at: datetime, actor: Actor) -> bool:
    """Whether the actor sees sums only of some entries, and so only finished days."""
    everything = actor.user is None or actor.user.is_superuser or policy.visibility == Policy.Visibility.TREE
    if everything:
        return False
    rights = Rights(policy, actor, at)
    by_name = rights.at(Grant.Verb.VIEW_MEMBERS)
    places = (tree.index_of_uid(uid) for uid in rights.anywhere - by_name)
    return any(by_name.isdisjoint(map(tree.uuid, (*tree.ancestors(i), i))) for i in places if i is not None)
