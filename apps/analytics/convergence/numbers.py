"""The numbers of one figure of convergence, for page and REST."""

from __future__ import annotations

from uuid import UUID

from apps.accounts.actor import Actor
from apps.analytics.convergence.latest import get_convergence_until_now
from apps.analytics.convergence.records import ChildrenAsked, Convergence, Picked, PicksAsked
from apps.analytics.convergence.selection import get_picked
from apps.policies.selectors import READ


def get_numbers(
    asked: ChildrenAsked | PicksAsked, *, policy_slug: str, uid: UUID | None, actor: Actor, scope: str = READ
) -> Convergence | Picked:
    """Of the children of `uid`, the root's by default, or of the picks, the usual ones of which are below `uid`."""
    if isinstance(asked, PicksAsked):
        return get_picked(
            policy_slug=policy_slug, actor=actor, picks=asked.picks, period=asked.period, whole=asked.whole,
            counting=asked.counting, below=uid, by_hour=asked.by_hour, scope=scope,
        )  # fmt: skip
    return get_convergence_until_now(
        policy_slug=policy_slug, actor=actor, uid=uid, itself=asked.itself, counting=asked.counting,
        period=asked.period, by_hour=asked.by_hour, against_today=asked.against_today, scope=scope,
    )  # fmt: skip
