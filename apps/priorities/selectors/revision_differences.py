"""What two revisions of a policy have differently, for its readers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import numpy as np

from apps.accounts.actor import Actor
from apps.mapping.permissions import load_past_visibility
from apps.policies.models import Adjustment, Policy, Revision
from apps.policies.selectors import get_policy, get_revision
from apps.policies.tree.columns import Mask, TreeColumns
from apps.policies.tree.revision_diff import Change, EntryDifference, FieldChange, diff_settings, diff_trees
from apps.policies.tree.stored import load_tree
from apps.priorities.selectors.tree import offset

PAGE = 100
_MOST_UNCHANGED = 100


@dataclass(frozen=True, slots=True)
class Correction:
    """An adjustment that is active in only one of two revisions."""

    entry: UUID
    name: str
    resource: str
    amount_s: float
    at: datetime
    note: str
    change: str  # added or revoked


@dataclass(frozen=True)
class RevisionDiff:
    """Differences of two revisions. rows: one page. kept: unchanged entries with the largest changes of target."""

    policy: Policy
    before: Revision
    after: Revision
    settings: list[FieldChange]
    rows: list[EntryDifference]
    n_entries: int
    next_cursor: str | None
    kept: list[EntryDifference]
    counts: dict[Change, int]
    corrections: list[Correction]
    n_outside: int
    n_kept_outside: int

    @property
    def n_outside_view(self) -> int:
        return self.n_outside + self.n_kept_outside

    @property
    def is_empty(self) -> bool:
        return not (self.settings or self.n_entries or self.corrections or self.n_outside)


def diff_revisions(
    *, policy_slug: str, before: int, after: int, cursor: str | None = None, at: datetime, actor: Actor
) -> RevisionDiff:
    """Differences between two revisions, in either order. Current rights apply."""
    policy = get_policy(slug=policy_slug, actor=actor, is_past=True)
    first, last = (get_revision(policy=policy, at=number) for number in (before, after))
    trees = [load_tree(policy, number) for number in (before, after)]
    sees = [load_past_visibility(policy=policy, tree=tree, at=at, actor=actor).mask for tree in trees]
    diff = diff_trees(*trees, sees_before=sees[0], sees_after=sees[1])
    start = offset(cursor)
    corrections, n_hidden = _corrections(policy, before, after, trees, sees)
    return RevisionDiff(
        policy=policy,
        before=first,
        after=last,
        settings=diff_settings(first.settings, last.settings),
        rows=list(diff.rows(start, start + PAGE)),
        n_entries=diff.n_entries,
        next_cursor=str(start + PAGE) if diff.n_entries > start + PAGE else None,
        kept=diff.kept(_MOST_UNCHANGED),
        counts=diff.counts,
        corrections=corrections,
        n_outside=diff.n_outside + n_hidden,
        n_kept_outside=diff.n_kept_outside,
    )


def _corrections(
    policy: Policy, before: int, after: int, trees: Sequence[TreeColumns], sees: Sequence[Mask]
) -> tuple[list[Correction], int]:
    """Visible adjustments that differ, and the number of hidden ones."""
    low, high = sorted((before, after))
    made = Adjustment.objects.filter(policy=policy, since__gt=low, since__lte=high).exclude(until__lte=high)
    revoked = Adjustment.objects.filter(policy=policy, since__lte=low, until__gt=low, until__lte=high)
    corrections, n_hidden = [], 0
    for rows, is_new in ((made, before <= after), (revoked, before > after)):
        change = "added" if is_new else "revoked"
        for each in rows.order_by("at", "pk"):
            name = _visible_name(each.entry_uid, trees, sees)
            if name is None:
                n_hidden += 1
                continue
            corrections.append(
                Correction(each.entry_uid, name, each.resource, each.amount_s, each.at, each.note, change)
            )
    return corrections, n_hidden


def _visible_name(uid: UUID, trees: Sequence[TreeColumns], sees: Sequence[Mask]) -> str | None:
    there = [(tree.index_of_uid(uid), tree, mask) for tree, mask in zip(trees, sees, strict=True)]
    known = [(i, tree, mask) for i, tree, mask in there if i is not None]
    if not known or not all(bool(np.asarray(mask[i])) for i, _, mask in known):
        return None
    i, tree, _ = known[-1]
    return tree.name[i]
