"""The entries whose names or numbers a person may see."""

from __future__ import annotations

from datetime import datetime

from apps.accounts.account_keys import canonical
from apps.accounts.actor import Actor
from apps.accounts.models import Token
from apps.mapping.permissions import own_keys
from apps.policies.access.scope import Rights, Visibility, named_accounts, visible_entries
from apps.policies.models import Grant, Policy
from apps.policies.selectors import get_policy
from apps.policies.tree.columns import Mask, TreeColumns
from apps.priorities.serving import store
from apps.priorities.serving.lookup import AccountNames, AccountQuery, Readable
from apps.priorities.serving.served_snapshot import ServedSnapshot
from apps.priorities.visibility import visible_numbers

_READS = (Token.Scope.PRIORITIES_READ, Token.Scope.POLICIES_READ, Token.Scope.SELF_READ)


def own_queries(actor: Actor) -> list[AccountQuery]:
    """Look-up queries of the actor's accounts; the user name if there is none."""
    return [
        AccountQuery(key.user_name, key.group_name, key.namespace, key.dn, key.fqan, key.project)
        for key in own_keys(actor)
    ]


def newest_for(*, policy_slug: str, at: datetime, actor: Actor) -> tuple[ServedSnapshot, Readable | None]:
    """The newest snapshot, and what of its current numbers and names the actor may see; None for all."""
    scope = next((scope for scope in _READS if actor.has_scope(scope)), Token.Scope.PRIORITIES_READ)
    policy = get_policy(slug=policy_slug, actor=actor, scope=scope)
    snapshot = store.newest(policy.slug)
    return snapshot, readable_now(policy=policy, snapshot=snapshot, at=at, actor=actor)


def readable_now(*, policy: Policy, snapshot: ServedSnapshot, at: datetime, actor: Actor) -> Readable | None:
    """The entries whose current numbers the actor may see in full, and the accounts by name; None for all.

    A token is limited by its scopes and by the rights of its owner.
    """
    visibility = _visibility_in(policy=policy, snapshot=snapshot, at=at, actor=actor)
    mask: Mask = visibility.mask & visibility.outright
    names = names_in(policy=policy, snapshot=snapshot, at=at, actor=actor)
    return None if mask.all() and names is None else Readable(mask, names)


def names_in(*, policy: Policy, snapshot: ServedSnapshot, at: datetime, actor: Actor) -> AccountNames | None:
    """The accounts of a snapshot that the actor may name; None for all."""
    named = named_accounts(policy=policy, tree=snapshot.tree, actor=actor, at=at)
    if named.all():
        return None
    own = own_keys(actor) if actor.has_scope(Token.Scope.SELF_READ) else []
    return AccountNames(named, tuple(map(canonical, own)))


def visible_in(*, policy: Policy, snapshot: ServedSnapshot, at: datetime, actor: Actor) -> Mask:
    """Mask of visible entries of a snapshot, those of the actor's own accounts included."""
    return _visibility_in(policy=policy, snapshot=snapshot, at=at, actor=actor).mask


def numbers_visible_in(*, policy: Policy, snapshot: ServedSnapshot, at: datetime, actor: Actor) -> Mask:
    """Mask of entries whose numbers the actor may see: usage, actual, deviation, priority, rank, factor and demand.

    Sums are included only if the snapshot is the last one of a finished day.
    """
    visibility = _visibility_in(policy=policy, snapshot=snapshot, at=at, actor=actor)
    return visible_numbers(policy, snapshot, visibility, at)


def _visibility_in(*, policy: Policy, snapshot: ServedSnapshot, at: datetime, actor: Actor) -> Visibility:
    own: set[int] = set()
    if actor.has_scope(Token.Scope.SELF_READ):
        own = {entry for query in own_queries(actor) for entry in snapshot.index.find_certain(query)}
    return visible_entries(policy=policy, tree=snapshot.tree, actor=actor, at=at, own_entries=sorted(own))


def reads_sums(*, policy: Policy, tree: TreeColumns, at: datetime, actor: Actor) -> bool:
    """Whether the actor sees only sums of some entries, and therefore only finished days."""
    everything = actor.administers or policy.visibility == Policy.Visibility.TREE
    if everything:
        return False
    rights = Rights(policy, actor, at)
    by_name = rights.at(Grant.Verb.VIEW_MEMBERS)
    places = (tree.index_of_uid(uid) for uid in rights.anywhere - by_name)
    return any(by_name.isdisjoint(map(tree.uuid, (*tree.ancestors(i), i))) for i in places if i is not None)
