"""What an actor sees of a policy: a tree, what of it is theirs to see, and the snapshot that goes with it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import numpy.typing as npt

from apps.accounts.actor import Actor
from apps.accounts.intern import AccountKey
from apps.accounts.models import Account, Token
from apps.accounts.selectors import list_accounts_of
from apps.errors import NotAllowed, NotFound, Unavailable
from apps.policies.columns import Mask, TreeColumns
from apps.policies.models import Policy
from apps.policies.scope import Visibility, require_scope, visible_entries
from apps.policies.selectors import get_policy, get_revision
from apps.policies.trees import load_tree
from apps.priorities import served
from apps.priorities.answers import ServedSnapshot
from apps.priorities.assembly import load_rules
from apps.priorities.mapping import UNMAPPED, Resolver
from apps.priorities.models import Snapshot

_READS = (Token.Scope.PRIORITIES_READ, Token.Scope.POLICIES_READ, Token.Scope.POLICIES_WRITE, Token.Scope.SELF_READ)


@dataclass(frozen=True, eq=False)
class Sight:
    """`place[i]` is the entry of the snapshot's tree that entry i of `tree` is, −1 for one it doesn't know."""

    policy: Policy
    tree: TreeColumns
    visibility: Visibility
    snapshot: ServedSnapshot | None
    place: npt.NDArray[np.int64]


def served_to(*, policy_slug: str, at: datetime, actor: Actor) -> tuple[ServedSnapshot, Mask | None]:
    """The newest snapshot, and which entries of it the actor may see; None for all."""
    policy = _readable_policy(policy_slug, actor)
    snapshot = served.newest(policy.slug)
    visibility = see(policy=policy, tree=snapshot.tree, at=at, actor=actor)
    return snapshot, None if visibility.all_visible else visibility.mask


def sight_of(*, policy_slug: str, moment: int | datetime | None = None, at: datetime, actor: Actor) -> Sight:
    """The head, a revision by number, or the one in force at an instant, each with the snapshot nearest to it."""
    policy = _readable_policy(policy_slug, actor)
    number = get_revision(policy=policy, at=moment).number
    snapshot = _snapshot_of(policy, number, moment)
    same = snapshot is not None and snapshot.revision == number
    tree = snapshot.tree if same and snapshot is not None else load_tree(policy, number)
    place = np.arange(len(tree)) if same else _places(tree, snapshot)
    return Sight(policy, tree, see(policy=policy, tree=tree, at=at, actor=actor), snapshot, place)


def load_whole_tree(*, policy: Policy, number: int, at: datetime, actor: Actor) -> TreeColumns:
    """For who sees all of it: a document with holes could be published by mistake."""
    tree = load_tree(policy, number)
    if not see(policy=policy, tree=tree, at=at, actor=actor).all_visible:
        raise NotAllowed("You see a part of this policy only: ask for the tree of that part.", code="partial_view")
    return tree


def see(*, policy: Policy, tree: TreeColumns, at: datetime, actor: Actor) -> Visibility:
    """By the one scope function, with the entries of the actor's own accounts. Rights of now hold for the past too."""
    own = own_entries(policy=policy, tree=tree, actor=actor)
    return visible_entries(policy=policy, tree=tree, actor=actor, at=at, own_entries=own)


def own_entries(*, policy: Policy, tree: TreeColumns, actor: Actor) -> set[int]:
    """Where the accounts of the person behind the actor belong."""
    accounts = list_accounts_of(actor.user) if actor.user is not None else []
    if not accounts:
        return set()
    resolver = Resolver(load_rules(policy), tree)
    return {match.entry for match in map(resolver.resolve, _keys(accounts))} - {UNMAPPED}


def _keys(accounts: Iterable[Account]) -> Iterable[AccountKey]:
    return (AccountKey(a.namespace, a.user_name, a.group_name, a.dn, a.fqan, a.project) for a in accounts)


def _readable_policy(slug: str, actor: Actor) -> Policy:
    scope = next((scope for scope in _READS if actor.has_scope(scope)), None)
    if scope is None:
        require_scope(actor, Token.Scope.PRIORITIES_READ)
    return get_policy(slug=slug, actor=actor, scope=scope or Token.Scope.PRIORITIES_READ)


def _snapshot_of(policy: Policy, number: int, moment: int | datetime | None) -> ServedSnapshot | None:
    """Of now the newest; of the past one that is still kept: of that revision, or computed for no later instant."""
    if moment is None:
        try:
            return served.newest(policy.slug)
        except (Unavailable, NotFound):
            return None
    kept = Snapshot.objects.filter(policy=policy, revision_number=number)
    if isinstance(moment, datetime):
        kept = kept.filter(as_of__lte=moment)
    nearest = kept.order_by("-as_of", "-id").values_list("id", flat=True).first()
    return None if nearest is None else served.load_kept(policy.slug, nearest)


def _places(tree: TreeColumns, snapshot: ServedSnapshot | None) -> npt.NDArray[np.int64]:
    if snapshot is None:
        return np.full(len(tree), -1)
    known = {uid.tobytes(): i for i, uid in enumerate(snapshot.tree.uid)}
    return np.array([known.get(uid.tobytes(), -1) for uid in tree.uid], dtype=np.int64)
