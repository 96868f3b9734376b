"""Two trees side by side: one list of the entries that differ, in what, and of their targets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from apps.policies.tree.columns import F8, Mask, TreeColumns
from apps.policies.tree.difference import changed_entries
from apps.policies.tree.document_merge import IndexArray, indexes_of

_SAME = 1e-12


# What can happen to an entry, in the order in which it is counted. The last is alone: the entry itself is as it was.
ADDED, ARCHIVED, MOVED, RENAMED = "added", "archived", "moved", "renamed"
RESHARED, OTHERWISE, TARGET_ONLY = "with new shares", "changed otherwise", "with a new target only"
CHANGES = (ADDED, ARCHIVED, MOVED, RENAMED, RESHARED, OTHERWISE, TARGET_ONLY)


@dataclass(frozen=True)
class EntryChange:
    """The change of one entry (a moved one may be renamed too), and its target among siblings before and after.

    before, after: None where there is no target: the entry doesn't exist, or a member of its group inherits.
    """

    path: str
    changes: tuple[str, ...]
    before: float | None
    after: float | None


@dataclass(frozen=True)
class Comparison:
    """Every entry that differs is one line of one list, the largest change of a target first; `entries` begins it.

    counted: lines of the whole list by what happens to them, in the order of `CHANGES`.
    """

    counted: tuple[int, ...]
    n_entries: int
    entries: tuple[EntryChange, ...]

    @property
    def is_empty(self) -> bool:
        return self.n_entries == 0

    def counts(self) -> list[tuple[str, int]]:
        """In words, zeros included."""
        return list(zip(CHANGES, self.counted, strict=True))


def compare(before: TreeColumns, after: TreeColumns, *, most: int = 200) -> Comparison:
    """What is different; of the list the `most` entries whose target changes most, then in the order of the tree."""
    changed, gone = changed_entries(before, after)
    in_before = indexes_of(after.uid, before)
    was, is_now = sibling_targets(before), sibling_targets(after)
    old = np.where(in_before >= 0, was[np.maximum(in_before, 0)], np.nan)
    kinds = _kinds(before, after, in_before, changed)
    kinds[:, CHANGES.index(TARGET_ONLY)] = ~changed & _differ(old, is_now)
    kept, lost = np.flatnonzero(kinds.any(axis=1)), np.flatnonzero(gone)
    size = np.concatenate([_size(old, is_now)[kept], np.nan_to_num(was[lost])])
    counted = kinds.sum(axis=0)
    counted[CHANGES.index(ARCHIVED)] = len(lost)
    entries = []
    for line in np.argsort(-size, kind="stable")[:most].tolist():
        if line < len(kept):
            i = int(kept[line])
            what = tuple(word for word, holds in zip(CHANGES, kinds[i].tolist(), strict=True) if holds)
            entries.append(EntryChange(after.path(i), what, _number(old[i]), _number(is_now[i])))
        else:
            i = int(lost[line - len(kept)])
            entries.append(EntryChange(before.path(i), (ARCHIVED,), _number(was[i]), None))
    return Comparison(tuple(counted.tolist()), len(kept) + len(lost), tuple(entries))


def sibling_targets(tree: TreeColumns) -> F8:
    """Shares as fractions of the siblings' sum; NaN in groups with a member that inherits, and at the root."""
    parent = np.maximum(tree.parent, 0)
    own = np.where(tree.parent < 0, 0.0, tree.shares)
    total = np.bincount(parent, weights=own, minlength=len(tree))[parent]
    passes_on = np.bincount(parent, weights=tree.inherit, minlength=len(tree))[parent] > 0
    target = np.divide(own, total, out=np.zeros(len(tree)), where=total > 0)
    target[passes_on | (tree.parent < 0)] = np.nan
    return target


def _kinds(before: TreeColumns, after: TreeColumns, in_before: IndexArray, changed: Mask) -> Mask:
    """What happens to each entry of `after` itself: a row an entry, a column a word of `CHANGES`."""
    kinds = np.zeros((len(after), len(CHANGES)), dtype=np.bool_)
    kinds[:, CHANGES.index(ADDED)] = in_before < 0
    both = np.flatnonzero(changed & (in_before >= 0))
    old = in_before[both]
    parents = (np.maximum(after.parent[both], 0), np.maximum(before.parent[old], 0))
    moved = (after.uid[parents[0]] != before.uid[parents[1]]).any(axis=1)
    renamed = np.array(
        [after.name[i] != before.name[j] for i, j in zip(both.tolist(), old.tolist(), strict=True)], dtype=bool
    )
    reshared = (after.shares[both] != before.shares[old]) | (after.inherit[both] != before.inherit[old])
    for word, mask in ((MOVED, moved), (RENAMED, renamed), (RESHARED, reshared)):
        kinds[both, CHANGES.index(word)] = mask
    kinds[both, CHANGES.index(OTHERWISE)] = ~(moved | renamed | reshared)
    return kinds


def _size(old: F8, new: F8) -> F8:
    return np.asarray(np.abs(np.nan_to_num(new) - np.nan_to_num(old)), dtype=np.float64)


def _differ(old: F8, new: F8) -> Mask:
    return np.asarray((_size(old, new) > _SAME) | (np.isnan(old) != np.isnan(new)), dtype=np.bool_)


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
