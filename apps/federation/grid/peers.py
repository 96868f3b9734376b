"""All peers of this site: mounts and subscriptions that it fetches, and readers of what it publishes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Annotated, TypeVar
from uuid import UUID

import numpy as np
import numpy.typing as npt
from django.db.models import OuterRef, Q, QuerySet, Subquery

from apps.accounts.actor import Actor
from apps.accounts.selectors import groups_of
from apps.core.errors import NotAllowed, NotFound
from apps.federation.conditions import (
    NEEDS_ATTENTION,
    Condition,
    age_of,
    condition_of,
    is_held,
    mounts_with_pending_version,
    subscriptions_with_quarantine,
)
from apps.federation.models import (
    Fetch,
    Mount,
    Publication,
    PublishedDocument,
    Reading,
    Subscription,
    UsageFeed,
)
from apps.policies.access.scope import (
    EVERYBODY,
    Rights,
    Verb,
    active_grants_of,
    administers_policies,
    administers_within_bounds,
)
from apps.policies.models import Grant, Policy
from apps.policies.tree.columns import Mask, TreeColumns
from apps.policies.tree.revision_diff import compare_targets
from apps.policies.tree.stored import load_tree

R = TypeVar("R", bound="Mount | Subscription")
SCOPE = "federation"

# Whether anything is fetched from other sites. Mounts of archived policies count here, but not in `count_alarming`.
FETCHES = "SELECT 1 WHERE EXISTS (SELECT FROM federation_mount) OR EXISTS (SELECT FROM federation_subscription)"


class Direction(StrEnum):
    """The direction of data between this site and a peer."""

    MOUNT = "mount"
    USAGE = "usage"
    READS = "reads"


@dataclass(frozen=True)
class Peer:
    """One row of the table of peers. allowed_s: maximum age. effect: 0..1; None if the entry has left the tree."""

    direction: Direction
    id: Annotated[int, "Of the mount, the subscription, or the publication or feed that is read"]
    name: Annotated[str, "The authority, or the name of the reader's token"]
    what: str
    policy: str
    entry: UUID
    path: str
    condition: Condition
    age_s: Annotated[float | None, "Since the last successful fetch; null before the first"]
    allowed_s: float
    theirs: Annotated[int, "The newest published version, or number of a feed"]
    active_version: Annotated[int, "The one that is active on the side that reads"]
    fingerprint: str
    effect: Annotated[float | None, "Target of the entry, of the whole tree"]
    error: str = ""
    stale_action: str = ""
    duration_s: Annotated[float | None, "Duration of the last fetch; null before the first, and for readers"] = None


def may_federate(*, at: datetime, actor: Actor) -> bool:
    """Whether the actor may see pages of the federation; called on every page."""
    if not actor.has_scope(SCOPE):
        return False
    if actor.user is None or not actor.user.is_active:
        return administers_within_bounds(actor, SCOPE)
    return administers_within_bounds(actor, SCOPE) or any(
        Verb.MOUNT in held.verbs for held in active_grants_of(actor.user, at)
    )


def require_federation(*, at: datetime, actor: Actor) -> None:
    if not may_federate(at=at, actor=actor):
        raise NotAllowed("The federation is for administrators, and for those who may mount policies of others.")


def require_mountable(*, at: datetime, actor: Actor) -> None:
    """Raise NotFound for actors who may mount nowhere."""
    if not list_mountable(at=at, actor=actor):
        raise NotFound("There is nothing here that you may mount at.")


def list_mountable(*, at: datetime, actor: Actor) -> list[Policy]:
    """Policies in which the actor may mount something."""
    policies = Policy.objects.order_by("name", "slug")
    if not administers_within_bounds(actor, SCOPE):
        policies = policies.filter(pk__in=_mount_grants(at, actor).values("policy"))
    return [policy for policy in policies if actor.reaches_policy(policy.slug)]


def list_mountable_groups(policy: Policy, *, most: int, at: datetime, actor: Actor) -> list[str]:
    """Paths of groups at which the actor may mount: no mount is there, above or below."""
    mountable = MountablePolicy(policy, at, actor)
    tree, paths = mountable.tree, []
    has_mount = np.zeros(len(tree), dtype=np.bool_)
    for i in tree.mount:
        has_mount |= tree.subtree_mask(i)
        has_mount[tree.ancestors(i)] = True
    free = mountable.mask & tree.takes_members & ~has_mount
    free[0] = False
    for i in np.flatnonzero(free).tolist():
        if i not in tree.members:
            paths.append(tree.path(i))
        if len(paths) == most:
            break
    return paths


def list_peers(*, at: datetime, actor: Actor) -> list[Peer]:
    """Peers that the actor decides about, by direction and name; readers of this site for administrators only.

    Raises:
        NotAllowed: not an administrator, and may mount nowhere.
    """
    require_federation(at=at, actor=actor)
    policies: dict[int, MountablePolicy] = {}
    mounts = _mounts().annotate(duration_s=_newest_fetch("mount")).order_by("issuer", "publication", "id")
    taken = _subscriptions().annotate(duration_s=_newest_fetch("subscription")).order_by("issuer", "feed", "id")
    peers = [
        _fetched(
            row,
            policy,
            at,
            Direction.MOUNT,
            what=row.publication,
            peer_version=row.version,
            active_version=row.applied_version,
        )
        for row, policy in _decided_rows(mounts, policies, at, actor)
    ]
    peers += [
        _fetched(row, policy, at, Direction.USAGE, what=row.feed, peer_version=row.number, active_version=row.number)
        for row, policy in _decided_rows(taken, policies, at, actor)
    ]
    if administers_within_bounds(actor, SCOPE) and not actor.is_bound:
        peers += _readers(policies, at, actor)
    return peers


def count_alarming(*, at: datetime, actor: Actor, ids: Sequence[int] | None = None) -> int:
    """Number of peers that the actor decides about and that need attention, without readers of this site.

    Every page calls this: one short query if nothing is fetched, otherwise two more. Rights are checked only if
    something needs attention. ids: the result of FETCHES, if the caller has run it already.
    """
    if ids is None:
        has_fetches = Mount.objects.values("pk").union(Subscription.objects.values("pk"), all=True).exists()
    else:
        has_fetches = bool(ids)
    if not has_fetches:
        return 0
    fetched: list[Mount | Subscription] = [*_mounts(), *_subscriptions()]
    alarming = [row for row in fetched if _condition_of(row, at) in NEEDS_ATTENTION]
    if administers_within_bounds(actor, SCOPE) and not actor.is_bound:
        return len(alarming)
    policies: dict[int, MountablePolicy] = {}
    return len(_decided_rows(alarming, policies, at, actor))


class MountablePolicy:
    """One policy in which an actor may mount: the current tree, the entries, and each entry's target."""

    def __init__(self, policy: Policy, at: datetime, actor: Actor) -> None:
        self.policy, self._at, self._actor = policy, at, actor

    @cached_property
    def tree(self) -> TreeColumns:
        return load_tree(self.policy)

    @cached_property
    def mask(self) -> Mask:
        """Mask of the entries at which the actor decides about mounts."""
        tree, actor = self.tree, self._actor
        everywhere = administers_within_bounds(actor, SCOPE)
        mask = np.full(len(tree), everywhere, dtype=np.bool_)
        if not everywhere and actor.has_scope(SCOPE):
            for uid in Rights(self.policy, actor, self._at).at(Verb.MOUNT):
                i = tree.index_of_uid(uid)
                if i is not None:
                    # a mount's own share is decided at its parent
                    mask |= tree.subtree_mask(i) & (np.arange(len(tree)) != i)
        if actor.top_uid is not None:
            i = tree.index_of_uid(actor.top_uid)
            mask &= np.zeros(len(tree), dtype=np.bool_) if i is None else tree.subtree_mask(i)
        if not actor.reaches_policy(self.policy.slug):
            mask[:] = False
        return mask

    def decides(self, uid: UUID) -> bool:
        """Whether the actor decides at the entry; an entry that has left the tree is left to administrators."""
        i = self.tree.index_of_uid(uid)
        if i is not None:
            return bool(self.mask[i])
        return administers_policies(self._actor, SCOPE) and self._actor.reaches_policy(self.policy.slug)

    def where(self, uid: UUID) -> tuple[str, float | None]:
        """Path and global target of the entry."""
        i = self.tree.index_of_uid(uid)
        if i is None:
            return "", None
        target = float(self._targets[i])
        return self.tree.path(i), None if np.isnan(target) else target

    @cached_property
    def _targets(self) -> npt.NDArray[np.float64]:
        targets = compare_targets(self.tree, self.tree).new_global.copy()
        targets[0] = 1.0
        return targets


