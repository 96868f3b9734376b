"""Snapshots as one reader may see them, now or in the past: visible numbers, moment and fallbacks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np
from django.db.models import Max, Min
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.accounts.models import Token
from apps.core import clock
from apps.core.errors import DomainError, FieldProblem, Invalid, NotFound
from apps.mapping.permissions import load_past_visibility
from apps.policies.models import Entry, Policy, Revision
from apps.policies.revision_reading import hide_outside
from apps.policies.selectors import get_policy
from apps.policies.tree.columns import Mask
from apps.policies.tree.stored import load_tree
from apps.priorities.local_only import LocalOnlyEntry
from apps.priorities.models import Snapshot
from apps.priorities.moments import LocalOnly, Moment
from apps.priorities.selectors.rows import PolicyView, open_view
from apps.priorities.serving import store
from apps.priorities.serving.lookup import AccountNames, AccountQuery
from apps.priorities.serving.served_snapshot import ServedSnapshot, instant
from apps.priorities.visible_entries import names_in, numbers_visible_in


def moment_of(view: PolicyView) -> Moment | None:
    """The revision and snapshot of a view of the past; None for the current state."""
    if view.asked is None:
        return None
    revisions = Revision.objects.filter(policy=view.policy).defer("tree", "settings")
    (shown,) = hide_outside([revisions.get(number=view.revision)], view.visibility)
    after = revisions.filter(number=view.revision + 1).values_list("published_at", flat=True).first()
    snapshot = view.snapshot
    live = snapshot and Snapshot.objects.filter(pk=snapshot.snapshot_id).values_list("is_live", flat=True).first()
    return Moment(
        asked=view.asked,
        revision=view.revision,
        reason=shown.reason,
        author=shown.author_name,
        since=shown.published_at,
        until=after,
        head=view.policy.head_number,
        as_of=view.as_of,
        snapshot_revision=snapshot.revision if snapshot else None,
        is_reconstructed=snapshot is not None and not live,
        known_later=snapshot.meta.get("known_later") if snapshot else None,
    )


def list_local_only(view: PolicyView) -> list[LocalOnly]:
    """Visible entries in local-only fallback in the view's snapshot, sorted by path."""
    tops = view.snapshot.local_only_tops if view.snapshot is not None else ()
    return sorted(
        (fallback for fallback in (_visible_fallback(view, top) for top in tops) if fallback.path),
        key=lambda fallback: fallback.path,
    )


def local_only_among(view: PolicyView, uids: Iterable[UUID]) -> list[LocalOnly]:
    """Fallbacks that affect these entries or their children, each once, sorted by path."""
    snapshot = view.snapshot
    if snapshot is None or not snapshot.local_only_entries:
        return []
    fallbacks: dict[UUID, LocalOnlyEntry] = {}
    for uid in uids:
        i = snapshot.tree.index_of_uid(uid)
        for at in () if i is None else (i, int(snapshot.tree.parent[i])):
            if at in snapshot.local_only_entries:
                fallbacks[snapshot.local_only_entries[at].uid] = snapshot.local_only_entries[at]
    return sorted(
        (_visible_fallback(view, each) for each in fallbacks.values()),
        key=lambda fallback: (fallback.path, fallback.since),
    )


def _visible_fallback(view: PolicyView, entry: LocalOnlyEntry) -> LocalOnly:
    i = view.tree.index_of_uid(entry.uid)
    was_then = view.asked is not None
    if i is None or not view.visibility.may_see(i):
        return LocalOnly(entry.uid, "", entry.since, "", was_then)
    return LocalOnly(entry.uid, view.tree.path(i), entry.since, entry.reason, was_then)


@dataclass(frozen=True, eq=False)
class VisibleSnapshot:
    """A snapshot, and a mask of entries with visible numbers, which includes all their ancestors.

    moment: None for the newest snapshot. names: accounts that the actor may name, None for all.
    """

    policy: Policy
    snapshot: ServedSnapshot
    shows_numbers: Mask
    moment: Moment | None
    names: AccountNames | None = None

    def lookup(self, query: AccountQuery) -> list[dict[str, Any]]:
        """Results of a look-up of one account, by what the actor may see and name."""
        return self.snapshot.lookup([query], mask=self.shows_numbers, names=self.names)


