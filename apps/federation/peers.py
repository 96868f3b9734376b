"""Every authority that this site has to do with: what we mount and take of theirs, and what they read of ours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import TypeVar
from uuid import UUID

import numpy as np
import numpy.typing as npt
from django.db.models import Q, QuerySet

from apps.accounts.actor import Actor
from apps.errors import NotAllowed
from apps.federation.models import (
    HeldHour,
    Mount,
    Publication,
    PublishedDocument,
    Reading,
    Remote,
    Subscription,
    UsageFeed,
)
from apps.federation.stale import is_stale
from apps.policies.columns import Mask, TreeColumns
from apps.policies.models import ChangeSet, Grant, Policy
from apps.policies.scope import EVERYBODY, Rights, Verb, rules_all
from apps.policies.target_moves import target_moves
from apps.policies.trees import load_tree

R = TypeVar("R", Mount, Subscription)
SCOPE = "federation"
OPEN_STATES = (ChangeSet.State.DRAFT, ChangeSet.State.PROPOSED, ChangeSet.State.APPROVED)
_LATE_AFTER = 3  # rhythms without a good look


class Direction(StrEnum):
    """Who asks whom for what."""

    MOUNT = "mount"
    USAGE = "usage"
    READS = "reads"


class Condition(StrEnum):
    """How it stands, the first of these that holds."""

    BLOCKED = "blocked"
    PAUSED = "paused"
    FROZEN = "frozen"
    EXPIRED = "expired"
    STALE = "stale"
    HELD = "held"
    LATE = "late"
    NEW = "new"  # nothing came yet, and nothing is wrong
    FRESH = "fresh"


NEEDS_A_LOOK = (Condition.BLOCKED, Condition.EXPIRED, Condition.STALE, Condition.HELD)


@dataclass(frozen=True)
class Peer:
    """One line of the table. age_s: since the last good look, None before the first; allowed_s: how old it may be.

    theirs: the newest version that was told, or the number of a feed; in_force: the one that holds on the side that
    reads. effect: the target of the entry, of the whole tree, 0..1; None where the entry is gone.
    """

    direction: Direction
    id: int
    name: str
    what: str
    policy_slug: str
    entry_uid: UUID
    entry_path: str
    age_s: float | None
    allowed_s: float
    theirs: int
    in_force: int
    fingerprint: str
    condition: Condition
    effect: float | None
    error: str = ""
    stale_action: str = ""


def condition_of(remote: Mount | Subscription, *, is_held: bool, at: datetime) -> Condition:
    """How something that we fetch stands at an instant."""
    by_state = {
        Remote.State.BLOCKED: Condition.BLOCKED, Remote.State.PAUSED: Condition.PAUSED,
        Remote.State.FROZEN: Condition.FROZEN,
    }  # fmt: skip
    if remote.state in by_state:
        return by_state[Remote.State(remote.state)]
    age_s = age_of(remote, at)
    if remote.expires_at is not None and remote.expires_at <= at:
        return Condition.EXPIRED
    if is_stale(remote, at):
        return Condition.STALE
    if is_held:
        return Condition.HELD
    if remote.n_failed or (age_s is not None and age_s > max(_LATE_AFTER * remote.every_s, 60)):
        return Condition.LATE
    return Condition.NEW if age_s is None else Condition.FRESH


def age_of(remote: Mount | Subscription, at: datetime) -> float | None:
    """Seconds since the last good look."""
    return None if remote.good_at is None else max((at - remote.good_at).total_seconds(), 0.0)


def is_held(remote: Mount | Subscription) -> bool:
    """Something of it waits for a decision."""
    if isinstance(remote, Mount):
        return remote.held is not None and remote.held.state in OPEN_STATES
    told = remote.told_capacity_cores
    asks_for_more = told is not None and told > remote.capacity_cores
    return remote.running_held or asks_for_more or HeldHour.objects.filter(subscription=remote).exists()


def may_federate(*, at: datetime, actor: Actor) -> bool:
    """Whether the pages of the federation are for this actor: one query, asked for on every page."""
    if not actor.has_scope(SCOPE):
        return False
    return rules_all(actor, SCOPE) or _mount_grants(at, actor).exists()


def require_federation(*, at: datetime, actor: Actor) -> None:
    if not may_federate(at=at, actor=actor):
        raise NotAllowed("The federation is for administrators, and for those who may mount policies of others.")


def list_mountable(*, at: datetime, actor: Actor) -> list[Policy]:
    """Policies in which the actor may mount something somewhere."""
    policies = Policy.objects.order_by("name", "slug")
    if actor.token is not None and actor.token.policy_slug:
        policies = policies.filter(slug=actor.token.policy_slug)
    if not rules_all(actor, SCOPE):
        policies = policies.filter(pk__in=_mount_grants(at, actor).values("policy"))
    return list(policies)


def list_places(policy: Policy, *, most: int, at: datetime, actor: Actor) -> list[str]:
    """Paths of groups at which the actor may mount, as far as nothing is mounted there, above or below."""
    place = Place(policy, at, actor)
    tree, found = place.tree, []
    taken = np.zeros(len(tree), dtype=np.bool_)
    for i in tree.mount:
        taken |= tree.subtree_mask(i)
        taken[tree.ancestors(i)] = True
    free = place.mask & tree.is_group & ~tree.is_reserve & ~taken
    free[0] = False
    for i in np.flatnonzero(free).tolist():
        if i not in tree.members:
            found.append(tree.path(i))
        if len(found) == most:
            break
    return found


def list_peers(*, at: datetime, actor: Actor) -> list[Peer]:
    """What the actor decides about, by direction and name; who reads ours is for administrators.

    Raises:
        NotAllowed: neither an administrator, nor one who may mount anywhere.
    """
    require_federation(at=at, actor=actor)
    places: dict[int, Place] = {}
    found = [_mounted(row, place, at) for row, place in _decided(_mounts(), places, at, actor)]
    found += [_taken(row, place, at) for row, place in _decided(_subscriptions(), places, at, actor)]
    if rules_all(actor, SCOPE):
        found += _readers(places, at, actor)
    return found


class Place:
    """One policy as one actor may mount in it: the tree in force, where, and what each entry comes to."""

    def __init__(self, policy: Policy, at: datetime, actor: Actor) -> None:
        self.policy, self._at, self._actor = policy, at, actor

    @cached_property
    def tree(self) -> TreeColumns:
        return load_tree(self.policy)

    @cached_property
    def mask(self) -> Mask:
        """Entries at which the actor decides about mounts."""
        tree, actor = self.tree, self._actor
        everywhere = rules_all(actor, SCOPE)
        mask = np.full(len(tree), everywhere, dtype=np.bool_)
        if not everywhere and actor.has_scope(SCOPE):
            for uid in Rights(self.policy, actor, self._at).at(Verb.MOUNT):
                i = tree.index_of_uid(uid)
                if i is not None:
                    mask |= tree.subtree_mask(i) & (np.arange(len(tree)) != i)  # what it holds at is its parent's
        if actor.token is not None and actor.token.subtree_uid is not None:
            i = tree.index_of_uid(actor.token.subtree_uid)
            mask &= np.zeros(len(tree), dtype=np.bool_) if i is None else tree.subtree_mask(i)
        if actor.token is not None and actor.token.policy_slug not in ("", self.policy.slug):
            mask[:] = False
        return mask

    def decides(self, uid: UUID) -> bool:
        """At an entry; what has left the tree is left to administrators."""
        i = self.tree.index_of_uid(uid)
        return rules_all(self._actor, SCOPE) if i is None else bool(self.mask[i])

    def where(self, uid: UUID) -> tuple[str, float | None]:
        """Path, and target of the whole."""
        i = self.tree.index_of_uid(uid)
        if i is None:
            return "", None
        target = float(self._targets[i])
        return self.tree.path(i), None if np.isnan(target) else target

    @cached_property
    def _targets(self) -> npt.NDArray[np.float64]:
        targets = target_moves(self.tree, self.tree).new_global.copy()
        targets[0] = 1.0
        return targets


def _mount_grants(at: datetime, actor: Actor) -> QuerySet[Grant]:
    user = actor.user
    if user is None or not user.is_active:
        return Grant.objects.none()
    people = [*user.groups.values_list("name", flat=True), EVERYBODY]
    held = Grant.objects.filter(Q(user=user) | Q(people__in=people, user=None), verbs__contains=[Verb.MOUNT])
    return held.filter(Q(expires_at=None) | Q(expires_at__gt=at))


def _mounts() -> Iterable[Mount]:
    return Mount.objects.select_related("policy", "held").defer("document").order_by("issuer", "publication", "id")


def _subscriptions() -> Iterable[Subscription]:
    return Subscription.objects.select_related("policy").order_by("issuer", "feed", "id")


def _decided(rows: Iterable[R], places: dict[int, Place], at: datetime, actor: Actor) -> list[tuple[R, Place]]:
    found: list[tuple[R, Place]] = []
    for row in rows:
        place = places.setdefault(row.policy_id, Place(row.policy, at, actor))
        if place.decides(row.entry_uid):
            found.append((row, place))
    return found


def _mounted(row: Mount, place: Place, at: datetime) -> Peer:
    path, effect = place.where(row.entry_uid)
    return Peer(
        direction=Direction.MOUNT, id=row.pk, name=row.issuer, what=row.publication, policy_slug=row.policy.slug,
        entry_uid=row.entry_uid, entry_path=path, age_s=age_of(row, at), allowed_s=row.max_age_s, theirs=row.version,
        in_force=row.landed_version, fingerprint=row.fingerprint, effect=effect, error=row.error,
        condition=condition_of(row, is_held=is_held(row), at=at), stale_action=row.stale_action,
    )  # fmt: skip


def _taken(row: Subscription, place: Place, at: datetime) -> Peer:
    path, effect = place.where(row.entry_uid)
    return Peer(
        direction=Direction.USAGE, id=row.pk, name=row.issuer, what=row.feed, policy_slug=row.policy.slug,
        entry_uid=row.entry_uid, entry_path=path, age_s=age_of(row, at), allowed_s=row.max_age_s, theirs=row.number,
        in_force=row.number, fingerprint=row.fingerprint, effect=effect, error=row.error,
        condition=condition_of(row, is_held=is_held(row), at=at), stale_action=row.stale_action,
    )  # fmt: skip


def _readers(places: dict[int, Place], at: datetime, actor: Actor) -> list[Peer]:
    rows = Reading.objects.select_related("publication__policy", "feed__policy").order_by("reader", "id")
    documents = PublishedDocument.objects.defer("data").order_by("publication_id", "-version")
    newest = {document.publication_id: document for document in documents.distinct("publication_id")}
    return [_reading(row, newest.get(row.publication_id or 0), places, at, actor) for row in rows]


def _reading(
    row: Reading, newest: PublishedDocument | None, places: dict[int, Place], at: datetime, actor: Actor
) -> Peer:
    """newest: of the publication, if it is one; a feed's number says how far we are ourselves."""
    told: Publication | UsageFeed
    if row.publication is not None:
        told, ours, key = row.publication, row.version, ""
        if newest is not None:
            ours, key = newest.version, newest.key_fingerprint
    else:
        assert row.feed is not None  # noqa: S101 - a constraint of the table
        told, ours, key = row.feed, row.feed.number, ""
    path, effect = places.setdefault(told.policy_id, Place(told.policy, at, actor)).where(told.entry_uid)
    age_s, allowed_s = max((at - row.at).total_seconds(), 0.0), float(told.expires_after_s)
    is_behind = row.publication is not None and row.version < ours
    return Peer(
        direction=Direction.READS, id=row.pk, name=row.reader, what=told.name, policy_slug=told.policy.slug,
        entry_uid=told.entry_uid, entry_path=path, age_s=age_s, allowed_s=allowed_s, theirs=ours,
        in_force=row.version, fingerprint=key, effect=effect,
        condition=_reading_condition(age_s, allowed_s, is_behind=is_behind),
    )  # fmt: skip


def _reading_condition(age_s: float, allowed_s: float, *, is_behind: bool) -> Condition:
    """What somebody read holds on their side until it expires there."""
    if age_s > allowed_s:
        return Condition.EXPIRED
    return Condition.LATE if is_behind else Condition.FRESH


def count_alarming(peers: Sequence[Peer]) -> int:
    """Of what we fetch: who reads ours too seldom is their matter."""
    return sum(peer.condition in NEEDS_A_LOOK for peer in peers if peer.direction is not Direction.READS)
