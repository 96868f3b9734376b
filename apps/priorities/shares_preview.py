"""What changed shares of siblings do to targets, ranks and the day on target, before they are saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from apps.accounts.actor import Actor
from apps.policies.operations.apply import tree_after
from apps.policies.operations.taken_shares import change_operations
from apps.policies.settings import PolicySettings, refuse_unsuitable_tree
from apps.priorities.projections import Projection, projections_of
from apps.priorities.rank_effect import RankEffect, RankMoves, rank_effect
from apps.priorities.records import EntryRow
from apps.priorities.selectors.rows import open_view

_MOST_PREVIEW_ROWS = 200


@dataclass(frozen=True, slots=True)
class PreviewRow:
    """The changed entry or one of its siblings, before and after the change.

    projection_before, projection_after: None if unknown. moves: of its ranks; None if the reader sees none of them.
    """

    before: EntryRow
    after: EntryRow
    is_changed: bool
    projection_before: Projection | None
    projection_after: Projection | None
    moves: RankMoves | None

    @property
    def uid(self) -> UUID:
        return self.before.uid

    @property
    def name(self) -> str:
        return self.before.name

    @property
    def target_shift(self) -> float:
        """Change of the target, in fractions of the whole; 0 where one of both doesn't exist."""
        if self.before.target is None or self.after.target is None:
            return 0.0
        return self.after.target - self.before.target


@dataclass(frozen=True)
class SharesPreview:
    """The changed entry and its siblings. whole: the entry of which their targets are parts: their parent, or above one
    that inherits its shares. base_revision: the revision that would be changed.

    ranks: None before a change, without a snapshot, and where the algorithm doesn't fit.
    """

    whole: EntryRow
    rows: Sequence[PreviewRow]
    base_revision: int
    ranks: RankEffect | None
    settings: PolicySettings

    @property
    def changed(self) -> PreviewRow:
        return next(row for row in self.rows if row.is_changed)


def preview_shares(
    *, policy_slug: str, entry_uid: UUID, shares: Any = None, giver: UUID | None = None, actor: Actor
) -> SharesPreview:
    """Preview a change of shares; raises as publishing it would for invalid shares.

    shares, giver: as in `change_operations`; shares None changes nothing.
    """
    view = open_view(policy_slug=policy_slug, actor=actor)
    changed = view.require(entry_uid)
    if giver is not None:
        view.require(giver)
    after = view
    if shares is not None:
        tree = tree_after(view.tree, change_operations(view.tree, entry_uid, shares, giver))
        refuse_unsuitable_tree(tree, view.settings.algorithm)
        after = replace(view, tree=tree)
    parent = max(int(view.tree.parent[changed]), 0)
    siblings = view.visible_children(parent) if changed else [changed]
    if changed in siblings[_MOST_PREVIEW_ROWS:]:
        siblings = [changed, *siblings]
    indices = siblings[:_MOST_PREVIEW_ROWS]
    uids = [view.tree.uuid(i) for i in indices]
    ranks = None if after is view else rank_effect(view, after.tree)
    projected = projections_of(view, uids)
    projected_after = projected if after is view else projections_of(after, uids)
    rows = [
        PreviewRow(
            before=view.row(i, position=(1, 1)),
            after=after.row(i, position=(1, 1)),
            is_changed=i == changed,
            projection_before=projected.get(uid),
            projection_after=projected_after.get(uid),
            moves=None if ranks is None else ranks.of_entry(uid),
        )
        for i, uid in zip(indices, uids, strict=True)
    ]
    return SharesPreview(view.row(view.tree.whole_of(changed)), rows, view.revision, ranks, view.settings)
