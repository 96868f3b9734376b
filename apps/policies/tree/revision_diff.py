"""The difference of two trees of a policy, entry by entry, as far as the viewer sees both. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal
from uuid import UUID

import numpy as np
import numpy.typing as npt

from apps.policies.tree.columns import FIELDS, Mask, Node, TreeColumns
from apps.policies.tree.difference import changed_entries
from apps.policies.tree.target_moves import TargetMoves, target_moves

Change = Literal["moved", "changed", "added", "removed", "kept"]
I8 = npt.NDArray[np.int64]
_UNSAID = ("uid", "parent_uid")  # the paths show it


@dataclass(frozen=True, slots=True)
class EntryDifference:
    """One entry in both trees. Targets among siblings, and of the whole, 0..1; None where there is none.

    n_below: entries that came, or went, together with it. `kept` entries say the same and have another target.
    """

    uid: UUID
    change: Change
    name: str
    kind: str
    path: str
    path_before: str
    fields: tuple[tuple[str, Any, Any], ...]
    n_below: int
    target_before: float | None
    target_after: float | None
    target_global_before: float | None
    target_global_after: float | None


@dataclass(frozen=True, eq=False)
class TreeDiff:
    """Two trees side by side; what is seen of each is decided elsewhere.

    An entry counts when it is seen in each of the trees that it is in: `n_outside` says how many others differ.
    """

    moves: TargetMoves
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
        """Of everything seen, each entry below another one included."""
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
        """Entries that say the same, have another target, and aren't seen."""
        return int((self.moves.changed & ~self._differs & ~self._seen).sum())

    @cached_property
    def n_rows(self) -> int:
        return sum(len(rows) for _, rows in self._stated)

    def rows(self, start: int = 0, stop: int | None = None) -> Iterator[EntryDifference]:
        """What is said otherwise: moved, changed, added and removed entries; what goes or comes whole is one row."""
        for change, indexes in self._stated:
            last = len(indexes) if stop is None else min(stop, len(indexes))
            for at in range(max(start, 0), last):
                yield self._row(change, int(indexes[at]))
            start -= len(indexes)
            stop = None if stop is None else stop - len(indexes)
            if stop is not None and stop <= 0:
                return

    def kept(self, most: int) -> list[EntryDifference]:
        """Unnamed entries whose target moves, the furthest first."""
        distance = np.abs(np.nan_to_num(self.moves.new[self._kept]) - np.nan_to_num(self.moves.old[self._kept]))
        order = np.argsort(-distance, kind="stable")[:most]
        return [self._row("kept", int(i)) for i in self._kept[order].tolist()]

    # --- Which entries ------------------------------------------------------------------------------------------------
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
        """Below another entry; the root can't."""
        place = self.moves.place
        parent, was = np.maximum(self.after.parent, 0), np.maximum(self.before.parent[np.maximum(place, 0)], 0)
        found: Mask = (place >= 0) & (self.after.uid[parent] != self.before.uid[was]).any(axis=1)
        found[0] = False
        return found

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

    # --- One of them --------------------------------------------------------------------------------------------------
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
            target_before=_number(moves.old[i]),
            target_after=_number(moves.new[i]),
            target_global_before=_number(moves.old_global[i]),
            target_global_after=_number(moves.new_global[i]),
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
            target_before=_number(self.moves.gone_old[at]),
            target_after=None,
            target_global_before=_number(self.moves.gone_old_global[at]),
            target_global_after=None,
        )


def diff_trees(before: TreeColumns, after: TreeColumns, *, sees_before: Mask, sees_after: Mask) -> TreeDiff:
    """Lay two trees of one policy over each other; entries are the same by uid."""
    return TreeDiff(target_moves(before, after), sees_before, sees_after)


def diff_settings(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Settings that differ, each by its whole name (`window.half_life_s`); None where it isn't set."""
    old, new = dict(_flat(before)), dict(_flat(after))
    return [(name, old.get(name), new.get(name)) for name in {**old, **new} if old.get(name) != new.get(name)]


def _flat(value: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, inside in value.items():
        if isinstance(inside, Mapping):
            yield from _flat(inside, f"{above}{key}.")
        else:
            yield f"{above}{key}", inside


def _tops(tree: TreeColumns, mask: Mask) -> I8:
    """Entries of the mask whose parent isn't one of them."""
    return np.flatnonzero(mask & ~mask[np.maximum(tree.parent, 0)])


def _below(tree: TreeColumns, mask: Mask, i: int) -> int:
    """Entries of the mask that hang together with it; what was moved below it is none, nor what hangs on that."""
    together = np.zeros(len(tree), dtype=np.bool_)
    together[i] = True
    for level in tree.subtree(i)[1:]:
        here = slice(level.start, level.stop)
        together[here] = mask[here] & together[tree.parent[here]]
    return int(together.sum()) - 1


def _fields(before: Node | None, after: Node | None) -> Iterator[tuple[str, Any, Any]]:
    for name in FIELDS:
        if name in _UNSAID:
            continue
        was, is_now = (None if node is None else node.said(name) for node in (before, after))
        if before is None or after is None:
            if name in ("kind", "shares"):
                yield name, was, is_now
        elif was != is_now:
            yield name, was, is_now


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
