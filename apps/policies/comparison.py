"""Two trees side by side: how many entries differ in what, and whose target becomes another one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apps.policies.adoption import indexes_of
from apps.policies.columns import F8, TreeColumns
from apps.policies.difference import changed_entries

_SAME = 1e-12


@dataclass(frozen=True)
class TargetChange:
    """A share among siblings, before and after; None where there is none (not there, or shares passed on)."""

    path: str
    before: float | None
    after: float | None


@dataclass(frozen=True)
class Comparison:
    """Counts of entries by what happens to them (moved ones may be renamed too), and changed targets, largest first."""

    n_added: int
    n_archived: int
    n_moved: int
    n_renamed: int
    n_reweighed: int
    n_otherwise: int
    n_targets: int
    targets: tuple[TargetChange, ...]

    @property
    def is_empty(self) -> bool:
        return not any(count for _, count in self.counts())

    def counts(self) -> list[tuple[str, int]]:
        """In words, zeros included."""
        return [
            ("added", self.n_added), ("archived", self.n_archived), ("moved", self.n_moved),
            ("renamed", self.n_renamed), ("with new shares", self.n_reweighed), ("changed otherwise", self.n_otherwise),
        ]  # fmt: skip


def compare(before: TreeColumns, after: TreeColumns, *, most: int = 20) -> Comparison:
    """What is different; of the changed targets the `most` that change most."""
    changed, gone = changed_entries(before, after)
    in_before = indexes_of(after.uid, before)
    both = np.flatnonzero(changed & (in_before >= 0))
    old = in_before[both]
    parents = (np.maximum(after.parent[both], 0), np.maximum(before.parent[old], 0))
    moved = (after.uid[parents[0]] != before.uid[parents[1]]).any(axis=1)
    renamed = np.array(
        [after.name[i] != before.name[j] for i, j in zip(both.tolist(), old.tolist(), strict=True)], dtype=bool
    )
    weighed = (after.shares[both] != before.shares[old]) | (after.inherit[both] != before.inherit[old])
    shown, n_targets = _targets(before, after, in_before, most)
    return Comparison(
        n_added=int((in_before < 0).sum()), n_archived=int(gone.sum()), n_moved=int(moved.sum()),
        n_renamed=int(renamed.sum()), n_reweighed=int(weighed.sum()),
        n_otherwise=int((~(moved | renamed | weighed)).sum()), n_targets=n_targets, targets=shown,
    )  # fmt: skip


def sibling_targets(tree: TreeColumns) -> F8:
    """Shares as part of the siblings' sum; NaN in groups of which somebody passes shares on, and at the root."""
    parent = np.maximum(tree.parent, 0)
    own = np.where(tree.parent < 0, 0.0, tree.shares)
    total = np.bincount(parent, weights=own, minlength=len(tree))[parent]
    passes_on = np.bincount(parent, weights=tree.inherit, minlength=len(tree))[parent] > 0
    target = np.divide(own, total, out=np.zeros(len(tree)), where=total > 0)
    target[passes_on | (tree.parent < 0)] = np.nan
    return target


def _targets(
    before: TreeColumns, after: TreeColumns, in_before: np.ndarray[tuple[int], np.dtype[np.int64]], most: int
) -> tuple[tuple[TargetChange, ...], int]:
    was, is_now = sibling_targets(before), sibling_targets(after)
    known = in_before >= 0
    old = np.where(known, was[np.maximum(in_before, 0)], np.nan)
    both_none = np.isnan(old) & np.isnan(is_now)
    size = np.abs(np.nan_to_num(is_now) - np.nan_to_num(old))
    differs = ~both_none & ((size > _SAME) | (np.isnan(old) != np.isnan(is_now)))
    differs[0] = False
    gone = np.ones(len(before), dtype=np.bool_)
    gone[in_before[known]] = False
    lost = np.flatnonzero(gone & ~np.isnan(was))
    rows = np.flatnonzero(differs)
    rows = rows[np.argsort(-size[rows], kind="stable")][:most]
    found = [TargetChange(after.path(i), _number(old[i]), _number(is_now[i])) for i in rows.tolist()]
    first_lost = lost[np.argsort(-was[lost], kind="stable")][:most]
    found += [TargetChange(before.path(i), _number(was[i]), None) for i in first_lost.tolist()]
    found.sort(key=lambda change: -abs((change.after or 0.0) - (change.before or 0.0)))
    return tuple(found[:most]), int(differs.sum()) + len(lost)


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