def open_snapshot(*, policy_slug: str, actor: Actor, at: int | datetime | None = None, scope: str) -> VisibleSnapshot:
    """The newest snapshot, or that of a past revision or instant; current rights apply.

    Raises:
        NotFound: no such policy, or it had no revision at that time.
        Unavailable: `no_snapshot`, nothing has been computed yet.
        Invalid: `nothing_kept`, no numbers of that time are stored.
    """
    if at is not None:
        return open_past_snapshot(open_view(policy_slug=policy_slug, actor=actor, at=at, scope=scope, is_live=True))
    policy = get_policy(slug=policy_slug, actor=actor, scope=scope)
    snapshot, now = store.newest(policy_slug), clock.now()
    shows_numbers = numbers_visible_in(policy=policy, snapshot=snapshot, at=now, actor=actor)
    names = names_in(policy=policy, snapshot=snapshot, at=now, actor=actor)
    return VisibleSnapshot(policy, snapshot, shows_numbers, None, names)


def open_past_snapshot(view: PolicyView) -> VisibleSnapshot:
    """Visible entries of a past snapshot."""
    snapshot = view.snapshot
    if snapshot is None:
        oldest = oldest_stored(view.policy.slug)
        since = _("the oldest are from %(at)s") % {"at": instant(oldest)} if oldest else _("nothing computed yet")
        message = _("names a time without stored numbers; %(since)s") % {"since": since}
        raise Invalid(f"at {message}.", code="nothing_kept", fields=[FieldProblem("at", message)])
    shows_numbers = np.zeros(len(snapshot.tree), dtype=np.bool_)
    place = view.snapshot_index
    shows_numbers[place[np.flatnonzero(view.shows_numbers & (place >= 0))]] = True
    names = names_in(policy=view.policy, snapshot=snapshot, at=view.now, actor=view.actor)
    return VisibleSnapshot(view.policy, snapshot, shows_numbers, moment_of(view), names)


def list_snapshots(*, policy_slug: str, actor: Actor, before_id: int | None = None, limit: int = 50) -> list[Snapshot]:
    """Newest first."""
    scope = Token.Scope.PRIORITIES_READ if actor.has_scope(Token.Scope.PRIORITIES_READ) else Token.Scope.POLICIES_READ
    policy = get_policy(slug=policy_slug, actor=actor, scope=scope)
    snapshots = Snapshot.objects.filter(policy=policy).defer("data").order_by("-pk")
    if before_id is not None:
        snapshots = snapshots.filter(pk__lt=before_id)
    return list(snapshots[: min(limit, 500)])


def oldest_stored(policy_slug: str) -> datetime | None:
    """Instant of the oldest stored snapshot; visible to every signed-in user."""
    stored = Snapshot.objects.filter(policy__slug=policy_slug).order_by("as_of")
    return stored.values_list("as_of", flat=True).first()


def require_entry(view: PolicyView, uid: UUID) -> int:
    """The entry's index.

    Raises:
        NotFound: there is no such entry, or the actor may not see it.
        Invalid: `entry_not_in_revision`, the entry is visible in another revision than the one shown.
    """
    i = view.tree.index_of_uid(uid)
    if i is None and view.asked is not None:
        raise _not_in_revision(view, uid)
    return view.visibility.require(i)


def require_path(view: PolicyView, path: str) -> int:
    """The index of the entry at a path of the shown revision, or of the head."""
    i = view.tree.index_of_path(path)
    head = load_tree(view.policy) if i is None and view.asked is not None else None
    there = None if head is None else head.index_of_path(path)
    if head is not None and there is not None:
        return require_entry(view, head.uuid(there))
    return view.visibility.require(i)


def _not_in_revision(view: PolicyView, uid: UUID) -> DomainError:
    """An error that names a revision with the entry, if the actor may see it there; else NotFound."""
    plain = NotFound("There is no such entry in this policy.")
    spans = Entry.objects.filter(policy=view.policy, uid=uid)
    known = spans.aggregate(first=Min("since"), left=Max("until"))
    if known["first"] is None:
        return plain
    is_here = spans.filter(until=None).exists()
    last = view.policy.head_number if is_here else known["left"] - 1
    tree = load_tree(view.policy, last)
    i = tree.index_of_uid(uid)
    if i is None or not load_past_visibility(policy=view.policy, tree=tree, at=view.now, actor=view.actor).may_see(i):
        return plain
    values = {"n": view.revision, "name": tree.name[i], "first": known["first"], "last": last}
    if known["first"] > view.revision:
        message = _("Revision %(n)s has no entry %(name)s: revision %(first)d added it.") % values
    else:
        message = _("Revision %(n)s has no entry %(name)s: revision %(last)d was the last with it.") % values
    return Invalid(message, code="entry_not_in_revision", fields=[FieldProblem("at", message)])