def _mount_grants(at: datetime, actor: Actor) -> QuerySet[Grant]:
    user = actor.user
    if user is None or not user.is_active:
        return Grant.objects.none()
    people = [*groups_of(user), EVERYBODY]
    held = Grant.objects.filter(Q(user=user) | Q(people__in=people, user=None), verbs__contains=[Verb.MOUNT])
    return held.filter(Q(expires_at=None) | Q(expires_at__gt=at))


def _mounts() -> QuerySet[Mount]:
    return mounts_with_pending_version(Mount.objects.select_related("policy"))


def _subscriptions() -> QuerySet[Subscription]:
    return subscriptions_with_quarantine(Subscription.objects.select_related("policy"))


def _condition_of(row: Mount | Subscription, at: datetime) -> Condition:
    return condition_of(row, is_held=is_held(row), at=at)


def _newest_fetch(kind: str) -> Subquery:
    """Subquery for the duration of the newest fetch, which uses the index of the fetch log."""
    return Subquery(Fetch.objects.filter(**{kind: OuterRef("pk")}).order_by("-id").values("duration_s")[:1])


def _decided_rows(
    rows: Iterable[R], policies: dict[int, MountablePolicy], at: datetime, actor: Actor
) -> list[tuple[R, MountablePolicy]]:
    pairs: list[tuple[R, MountablePolicy]] = []
    for row in rows:
        policy = policies.setdefault(row.policy_id, MountablePolicy(row.policy, at, actor))
        if policy.decides(row.entry_uid):
            pairs.append((row, policy))
    return pairs


