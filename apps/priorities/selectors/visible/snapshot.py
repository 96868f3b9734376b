"""One policy as one reader sees it, now or in the past: the snapshot, and its visible entries."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import numpy as np
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.core import clock
from apps.core.errors import FieldProblem, Invalid
from apps.policies.models import Policy
from apps.policies.selectors import get_policy
from apps.policies.tree.columns import Mask
from apps.priorities.records.moment import Moment
from apps.priorities.selectors.rows import PolicyView, open_view
from apps.priorities.selectors.visible.moments import moment_of
from apps.priorities.selectors.visible.stored_snapshots import oldest_kept
from apps.priorities.serving import store
from apps.priorities.serving.lookup_index import ServedSnapshot, instant
from apps.priorities.visibility.visible_entries import told_in


@dataclass(frozen=True, eq=False)
class Look:
    """A snapshot, and a mask of the entries whose usage is visible. A visible entry's ancestors are visible, too.
    moment: of the past.
    """

    policy: Policy
    snapshot: ServedSnapshot
    told: Mask
    moment: Moment | None


def look_at(*, policy_slug: str, actor: Actor, at: int | datetime | None = None, scope: str = "policies:read") -> Look:
    """The newest snapshot, or the one of then; rights are those of now.

    Raises:
        NotFound: there is no such policy, or no revision then.
        Unavailable: `no_snapshot`, nothing has been computed yet.
        Invalid: `nothing_kept`, there are no numbers of then.
    """
    if at is not None:
        return look_back(open_view(policy_slug=policy_slug, actor=actor, at=at, scope=scope, is_live=True))
    policy = get_policy(slug=policy_slug, actor=actor, scope=scope)
    snapshot, now = store.newest(policy_slug), clock.now()
    return Look(policy, snapshot, told_in(policy=policy, snapshot=snapshot, at=now, actor=actor), None)


def look_back(view: PolicyView) -> Look:
    """Visible entries of a past snapshot."""
    snapshot = view.snapshot
    if snapshot is None:
        raise _nothing_kept(view)
    told = np.zeros(len(snapshot.tree), dtype=np.bool_)
    place = view.place
    told[place[np.flatnonzero(view.told & (place >= 0))]] = True
    return Look(view.policy, snapshot, told, moment_of(view))


def _nothing_kept(view: PolicyView) -> Invalid:
    oldest = oldest_kept(view.policy.slug)
    since = _("the oldest are from %(at)s") % {"at": instant(oldest)} if oldest else _("nothing has been computed yet")
    message = _("names a time without stored numbers; %(since)s") % {"since": since}
    return Invalid(f"at {message}.", code="nothing_kept", fields=[FieldProblem("at", message)])
