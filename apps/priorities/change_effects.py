"""Effect of a change set on the newest snapshot's usage. Nothing is stored."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from apps.accounts.actor import Actor
from apps.core.cache_sizes import mask_digest
from apps.core.derived_state import in_memory
from apps.core.errors import DomainError
from apps.core.kept_briefly import KeptBriefly
from apps.engine.algorithms import PriorityResult
from apps.policies.models import ChangeSet
from apps.policies.operations.apply import Operation, Outcome, apply_operations, digest_of_operations
from apps.policies.tree.columns import TreeColumns
from apps.policies.tree.difference import number_or_none
from apps.policies.tree.stored import load_archived
from apps.priorities.recompute.comparison import ComputedTree, compare, matching_indexes
from apps.priorities.selectors.rows import PolicyView, open_view
from apps.priorities.selectors.trials import simulate_view_or_none
from apps.priorities.serving.served_snapshot import ServedSnapshot

DERIVED_STATE = (
    in_memory(
        "_effects",
        holds="moves of ranks by change sets of large trees",
        key="revision, snapshot, visible entries and operations",
        inputs="the tree and the usage of the snapshot",
        range="one reader's rights",
        ends="a minute",
    ),
)

_MOST_FURTHEST_MOVES = 200
_MANY_ENTRIES = 20_000  # from which on moves are kept between requests: to compute them takes 200 MB of a million
_effects: KeptBriefly[list[dict[str, Any]] | None] = KeptBriefly(1_000)


def simulate_change_set(change_set: ChangeSet, *, actor: Actor) -> list[dict[str, Any]] | None:
    """Visible leaves whose rank or factor would change, the largest change of rank first, at most 200.

    None without a snapshot, if the operations no longer apply to the head, or if the algorithm can't be used on the
    tree. The usage of moved entries is that of their old scope: see `Totals.carried_to`.
    """
    return simulate_operations(open_view(policy_slug=change_set.policy.slug, actor=actor), change_set.operations)


def simulate_operations(view: PolicyView, operations: Sequence[Operation]) -> list[dict[str, Any]] | None:
    """As `simulate_change_set`, of unsaved operations."""
    if view.snapshot is None or len(view.tree) < _MANY_ENTRIES or not view.tree.digest:
        return _simulate(view, operations)
    return _effects.get(_key(view, view.snapshot, operations), lambda: _simulate(view, operations), size=1)


def _key(view: PolicyView, snapshot: ServedSnapshot, operations: Sequence[Operation]) -> Hashable:
    return (
        (view.policy.pk, view.revision, view.tree.digest),
        (snapshot.snapshot_id, snapshot.as_of, snapshot.computed_at),
        (mask_digest(view.shows_numbers), mask_digest(view.numbers_in_snapshot)),
        digest_of_operations(operations),
    )


def _simulate(view: PolicyView, operations: Sequence[Operation]) -> list[dict[str, Any]] | None:
    snapshot, outcome = view.snapshot, _on_head(view, operations)
    if snapshot is None or outcome is None:
        return None
    before = _head_on_its_usage(view, snapshot)
    result = simulate_view_or_none(view, outcome.tree, algorithm=outcome.settings.algorithm)
    return None if before is None or result is None else _moves(view, before, outcome.tree, result)


def _head_on_its_usage(view: PolicyView, snapshot: ServedSnapshot) -> ComputedTree | None:
    """What a change starts from: the head. Until it is computed, simulated with the usage of the newest snapshot, since
    the moves of what was published last are not those of the change.
    """
    if snapshot.revision == view.revision:
        return ComputedTree(snapshot.tree, snapshot.values)
    result = simulate_view_or_none(view, view.tree, algorithm=view.settings.algorithm)
    return None if result is None else ComputedTree(view.tree, result)


def _on_head(view: PolicyView, operations: Sequence[Operation]) -> Outcome | None:
    try:
        return apply_operations(
            view.tree,
            operations,
            settings=view.settings,
            archived=lambda uid: load_archived(view.policy, uid),
        )
    except DomainError:
        return None


def _moves(
    view: PolicyView,
    now: ComputedTree,
    after: TreeColumns,
    result: PriorityResult,
) -> list[dict[str, Any]]:
    compared = compare(now, ComputedTree(after, result))
    before, then = compared.before, compared.after
    in_view = matching_indexes(after, view.tree)
    is_visible = np.where(in_view >= 0, view.shows_numbers[in_view], False)
    moved = np.flatnonzero(is_visible & (compared.is_leaf & ~compared.is_same)[: len(after)])
    furthest = moved[np.argsort(-np.abs(then.rank[moved] - before.rank[moved]), kind="stable")][:_MOST_FURTHEST_MOVES]
    return [
        {
            "entry": str(after.uuid(i)),
            "path": after.path(i),
            "rank_before": int(before.rank[i]) or None,
            "rank_after": int(then.rank[i]) or None,
            "factor_before": number_or_none(before.factor[i]),
            "factor_after": number_or_none(then.factor[i]),
        }
        for i in furthest.tolist()
    ]