def _fetched(
    row: Mount | Subscription,
    policy: MountablePolicy,
    at: datetime,
    direction: Direction,
    *,
    what: str,
    peer_version: int,
    active_version: int,
) -> Peer:
    path, effect = policy.where(row.entry_uid)
    duration_s: float | None = getattr(row, "duration_s", None)
    return Peer(
        direction=direction,
        id=row.pk,
        name=row.issuer,
        what=what,
        policy=row.policy.slug,
        entry=row.entry_uid,
        path=path,
        age_s=age_of(row, at),
        allowed_s=row.max_age_s,
        theirs=peer_version,
        active_version=active_version,
        fingerprint=row.fingerprint,
        effect=effect,
        error=row.error,
        condition=_condition_of(row, at),
        stale_action=row.stale_action,
        duration_s=duration_s,
    )


def _readers(policies: dict[int, MountablePolicy], at: datetime, actor: Actor) -> list[Peer]:
    rows = Reading.objects.select_related("publication__policy", "feed__policy").order_by("reader", "id")
    documents = PublishedDocument.objects.defer("data").order_by("publication_id", "-version")
    newest = {document.publication_id: document for document in documents.distinct("publication_id")}
    return [_reading(row, newest.get(row.publication_id or 0), policies, at, actor) for row in rows]


def _reading(
    row: Reading, newest: PublishedDocument | None, policies: dict[int, MountablePolicy], at: datetime, actor: Actor
) -> Peer:
    """A row for one reader. newest: version of the publication; a feed's number is unknown here, so it is None."""
    served: Publication | UsageFeed
    if row.publication is not None:
        served, ours, key = row.publication, row.version, ""
        if newest is not None:
            ours, key = newest.version, newest.key_fingerprint
    else:
        assert row.feed is not None  # noqa: S101 - a constraint of the table
        served, ours, key = row.feed, row.feed.number, ""
    path, effect = policies.setdefault(served.policy_id, MountablePolicy(served.policy, at, actor)).where(
        served.entry_uid
    )
    age_s, allowed_s = max((at - row.at).total_seconds(), 0.0), float(served.expires_after_s)
    is_behind = row.publication is not None and row.version < ours
    return Peer(
        direction=Direction.READS,
        id=row.pk,
        name=row.reader,
        what=served.name,
        policy=served.policy.slug,
        entry=served.entry_uid,
        path=path,
        age_s=age_s,
        allowed_s=allowed_s,
        theirs=ours,
        active_version=row.version,
        fingerprint=key,
        effect=effect,
        condition=_reading_condition(age_s, allowed_s, is_behind=is_behind),
    )


def _reading_condition(age_s: float, allowed_s: float, *, is_behind: bool) -> Condition:
    """Condition of a reader: its document is current there until it expires."""
    if age_s > allowed_s:
        return Condition.EXPIRED
    return Condition.LATE if is_behind else Condition.FRESH
