"""How many ranks a change of shares moves, and by how many places, at the usage of the newest snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt

from apps.core.errors import Invalid
from apps.engine.errors import BadParameter
from apps.policies.tree.columns import Mask, TreeColumns
from apps.priorities.recompute.comparison import Comparison, ComputedTree, Numbers, compare, matching_indexes
from apps.priorities.recompute.reader_trials import totals_of_reader
from apps.priorities.recompute.totals import simulate_totals
from apps.priorities.selectors.draft import DraftView
from apps.priorities.selectors.rows import PolicyView
from apps.priorities.serving.served_snapshot import ServedSnapshot

I8 = npt.NDArray[np.int64]
_NONE = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class RankMoves:
    """Moves of the ranked leaves of one entry, itself or below it.

    n_moved of n_leaves change rank. fewest, most: places of the leaf that gains least and of the one that gains most,
    below 0 where it loses places; both 0 where none moves.
    """

    n_leaves: int
    n_moved: int
    fewest: int
    most: int

    @property
    def furthest(self) -> int:
        """Places of the leaf that moves furthest, below 0 where it loses them."""
        return self.most if self.most >= -self.fewest else self.fewest

    @property
    def is_uniform(self) -> bool:
        """Whether all leaves move by the same number of places."""
        return self.fewest == self.most


@dataclass(frozen=True, eq=False)
class RankEffect:
    """Ranks before and after a change. Counts leaves whose numbers the reader may see, new and removed ones included.

    tree: after the change. columns: n_leaves, n_moved, fewest and most of its entries, as in `RankMoves`.
    """

    tree: TreeColumns
    n_moved: int
    columns: tuple[I8, I8, I8, I8]

    def of_entry(self, uid: UUID) -> RankMoves | None:
        """The moves at an entry; None if it has no leaf that the reader may see ranked, before as well as after."""
        i = self.tree.index_of_uid(uid)
        if i is None or not self.columns[0][i]:
            return None
        return RankMoves(*(int(column[i]) for column in self.columns))


def rank_effect(
    view: PolicyView, after: TreeColumns, *, algorithm: Mapping[str, Any] | None = None
) -> RankEffect | None:
    """The effect of another tree, in place of the one that a policy's view shows, on ranks.

    algorithm: of the tree after; by default the policy's. None without a snapshot, or where the algorithm doesn't fit.
    """
    if view.snapshot is None:
        return None
    now = view.settings.algorithm
    return _effect(view.snapshot, view.numbers_in_snapshot, (view.tree, now), (after, algorithm or now))


def rank_effect_of_draft(view: DraftView) -> RankEffect | None:
    """The effect of a draft, in place of the revision that it starts from; None as in `rank_effect`."""
    if view.snapshot is None:
        return None
    before = (view.base, view.settings_before.algorithm)
    after = (view.outcome.tree, view.outcome.settings.algorithm)
    return _effect(view.snapshot, view.shows_numbers, before, after)


def _effect(
    snapshot: ServedSnapshot,
    visible: Mask,
    before: tuple[TreeColumns, Mapping[str, Any]],
    after: tuple[TreeColumns, Mapping[str, Any]],
) -> RankEffect | None:
    """visible: (n,), entries of the snapshot whose numbers the reader may see. Other usage enters in steps."""
    totals = totals_of_reader(snapshot.totals, visible)
    numbers: list[Numbers] = []
    for tree, algorithm in (before, after):
        if visible.all() and tree.digest == snapshot.tree.digest != "" and algorithm == snapshot.settings.algorithm:
            numbers.append(snapshot.values)
            continue
        try:
            numbers.append(simulate_totals(totals, tree, algorithm=algorithm))
        except (Invalid, BadParameter):
            return None
    compared = compare(ComputedTree(before[0], numbers[0]), ComputedTree(after[0], numbers[1]))
    return _summed(compared, after[0], _seen(compared, snapshot, visible, before[0], after[0]))


def _seen(
    compared: Comparison, snapshot: ServedSnapshot, visible: Mask, before: TreeColumns, after: TreeColumns
) -> Mask:
    """Rows of a comparison that the reader may see: by the snapshot, and what the change itself adds."""
    seen = np.zeros(len(compared.uid), dtype=np.bool_)
    n = len(after)
    here = matching_indexes(after, snapshot.tree)
    seen[:n] = np.where(here >= 0, visible[here], visible.all() | (compared.before.index[:n] < 0))
    there = matching_indexes(before, snapshot.tree)[compared.before.index[n:]]
    seen[n:] = np.where(there >= 0, visible[there], visible.all())
    return seen


def _summed(compared: Comparison, after: TreeColumns, seen: Mask) -> RankEffect:
    """Moves of leaves, and of all entries above them."""
    before_rank, after_rank = (side.leaf_rank.astype(np.int64) for side in (compared.before, compared.after))
    is_moved = seen & (before_rank != after_rank)
    n = len(after)
    leaves = (seen & (before_rank > 0) & (after_rank > 0))[:n]
    places = (before_rank - after_rank)[:n]
    n_leaves, n_moved = leaves.astype(np.int64), (leaves & is_moved[:n]).astype(np.int64)
    fewest, most = np.where(leaves, places, _NONE), np.where(leaves, places, -_NONE)
    for combine, numbers in ((np.add, n_leaves), (np.add, n_moved), (np.minimum, fewest), (np.maximum, most)):
        after.combine_up(combine, numbers)
    return RankEffect(after, int(is_moved.sum()), (n_leaves, n_moved, fewest, most))
