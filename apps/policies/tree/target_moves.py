"""Whose target a change of the tree moves, and how far: every entry, also those that the change doesn't name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from apps.engine.algorithms.inputs import prepare
from apps.policies.tree.columns import Mask, TreeColumns
from apps.policies.tree.document_merge import indexes_of

F8 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int64]
_SAME = 1e-12


@dataclass(frozen=True, eq=False)
class TargetMoves:
    """Two trees of one policy, entry by entry; arrays follow the entries of `after`, those named `gone_…` run along
    `gone`, the entries of `before` that `after` hasn't.

    place: in `before`, −1 for what is new. Targets among siblings and of the whole, 0..1; NaN for the root, for what
    passes its shares on, and where there is no such entry.
    """

    before: TreeColumns
    after: TreeColumns
    place: I8
    gone: I8

    @cached_property
    def old(self) -> F8:
        return _at(self._before[0], self.place)

    @cached_property
    def new(self) -> F8:
        return self._after[0]

    @cached_property
    def old_global(self) -> F8:
        return _at(self._before[1], self.place)

    @cached_property
    def new_global(self) -> F8:
        return self._after[1]

    @cached_property
    def gone_old(self) -> F8:
        return self._before[0][self.gone]

    @cached_property
    def gone_old_global(self) -> F8:
        return self._before[1][self.gone]

    @cached_property
    def is_new(self) -> Mask:
        return self.place < 0

    @cached_property
    def came(self) -> Mask:
        """Below another entry than before."""
        parent = np.where(self.after.parent >= 0, self.place[self.after.parent], -1)
        before = np.where(self.place >= 0, self.before.parent[self.place], -1)
        moved: Mask = (self.place >= 0) & (parent != before)
        moved[0] = False
        return moved

    @cached_property
    def changed(self) -> Mask:
        """Entries of `after` with another target among siblings, or with none where there was one, and back."""
        both = ~np.isnan(self.old) & ~np.isnan(self.new)
        differs = np.abs(np.nan_to_num(self.new) - np.nan_to_num(self.old)) > _SAME
        return np.asarray(np.where(both, differs, np.isnan(self.old) != np.isnan(self.new)), dtype=np.bool_)

    @cached_property
    def distance(self) -> F8:
        """How far each entry moves, as a fraction: among its siblings or of the whole, whichever is more.

        An entry moved from another parent has other siblings, and counts by the whole. A new one counts where the
        group was not empty before.
        """
        among = np.where(self.came, 0.0, np.nan_to_num(np.abs(self.new - self.old)))
        of_all = np.nan_to_num(np.abs(self.new_global - self.old_global))
        group = np.where(self.after.parent >= 0, self.place[self.after.parent], -1)
        joins = self.is_new & (group >= 0) & (self.before.n_children[np.maximum(group, 0)] > 0)
        return np.where(joins, np.nan_to_num(self.new), np.maximum(among, of_all))

    @cached_property
    def gone_distance(self) -> F8:
        """The distance for entries that leave: their target, where a sibling stays."""
        there = indexes_of(self.before.uid[np.maximum(self.before.parent[self.gone], 0)], self.after)
        stays = (there >= 0) & (self.after.n_children[np.maximum(there, 0)] > 0)
        return np.where(stays, np.nan_to_num(self.gone_old), 0.0)

    @property
    def furthest(self) -> float:
        """In points, 0..100."""
        return 100.0 * max(float(self.distance.max(initial=0.0)), float(self.gone_distance.max(initial=0.0)))

    def count_beyond(self, points: float) -> int:
        """How many move more than that."""
        least = points / 100.0 + _SAME
        return int((self.distance > least).sum()) + int((self.gone_distance > least).sum())

    @cached_property
    def _before(self) -> tuple[F8, F8]:
        return _targets(self.before)

    @cached_property
    def _after(self) -> tuple[F8, F8]:
        return _targets(self.after)


def target_moves(before: TreeColumns, after: TreeColumns) -> TargetMoves:
    """Lay two trees over each other by uid."""
    if len(before) == len(after) and np.array_equal(before.uid, after.uid):
        return TargetMoves(before, after, np.arange(len(after)), np.zeros(0, dtype=np.int64))
    place = indexes_of(after.uid, before)
    stays = np.zeros(len(before), dtype=np.bool_)
    stays[place[place >= 0]] = True
    return TargetMoves(before, after, place, np.flatnonzero(~stays))


def _targets(tree: TreeColumns) -> tuple[F8, F8]:
    """Among siblings and of the whole."""
    prepared = prepare(tree.engine_tree())
    has_none = tree.inherit.copy()
    has_none[0] = True
    among, of_all = prepared.spread(prepared.target), prepared.spread(prepared.target_global)
    return np.where(has_none, np.nan, among), np.where(has_none, np.nan, of_all)


def _at(values: F8, place: I8) -> F8:
    return np.where(place >= 0, values[place], np.nan)
