"""The third layer of a change set's effect: the ranks that would follow, on the usage of the newest snapshot."""

from __future__ import annotations

from typing import Any

import numpy as np

from apps.accounts.actor import Actor
from apps.core.errors import DomainError
from apps.engine.algorithms import PriorityResult
from apps.policies.models import ChangeSet
from apps.policies.operations.apply import Outcome, work_out
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.stored import load_archived
from apps.priorities.change_effects.carry_totals import places, simulate
from apps.priorities.selectors.rows import PolicyView, open_view
from apps.priorities.serving.lookup_index import ServedSnapshot

_MOST = 200


def simulate_change_set(change_set: ChangeSet, *, actor: Actor) -> list[dict[str, Any]] | None:
    """Visible leaves whose rank or factor would change, those that move furthest first.

    None where nothing can be said: no snapshot yet, operations that don't fit the head any more, or an algorithm that
    can't be used on the tree. New and moved entries are compared by the usage that they bring along, whatever the scope
    they come into.
    """
    view = open_view(policy_slug=change_set.policy.slug, actor=actor)
    snapshot, outcome = view.snapshot, _on_head(view, change_set)
    if snapshot is None or outcome is None:
        return None
    result = simulate(snapshot, outcome.tree, algorithm=outcome.settings.algorithm)
    return None if result is None else _moves(view, snapshot, outcome.tree, result)


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


def _moves(
    view: PolicyView,
    snapshot: ServedSnapshot,
    after: TreeColumns,
    result: PriorityResult,
) -> list[dict[str, Any]]:
    place, before = places(after, view.tree), places(after, snapshot.tree)
    values = snapshot.values
    rank = np.where(before >= 0, values.rank[before], 0)
    factor = np.where((before >= 0) & values.has_factor[before], values.factor[before], np.nan)
    factor_after = np.where(result.has_factor, result.factor, np.nan)
    sees = np.where(place >= 0, view.told[place], False)
    is_leaf = result.is_ranked | ((before >= 0) & values.is_ranked[before])
    is_same = (rank == result.rank) & ((factor == factor_after) | (np.isnan(factor) & np.isnan(factor_after)))
    moved = np.flatnonzero(is_leaf & sees & ~is_same)
    furthest = moved[np.argsort(-np.abs(result.rank[moved] - rank[moved]), kind="stable")][:_MOST]
    return [
        {
            "entry": str(after.uuid(i)),
            "path": after.path(i),
            "rank_before": int(rank[i]) or None,
            "rank_after": int(result.rank[i]) or None,
            "factor_before": _or_none(factor[i]),
            "factor_after": _or_none(factor_after[i]),
        }
        for i in furthest.tolist()
    ]


def _or_none(value: np.float64) -> float | None:
    return None if np.isnan(value) else float(value)
