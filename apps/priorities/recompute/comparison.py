"""Entry-by-entry comparison of two computed trees, matched by uid: ranks, factors, targets, usage and priorities.

What a reader may see is decided by the caller. `pages.algorithm.comparison` doesn't use it: it compares up to four
algorithms on one tree at once, also by unrounded ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from apps.policies.tree.columns import Mask, TreeColumns, has_same_entries
from apps.policies.tree.document_merge import indexes_of

F8 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int64]
U1 = npt.NDArray[np.uint8]


class Numbers(Protocol):
    """The columns that are compared: a `PriorityResult`, or the `Values` of a snapshot."""

    @property
    def rank(self) -> npt.NDArray[Any]: ...
    @property
    def factor(self) -> F8: ...
    @property
    def target(self) -> F8: ...
    @property
    def actual(self) -> F8: ...
    @property
    def priority(self) -> F8: ...
    @property
    def has_rank(self) -> Mask: ...
    @property
    def has_factor(self) -> Mask: ...
    @property
    def is_ranked(self) -> Mask: ...
    @property
    def competes(self) -> Mask: ...


@dataclass(frozen=True, eq=False)
class ComputedTree:
    """A tree and the numbers computed for its entries."""

    tree: TreeColumns
    numbers: Numbers


@dataclass(frozen=True, eq=False)
class Side:
    """Numbers of one tree at the rows of a comparison. index: of the row's entry in this tree, −1 where it has none."""

    index: I8
    numbers: Numbers

    @cached_property
    def rank(self) -> I8:
        """Of leaves and groups; 0 without a rank."""
        return np.where((self.index >= 0) & self.numbers.has_rank[self.index], self.numbers.rank[self.index], 0)

    @cached_property
    def is_leaf(self) -> Mask:
        """Whether the entry is a ranked leaf in this tree."""
        return np.asarray((self.index >= 0) & self.numbers.is_ranked[self.index], dtype=np.bool_)

    @cached_property
    def leaf_rank(self) -> I8:
        """Of ranked leaves; 0 for all other entries."""
        return np.where(self.is_leaf, self.rank, 0)

    @cached_property
    def factor(self) -> F8:
        """NaN without a factor."""
        return self._where(self.numbers.has_factor, self.numbers.factor)

    @cached_property
    def leaf_factor(self) -> F8:
        """Of ranked leaves; NaN for all other entries."""
        return np.where(self.is_leaf, self.factor, np.nan)

    @cached_property
    def target(self) -> F8:
        """NaN where the entry doesn't compete; so are `actual` and `priority`."""
        return self._where(self.numbers.competes, self.numbers.target)

    @cached_property
    def actual(self) -> F8:
        return self._where(self.numbers.competes, self.numbers.actual)

    @cached_property
    def priority(self) -> F8:
        return self._where(self.numbers.competes, self.numbers.priority)

    def _where(self, exists: Mask, column: F8) -> F8:
        return np.where((self.index >= 0) & exists[self.index], column[self.index], np.nan)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Two computed trees side by side. Rows: the entries of the tree after in its order, then those only before.

    uid: u1 (rows, 16).
    """

    uid: U1
    before: Side
    after: Side

    @cached_property
    def is_leaf(self) -> Mask:
        """Rows that are a ranked leaf on one side or both."""
        return self.before.is_leaf | self.after.is_leaf

    @cached_property
    def is_same(self) -> Mask:
        """Rows whose rank and factor are unchanged, where both lack a factor too."""
        old, new = self.before.factor, self.after.factor
        same: Mask = (self.before.rank == self.after.rank) & ((old == new) | (np.isnan(old) & np.isnan(new)))
        return same

    @property
    def n_moved(self) -> int:
        """Number of leaves whose rank differs, new and removed leaves included."""
        return int((self.before.leaf_rank != self.after.leaf_rank).sum())


def compare(before: ComputedTree, after: ComputedTree) -> Comparison:
    """Match the entries of two computed trees by uid."""
    if has_same_entries(before.tree, after.tree):
        return Comparison(
            after.tree.uid, Side(after.tree.places, before.numbers), Side(after.tree.places, after.numbers)
        )
    in_before = matching_indexes(after.tree, before.tree)
    is_removed = np.ones(len(before.tree), dtype=np.bool_)
    is_removed[in_before[in_before >= 0]] = False
    removed = np.flatnonzero(is_removed)
    return Comparison(
        np.concatenate([after.tree.uid, before.tree.uid[removed]]),
        Side(np.append(in_before, removed), before.numbers),
        Side(np.append(np.arange(len(after.tree)), np.full(len(removed), -1)), after.numbers),
    )


def matching_indexes(tree: TreeColumns, other: TreeColumns) -> I8:
    """The index in another tree of each entry of `tree`, matched by uid; −1 where it is missing there."""
    return tree.places if has_same_entries(tree, other) else indexes_of(tree.uid, other)
