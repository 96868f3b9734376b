"""One policy as one reader sees it, now or in the past: the snapshot, and its visible entries."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import numpy as np
from django.db.models import Max, Min
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.accounts.models import Token
from apps.core import clock
from apps.core.errors import DomainError, FieldProblem, Invalid, NotFound
from apps.mapping.visibility import see_then
from apps.policies.models import Entry, Policy
from apps.policies.selectors import get_policy
from apps.policies.tree.columns import Mask
from apps.policies.tree.stored import load_tree
from apps.priorities.models import Snapshot
from apps.priorities.records.moment import Moment
from apps.priorities.selectors.rows import PolicyView, open_view
from apps.priorities.selectors.visible.moments import moment_of
from apps.priorities.serving import store
from apps.priorities.serving.lookup_index import ServedSnapshot, instant
from apps.priorities.visibility.visible_entries import numbers_visible_in


@dataclass(frozen=True, eq=False)
class VisibleSnapshot:
    """A snapshot, and a mask of the entries whose usage is visible. A visible entry's ancestors are visible, too.
    moment: of the past.
    """

    policy: Policy
    snapshot: ServedSnapshot
    told: Mask
    moment: Moment | None


def open_snapshot(
    *, policy_slug: str, actor: Actor, at: int | datetime | None = None, scope: str = "policies:read"
) -> VisibleSnapshot:
    """The newest snapshot, or the one of then; rights are those of now.

    Raises:
        NotFound: there is no such policy, or no revision then.
        Unavailable: `no_snapshot`, nothing has been computed yet.
        Invalid: `nothing_kept`, there are no numbers of then.
    """
    if at is not None:
        return open_past_snapshot(open_view(policy_slug=policy_slug, actor=actor, at=at, scope=scope, is_live=True))
    policy = get_policy(slug=policy_slug, actor=actor, scope=scope)
    snapshot, now = store.newest(policy_slug), clock.now()
    return VisibleSnapshot(
        policy, snapshot, numbers_visible_in(policy=policy, snapshot=snapshot, at=now, actor=actor), None
    )


def open_past_snapshot(view: PolicyView) -> VisibleSnapshot:
    """Visible entries of a past snapshot."""
    snapshot = view.snapshot
    if snapshot is None:
        raise _nothing_kept(view)
    told = np.zeros(len(snapshot.tree), dtype=np.bool_)
    place = view.place
    told[place[np.flatnonzero(view.told & (place >= 0))]] = True
    return VisibleSnapshot(view.policy, snapshot, told, moment_of(view))


def _nothing_kept(view: PolicyView) -> Invalid:
    oldest = oldest_kept(view.policy.slug)
    since = _("the oldest are from %(at)s") % {"at": instant(oldest)} if oldest else _("nothing has been computed yet")
    message = _("names a time without stored numbers; %(since)s") % {"since": since}
    return Invalid(f"at {message}.", code="nothing_kept", fields=[FieldProblem("at", message)])


def list_snapshots(*, policy_slug: str, actor: Actor, before_id: int | None = None, limit: int = 50) -> list[Snapshot]:
    """Newest first."""
    scope = Token.Scope.PRIORITIES_READ if actor.has_scope(Token.Scope.PRIORITIES_READ) else Token.Scope.POLICIES_READ
    policy = get_policy(slug=policy_slug, actor=actor, scope=scope)
    found = Snapshot.objects.filter(policy=policy).defer("data").order_by("-pk")
    if before_id is not None:
        found = found.filter(pk__lt=before_id)
    return list(found[: min(limit, 500)])


def oldest_kept(policy_slug: str) -> datetime | None:
    """As of when the oldest numbers are that a look back can show; no secret to who signs in."""
    kept = Snapshot.objects.filter(policy__slug=policy_slug).order_by("as_of")
    return kept.values_list("as_of", flat=True).first()


def require_entry(view: PolicyView, uid: UUID) -> int:
    """The entry's index.

    Raises:
        NotFound: there is no such entry, or the actor may not see it.
        Invalid: `entry_not_in_revision`, the actor sees it in another revision than the one that is shown.
    """
    i = view.tree.index_of_uid(uid)
    if i is None and view.asked is not None:
        raise _not_in_revision(view, uid)
    return view.visibility.require(i)


def require_path(view: PolicyView, path: str) -> int:
    """By a path, which may be one of the head."""
    i = view.tree.index_of_path(path)
    head = load_tree(view.policy) if i is None and view.asked is not None else None
    there = None if head is None else head.index_of_path(path)
    if head is not None and there is not None:
        return require_entry(view, head.uuid(there))
    return view.visibility.require(i)


def _not_in_revision(view: PolicyView, uid: UUID) -> DomainError:
    """Names a revision that has the entry to who may see it there; for others it doesn't exist."""
    plain = NotFound("There is no such entry in this policy.")
    spans = Entry.objects.filter(policy=view.policy, uid=uid)
    known = spans.aggregate(first=Min("since"), left=Max("until"))
    if known["first"] is None:
        return plain
    is_here = spans.filter(until=None).exists()
    last = view.policy.head_number if is_here else known["left"] - 1
    tree = load_tree(view.policy, last)
    i = tree.index_of_uid(uid)
    if i is None or not see_then(policy=view.policy, tree=tree, at=view.now, actor=view.actor).may_see(i):
        return plain
    said = {"n": view.revision, "name": tree.name[i], "first": known["first"], "last": last}
    if known["first"] > view.revision:
        message = _("Revision %(n)d has no entry %(name)s: revision %(first)d added it.") % said
    else:
        message = _("Revision %(n)d has no entry %(name)s: revision %(last)d was the last with it.") % said
    return Invalid(message, code="entry_not_in_revision", fields=[FieldProblem("at", message)])
