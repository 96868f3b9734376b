"""A short tag of the data behind a policy's figures, which pages poll every few seconds to detect changes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

from django.db import connection

from apps.accounts.actor import Actor
from apps.policies.access.scope import require_policy
from apps.policies.selectors import READ, get_policy
from apps.priorities.serving import store

SERIES = ("built_at", "through_on", "redo_from_on", "hours_through_at")  # of analytics_series
_SERIES = f"SELECT {', '.join(SERIES)} FROM analytics_series WHERE policy_id = %s"  # noqa: S608 - constants only


@dataclass(frozen=True, slots=True)
class LiveState:
    """tag: changes if and only if the served snapshot, the revision or the daily series changes. computed_at: of the
    served snapshot, None before the first one.
    """

    tag: str
    revision: int
    computed_at: datetime | None


def get_live_state(
    *, policy_slug: str, actor: Actor, scope: str = READ, series: tuple[Any, ...] | None = None
) -> LiveState:
    """Return the state from memory and one small query, because pages poll it every five seconds.

    series: values of the columns of SERIES if the caller has read them already, all None if there is no row.
    """
    state = store.state()
    policy = state.policies.get(policy_slug)
    if policy is None or actor.token is not None:
        found = get_policy(slug=policy_slug, actor=actor, scope=scope)
        policy_id, head = found.pk, found.head_number
    else:
        require_policy(actor, policy_slug)
        policy_id, head = policy.id, policy.head_number
    snapshot = state.snapshots.get(policy_slug)
    parts = (policy_id, head, snapshot.snapshot_id if snapshot else None, series or _read_series(policy_id))
    tag = sha256(repr(parts).encode()).hexdigest()[:32]
    return LiveState(tag, head, snapshot.computed_at if snapshot else None)


def _read_series(policy_id: int) -> tuple[Any, ...]:
    with connection.cursor() as cursor:
        cursor.execute(_SERIES, [policy_id])
        return cursor.fetchone() or (None,) * len(SERIES)
