"""Compare two trees of a policy: entries and settings that differ, limited to what the viewer sees, and changed
targets.

Pure. A change can also change the targets of entries that it doesn't mention.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple
from uuid import UUID

import numpy as np
import numpy.typing as npt

from apps.engine.algorithms.inputs import prepare
from apps.policies.tree.columns import FIELDS, Mask, Node, TreeColumns, has_same_entries
from apps.policies.tree.difference import changed_entries, number_or_none
from apps.policies.tree.document_merge import indexes_of

F8 = npt.NDArray[np.float64]
I8 = npt.NDArray[np.int64]
_SAME = 1e-12
Change = Literal["moved", "changed", "added", "removed", "kept"]
# Fields that the paths show already.
_UNSAID = ("uid", "parent_uid")


@dataclass(frozen=True, eq=False)
class TargetChanges:
    """Two trees of one policy, compared entry by entry.

    Arrays follow the entries of `after`. Those named `gone_…` follow `gone`, which lists the entries of `before` that
    `after` lacks. place: index in `before`, −1 for added entries. Targets are fractions, 0..1, among siblings or of the
    whole tree; NaN for the root, for entries that inherit, and where the entry doesn't exist.
    """

    before: TreeColumns
    after: TreeColumns
    place: I8
    gone: I8

    @cached_property
    def old(self) -> F8:
        return self._of_before(self._before[0])

    @cached_property
    def new(self) -> F8:
        return self._after[0]

    @cached_property
    def old_global(self) -> F8:
        return self._of_before(self._before[1])

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
        """Mask of entries with another parent than before."""
        parent = np.where(self.after.parent >= 0, self.place[self.after.parent], -1)
        before = np.where(self.place >= 0, self.before.parent[self.place], -1)
        moved: Mask = (self.place >= 0) & (parent != before)
        moved[0] = False
        return moved

    @cached_property
    def changed(self) -> Mask:
        """Mask of entries of `after` whose target among siblings changed, appeared or disappeared."""
        both = ~np.isnan(self.old) & ~np.isnan(self.new)
        differs = np.abs(np.nan_to_num(self.new) - np.nan_to_num(self.old)) > _SAME
        return np.asarray(np.where(both, differs, np.isnan(self.old) != np.isnan(self.new)), dtype=np.bool_)

    @cached_property
    def distance(self) -> F8:
        """Largest change of each entry's target, as a fraction, among its siblings or of the whole tree.

        Entries with a new parent are compared by their target of the whole alone, because they have other siblings. An
        added entry counts its target if its group had children before.
        """
        among = np.where(self.came, 0.0, np.nan_to_num(np.abs(self.new - self.old)))
        of_all = np.nan_to_num(np.abs(self.new_global - self.old_global))
        group = np.where(self.after.parent >= 0, self.place[self.after.parent], -1)
        joins = self.is_new & (group >= 0) & (self.before.n_children[np.maximum(group, 0)] > 0)
        return np.where(joins, np.nan_to_num(self.new), np.maximum(among, of_all))

    @cached_property
    def gone_distance(self) -> F8:
        """Change of each removed entry: its target, if its group still has children; otherwise 0."""
        there = indexes_of(self.before.uid[np.maximum(self.before.parent[self.gone], 0)], self.after)
        stays = (there >= 0) & (self.after.n_children[np.maximum(there, 0)] > 0)
        return np.where(stays, np.nan_to_num(self.gone_old), 0.0)

    @property
    def furthest(self) -> float:
        """Largest change of any entry, in percentage points, 0..100."""
        return 100.0 * max(float(self.distance.max(initial=0.0)), float(self.gone_distance.max(initial=0.0)))

    def furthest_seen(self, sees: Mask) -> float:
        """Largest change of an entry that a reader sees, in percentage points, 0..100.

        sees: mask of the entries of `before`; an added entry is as visible as the group that it is added to.
        """
        shown = (self.place >= 0) & sees[self.place]
        for i in np.flatnonzero(self.is_new & (self.after.parent >= 0)).tolist():  # parents come before children
            shown[i] = shown[self.after.parent[i]]
        gone = self.gone_distance[sees[self.gone]]
        return 100.0 * max(float(self.distance[shown].max(initial=0.0)), float(gone.max(initial=0.0)))

    def count_beyond(self, points: float) -> int:
        """Number of entries that change by more than these percentage points."""
        least = points / 100.0 + _SAME
        return int((self.distance > least).sum()) + int((self.gone_distance > least).sum())

    def _of_before(self, values: F8) -> F8:
        """Values of the entries of `before`, at those of `after`."""
        is_whole = self.place is self.after.places
        return values if is_whole else np.where(self.place >= 0, values[self.place], np.nan)

    @cached_property
    def _before(self) -> tuple[F8, F8]:
        return _targets(self.before)

    @cached_property
    def _after(self) -> tuple[F8, F8]:
        return _targets(self.after)


def compare_targets(before: TreeColumns, after: TreeColumns) -> TargetChanges:
    """Compare the targets of two trees; entries are matched by uid."""
    if has_same_entries(before, after):
        return TargetChanges(before, after, after.places, np.zeros(0, dtype=np.int64))
    place = indexes_of(after.uid, before)
    stays = np.zeros(len(before), dtype=np.bool_)
    stays[place[place >= 0]] = True
    return TargetChanges(before, after, place, np.flatnonzero(~stays))


def _targets(tree: TreeColumns) -> tuple[F8, F8]:
    """Return targets among siblings and of the whole tree."""
    prepared = prepare(tree.engine_tree())
    has_none = tree.inherit.copy()
    has_none[0] = True
    among, of_all = prepared.spread(prepared.target), prepared.spread(prepared.target_global)
    return np.where(has_none, np.nan, among), np.where(has_none, np.nan, of_all)


class FieldChange(NamedTuple):
    """One field that differs, by its name; values as JSON, None where not set."""

    field: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class EntryDifference:
    """One entry that differs. Targets are fractions, 0..1, among siblings and of the whole tree; None if there is none.

    n_below: number of descendants that were added or removed with it. `kept` entries are unchanged but have another
    target.
    """

    uid: UUID
    change: Change
    name: str
    kind: str
    path: str
    path_before: str
    fields: tuple[FieldChange, ...]
    n_below: int
    target_before: float | None
    target_after: float | None
    target_global_before: float | None
    target_global_after: float | None


@dataclass(frozen=True, eq=False)
class TreeDiff:
    """Difference of two trees, limited to the entries that the given masks show.

    An entry is shown if it is visible in every tree that contains it; `n_outside` counts the other entries that differ.
    """

    moves: TargetChanges
    sees_before: Mask
    sees_after: Mask

    @property
    def before(self) -> TreeColumns:
        return self.moves.before

    @property
    def after(self) -> TreeColumns:
        return self.moves.after

    @cached_property
    def counts(self) -> dict[Change, int]:
        """Number of shown entries by change; descendants of added and removed entries count, too."""
        return {
            "moved": len(self._moved),
            "changed": len(self._changed),
            "added": int(self._is_added.sum()),
            "removed": int(self._is_removed.sum()),
            "kept": len(self._kept),
        }

    @cached_property
    def n_outside(self) -> int:
        hidden = int((self._differs & ~self._seen).sum())
        return hidden + int((self._is_gone & ~self.sees_before).sum())

    @cached_property
    def n_kept_outside(self) -> int:
        """Number of hidden entries that are unchanged but have another target."""
        return int((self.moves.changed & ~self._differs & ~self._seen).sum())

    @cached_property
    def n_entries(self) -> int:
        return sum(len(rows) for _, rows in self._stated)

    def rows(self, start: int = 0, stop: int | None = None) -> Iterator[EntryDifference]:
        """Yield moved, changed, added and removed entries; a subtree added or removed as a whole is one row."""
        for change, indexes in self._stated:
            last = len(indexes) if stop is None else min(stop, len(indexes))
            for at in range(max(start, 0), last):
                yield self._row(change, int(indexes[at]))
            start -= len(indexes)
            stop = None if stop is None else stop - len(indexes)
            if stop is not None and stop <= 0:
                return

    def kept(self, most: int) -> list[EntryDifference]:
        """Return unchanged entries whose target changed, those with the largest change first."""
        distance = np.abs(np.nan_to_num(self.moves.new[self._kept]) - np.nan_to_num(self.moves.old[self._kept]))
        order = np.argsort(-distance, kind="stable")[:most]
        return [self._row("kept", int(i)) for i in self._kept[order].tolist()]

    @cached_property
    def _both(self) -> tuple[Mask, Mask]:
        return changed_entries(self.before, self.after)

    @property
    def _differs(self) -> Mask:
        return self._both[0]

    @property
    def _is_gone(self) -> Mask:
        return self._both[1]

    @cached_property
    def _seen(self) -> Mask:
        place = self.moves.place
        return self.sees_after & ((place < 0) | self.sees_before[np.maximum(place, 0)])

    @cached_property
    def _came(self) -> Mask:
        """Mask of entries with another parent than before; the root is never one of them."""
        place = self.moves.place
        parent, was = np.maximum(self.after.parent, 0), np.maximum(self.before.parent[np.maximum(place, 0)], 0)
        came: Mask = (place >= 0) & (self.after.uid[parent] != self.before.uid[was]).any(axis=1)
        came[0] = False
        return came

    @cached_property
    def _moved(self) -> I8:
        return np.flatnonzero(self._differs & self._seen & self._came)

    @cached_property
    def _changed(self) -> I8:
        return np.flatnonzero(self._differs & self._seen & ~self._came & (self.moves.place >= 0))

    @cached_property
    def _is_added(self) -> Mask:
        return self._differs & self._seen & (self.moves.place < 0)

    @cached_property
    def _is_removed(self) -> Mask:
        return self._is_gone & self.sees_before

    @cached_property
    def _kept(self) -> I8:
        return np.flatnonzero(self.moves.changed & ~self._differs & self._seen)

    @cached_property
    def _stated(self) -> Sequence[tuple[Change, I8]]:
        return (
            ("moved", self._moved),
            ("changed", self._changed),
            ("added", _tops(self.after, self._is_added)),
            ("removed", _tops(self.before, self._is_removed)),
        )

    def _row(self, change: Change, i: int) -> EntryDifference:
        if change == "removed":
            return self._removed_row(i)
        moves, j = self.moves, int(self.moves.place[i])
        node, was = self.after.node(i), self.before.node(j) if j >= 0 else None
        return EntryDifference(
            uid=node.uid,
            change=change,
            name=node.name,
            kind=node.kind,
            path=self.after.path(i),
            path_before="" if was is None else self.before.path(j),
            fields=tuple(_fields(was, node)),
            n_below=_below(self.after, self._is_added, i) if change == "added" else 0,
            target_before=number_or_none(moves.old[i]),
            target_after=number_or_none(moves.new[i]),
            target_global_before=number_or_none(moves.old_global[i]),
            target_global_after=number_or_none(moves.new_global[i]),
        )

    def _removed_row(self, j: int) -> EntryDifference:
        node, at = self.before.node(j), int(np.searchsorted(self.moves.gone, j))
        return EntryDifference(
            uid=node.uid,
            change="removed",
            name=node.name,
            kind=node.kind,
            path="",
            path_before=self.before.path(j),
            fields=tuple(_fields(node, None)),
            n_below=_below(self.before, self._is_removed, j),
            target_before=number_or_none(self.moves.gone_old[at]),
            target_after=None,
            target_global_before=number_or_none(self.moves.gone_old_global[at]),
            target_global_after=None,
        )


def diff_trees(before: TreeColumns, after: TreeColumns, *, sees_before: Mask, sees_after: Mask) -> TreeDiff:
    """Compare two trees of one policy; entries are matched by uid."""
    return TreeDiff(compare_targets(before, after), sees_before, sees_after)


def diff_settings(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldChange]:
    """List settings that differ, by dotted name such as `window.half_life_s`."""
    old, new = dict(_flat(before)), dict(_flat(after))
    return [
        FieldChange(name, old.get(name), new.get(name)) for name in {**old, **new} if old.get(name) != new.get(name)
    ]


def _flat(value: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, inside in value.items():
        if isinstance(inside, Mapping):
            yield from _flat(inside, f"{above}{key}.")
        else:
            yield f"{above}{key}", inside


def _tops(tree: TreeColumns, mask: Mask) -> I8:
    """Indices of entries in the mask whose parent is not in it."""
    return np.flatnonzero(mask & ~mask[np.maximum(tree.parent, 0)])


def _below(tree: TreeColumns, mask: Mask, i: int) -> int:
    """Number of descendants connected to the entry through entries in the mask."""
    together = np.zeros(len(tree), dtype=np.bool_)
    together[i] = True
    for level in tree.subtree(i)[1:]:
        here = slice(level.start, level.stop)
        together[here] = mask[here] & together[tree.parent[here]]
    return int(together.sum()) - 1


def _fields(before: Node | None, after: Node | None) -> Iterator[FieldChange]:
    for name in FIELDS:
        if name in _UNSAID:
            continue
        was, is_now = (None if node is None else node.field_json(name) for node in (before, after))
        if before is None or after is None:
            if name in ("kind", "shares"):
                yield FieldChange(name, was, is_now)
        elif was != is_now:
            yield FieldChange(name, was, is_now)
