"""What changed shares of siblings do to priorities, before they are saved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from apps.accounts.actor import Actor
from apps.engine.algorithms import PriorityResult
from apps.engine.algorithms.inputs import prepare
from apps.policies.operations.apply import tree_after
from apps.policies.settings import refuse_unsuitable_tree
from apps.policies.tree.columns import TreeColumns
from apps.priorities.selectors.rows import PolicyView, open_view
from apps.priorities.selectors.trials import simulate_view_or_none

_MOST_ROWS = 200


@dataclass(frozen=True, slots=True)
class PreviewRow:
    """The changed entry or one of its siblings. Ranks are None without a snapshot, or if the entry has no rank."""

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
    """The changed entry and its siblings. base_revision: the revision that would be changed."""

    parent_name: str
    rows: list[PreviewRow]
    base_revision: int


def preview_shares(*, policy_slug: str, entry_uid: UUID, shares: Any, actor: Actor) -> SharesPreview:
    """Preview one `set_shares` operation; raises as publishing it would for invalid shares."""
    view = open_view(policy_slug=policy_slug, actor=actor)
    changed = view.require(entry_uid)
    after = tree_after(view.tree, [{"op": "set_shares", "entry": str(entry_uid), "shares": shares}])
    refuse_unsuitable_tree(after, view.settings.algorithm)
    result = None
    if view.snapshot is not None:
        result = simulate_view_or_none(view, after, algorithm=view.settings.algorithm)
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
        rank_after=int(result.rank[i]) if result is not None and result.has_rank[i] and view.shows_numbers[i] else None,
    )
