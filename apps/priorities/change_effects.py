"""The third layer of a change set's effect: the ranks that would follow, on the usage of the newest snapshot."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from apps.accounts.actor import Actor
from apps.engine.algorithms import PriorityResult, compute
from apps.errors import DomainError
from apps.policies.columns import TreeColumns
from apps.policies.models import ChangeSet
from apps.policies.operations import Outcome, work_out
from apps.policies.trees import load_archived
from apps.priorities.answers import ServedSnapshot
from apps.priorities.preview import own_usage, simulate
from apps.priorities.selectors.rows import PolicyView, open_view

_MOST = 200


def simulate_change_set(change_set: ChangeSet, *, actor: Actor) -> list[dict[str, Any]] | None:
    """Visible leaves whose rank or factor would change, those that move furthest first.

    None where nothing can be said: no snapshot yet, or operations that don't fit the head any more. New and moved
    entries are compared by the usage that they bring along, whatever the scope they come into.
    """
    view = open_view(policy_slug=change_set.policy.slug, actor=actor)
    snapshot, outcome = view.snapshot, _on_head(view, change_set)
    if snapshot is None or outcome is None:
        return None
    after = outcome.tree
    place = _places(after, view.tree)
    same = len(after) == len(view.tree) and np.array_equal(place, np.arange(len(after)))
    result = simulate(view, after) if same else _compute(view, snapshot, after, place, outcome.settings.algorithm)
    return [] if result is None else _moves(view, snapshot, after, place, result)


def _on_head(view: PolicyView, change_set: ChangeSet) -> Outcome | None:
    try:
        return work_out(
            view.tree,
            change_set.operations,
            settings=view.settings,
            archived=lambda uid: load_archived(view.policy, uid),
        )
    except DomainError:
        return None


def _compute(
    view: PolicyView,
    snapshot: ServedSnapshot,
    after: TreeColumns,
    place: npt.NDArray[np.int64],
    algorithm: dict[str, Any],
) -> PriorityResult:
    known = view.place >= 0
    totals = np.where(known, snapshot.values.usage[view.place], 0.0)
    own = own_usage(view.tree, totals)
    return compute(after.engine_tree(), np.where(place >= 0, own[place], 0.0), algorithm=algorithm)


def _places(after: TreeColumns, before: TreeColumns) -> npt.NDArray[np.int64]:
    """Where each entry was before; −1 for a new one."""
    known = {uid.tobytes(): i for i, uid in enumerate(before.uid)}
    return np.array([known.get(uid.tobytes(), -1) for uid in after.uid], dtype=np.int64)


def _moves(
    view: PolicyView,
    snapshot: ServedSnapshot,
    after: TreeColumns,
    place: npt.NDArray[np.int64],
    result: PriorityResult,
) -> list[dict[str, Any]]:
    before = np.where(place >= 0, view.place[place], -1)  # in the snapshot
    rank = np.where(before >= 0, snapshot.values.rank[before], 0)
    factor = np.where(before >= 0, snapshot.values.factor[before], 0.0)
    sees = np.where(place >= 0, view.visibility.mask[place], False)
    moved = np.flatnonzero(result.is_ranked & sees & ((rank != result.rank) | (factor != result.factor)))
    furthest = moved[np.argsort(-np.abs(result.rank[moved] - rank[moved]), kind="stable")][:_MOST]
    return [
        {
            "entry": str(after.uuid(i)),
            "path": after.path(i),
            "rank_before": int(rank[i]) or None,
            "rank_after": int(result.rank[i]),
            "factor_before": float(factor[i]) if rank[i] else None,
            "factor_after": float(result.factor[i]),
        }
        for i in furthest.tolist()
    ]
