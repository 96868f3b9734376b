"""The rank of each of a person's accounts once a job of a given size is charged to it: where to submit."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from datetime import datetime
from threading import Lock
from typing import Any
from uuid import UUID

from cachetools import LRUCache, cached

from apps.accounts.actor import Actor
from apps.accounts.models import Token
from apps.analytics.my_priority.numbers import get_own_entry
from apps.analytics.what_if.totals import Totals
from apps.analytics.what_if.trial import MOST_CORE_H, Place, count_computation, place_in
from apps.core.errors import FieldProblem, Invalid
from apps.policies.selectors import get_policy
from apps.priorities.recompute.projection import compute_from_totals, needing_the_algorithm
from apps.priorities.serving.served_snapshot import ServedSnapshot
from apps.priorities.visibility.visible_entries import numbers_visible_in

USUAL_CORE_H = 1000.0
_MOST_KEPT = 4_000


def places_after_job(
    *, policy_slug: str, entry_uids: Sequence[UUID], core_h: float, actor: Actor, at: datetime
) -> dict[UUID, Place]:
    """As the newest snapshot would rank each account if its job of so many core-hours counted in full, the others'
    usage unchanged. Entries to which no account of the actor leads are left out by NotFound.

    Readers of a part of the tree get ranks in steps of five: another size each time must not reveal others' usage.

    Raises:
        NotFound: none of the actor's accounts leads to one of the entries.
        Invalid: core_h is not 0 to 1,000,000,000.
        TooOften: more computations a minute than allowed; the usual size is free.
        Unavailable: nothing has been computed yet.
    """
    if not 0 <= core_h <= MOST_CORE_H:  # NaN is neither
        message = "must be core-hours from 0 to 1,000,000,000"
        raise Invalid(f"core_h {message}.", fields=[FieldProblem("core_h", message)])
    if core_h != USUAL_CORE_H:
        count_computation(actor)
    policy = get_policy(slug=policy_slug, actor=actor, scope=Token.Scope.SELF_READ)
    found = {}
    for uid in entry_uids:
        mine = get_own_entry(policy_slug=policy_slug, entry_uid=uid, actor=actor, at=at)
        is_exact = bool(numbers_visible_in(policy=policy, snapshot=mine.snapshot, at=at, actor=actor).all())
        with needing_the_algorithm():
            found[uid] = _after(mine.snapshot, mine.entry, core_h, is_exact)
    return found


def _key(snapshot: ServedSnapshot, entry: int, core_h: float, is_exact: bool) -> Hashable:
    return snapshot.snapshot_id, snapshot.computed_at, entry, core_h, is_exact


_kept: LRUCache[Hashable, Any] = LRUCache(_MOST_KEPT)


@cached(_kept, key=_key, lock=Lock())
def _after(snapshot: ServedSnapshot, entry: int, core_h: float, is_exact: bool) -> Place:
    weight = float(snapshot.settings.metric["weights"].get("cpu_s", 0.0))
    now = Totals(snapshot.values.usage, snapshot.values.group_usage)
    then = now.added(snapshot.tree, entry, core_h * 3600 * weight)
    algorithm = snapshot.settings.algorithm
    result = compute_from_totals(snapshot.tree.engine_tree(), then.usage, then.group_usage, algorithm=algorithm)
    return place_in(result, entry, is_exact)
