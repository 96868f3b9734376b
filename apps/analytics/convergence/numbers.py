"""The numbers of one figure of convergence, for page and REST."""

from __future__ import annotations

from uuid import UUID

from apps.accounts.actor import Actor
from apps.analytics.convergence.latest import get_convergence_until_now
from apps.analytics.convergence.records import ChildrenQuery, Convergence, Selection, SelectionQuery
from apps.analytics.convergence.selection import get_selection
from apps.policies.selectors import READ


def get_numbers(
    asked: ChildrenQuery | SelectionQuery, *, policy_slug: str, uid: UUID | None, actor: Actor, scope: str = READ
) -> Convergence | Selection:
    """Of the children of `uid`, the root's by default, or of the picks, the usual ones of which are below `uid`."""
    if isinstance(asked, SelectionQuery):
        return get_selection(
            policy_slug=policy_slug,
            actor=actor,
            picks=asked.picks,
            period=asked.period,
            whole=asked.whole,
            counting=asked.counting,
            below=uid,
            by_hour=asked.by_hour,
            scope=scope,
        )
    return get_convergence_until_now(
        policy_slug=policy_slug,
        actor=actor,
        uid=uid,
        itself=asked.itself,
        counting=asked.counting,
        period=asked.period,
        by_hour=asked.by_hour,
        against_today=asked.against_today,
        scope=scope,
    )
