"""Lists of a policy's change sets."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, get_args

from apps.accounts.actor import Actor
from apps.policies.changesets.change_sets import ChangeSetAccess
from apps.policies.changesets.review import review_of
from apps.policies.models import ChangeSet, Policy
from apps.policies.selectors import list_change_sets

Which = Literal["open", "mine", "waiting", "published", "withdrawn"]
WHICH: tuple[Which, ...] = get_args(Which)
_REQUESTED = (ChangeSet.State.PROPOSED, ChangeSet.State.APPROVED)
_OPEN = (ChangeSet.State.DRAFT, *_REQUESTED)


def list_of_change_sets(*, policy: Policy, which: Which, actor: Actor, at: datetime) -> list[ChangeSet]:
    """Newest first, of the newest 200. `waiting`: those of others that the actor may approve or publish."""
    if which == "published":
        return list_change_sets(policy=policy, actor=actor, at=at, states=[ChangeSet.State.PUBLISHED])
    if which == "withdrawn":
        return list_change_sets(policy=policy, actor=actor, at=at, states=[ChangeSet.State.WITHDRAWN])
    if which == "waiting":
        asked = list_change_sets(policy=policy, actor=actor, at=at, states=_REQUESTED)
        return [change_set for change_set in asked if waits_for(change_set, actor=actor, at=at)]
    found = list_change_sets(policy=policy, actor=actor, at=at, states=_OPEN)
    if which == "mine":
        return [each for each in found if actor.user is not None and each.author_id == actor.user.pk]
    return found


def waits_for(change_set: ChangeSet, *, actor: Actor, at: datetime) -> bool:
    """Another person's, proposed, unscheduled, and still undecided by the actor, who may decide."""
    is_set = change_set.state == ChangeSet.State.APPROVED and change_set.effective_at is not None
    if (
        change_set.state not in _REQUESTED
        or is_set
        or not ChangeSetAccess(change_set.policy, actor, at).may_see(change_set)
    ):
        return False
    if actor.user is None or change_set.author_id == actor.user.pk:
        return False
    review = review_of(change_set, at=at)
    if review.why_not_publish(actor) is None:
        return True
    approved = change_set.approvals.filter(version=change_set.version, user=actor.user).exists()
    return not approved and review.why_not_approve(actor) is None
