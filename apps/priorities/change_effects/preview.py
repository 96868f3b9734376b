"""Preview of changed shares: the siblings' new targets and all new ranks, on the newest snapshot's usage.

Computes as a recompute does, without storing anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from apps.accounts.actor import Actor
from apps.engine.algorithms import PriorityResult
from apps.engine.algorithms.inputs import prepare
from apps.policies.operations.algorithm_fit import refuse_misfit
from apps.policies.operations.apply import apply
from apps.policies.tree.stored import TreeColumns
from apps.priorities.change_effects.carry_totals import simulate
from apps.priorities.selectors.rows import PolicyView, open_view

_MOST_ROWS = 200


@dataclass(frozen=True, slots=True)
class PreviewRow:
    """One sibling, the changed entry included. Ranks are None without a snapshot and where there is none."""

    uid: UUID
    name: str
    kind: str
    is_changed: bool
    shares_before: float | None
    shares_after: float | None
    target_before: float | None
    target_after: float | None
    actual: float | None
    rank_before: int | None
    rank_after: int | None


@dataclass(frozen=True)
class SharesPreview:
    """The sibling group of the changed entry; `base_revision` is what the change would be made to."""

    parent_name: str
    rows: list[PreviewRow]
    base_revision: int


def preview_shares(*, policy_slug: str, entry_uid: UUID, shares: Any, actor: Actor) -> SharesPreview:
    """Try one `set_shares`; raises what publishing it would raise for wrong shares."""
    view = open_view(policy_slug=policy_slug, actor=actor)
    changed = view.require(entry_uid)
    after = apply(view.tree, [{"op": "set_shares", "entry": str(entry_uid), "shares": shares}])
    refuse_misfit(after, view.settings.algorithm)
    result = simulate(view.snapshot, after, algorithm=view.settings.algorithm)
    parent = int(view.tree.parent[changed])
    siblings = view.visible_children(parent) if parent >= 0 else [changed]
    if changed in siblings[_MOST_ROWS:]:
        siblings = [changed, *siblings]
    return SharesPreview(
        parent_name=view.tree.name[max(parent, 0)],
        rows=[_row(view, after, result, i, is_changed=i == changed) for i in siblings[:_MOST_ROWS]],
        base_revision=view.revision,
    )


def _row(
    view: PolicyView, after: TreeColumns, result: PriorityResult | None, i: int, *, is_changed: bool
) -> PreviewRow:
    before = view.row(i, position=(1, 1))
    prepared = prepare(after.engine_tree())
    dissolved = bool(after.inherit[i])
    return PreviewRow(
        uid=before.uid,
        name=before.name,
        kind=before.kind,
        is_changed=is_changed,
        shares_before=before.shares,
        shares_after=None if dissolved else float(after.shares[i]),
        target_before=before.target,
        target_after=None if dissolved else float(prepared.spread(prepared.target)[i]),
        actual=before.actual,
        rank_before=before.rank,
        rank_after=int(result.rank[i]) if result is not None and result.has_rank[i] and view.told[i] else None,
    )
