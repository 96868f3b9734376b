"""Rows of a block of entries by column: each is made when it is read, because most files need a few of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import starmap
from typing import Any
from uuid import UUID

import numpy as np
import numpy.typing as npt

from apps.engine.target_state import State
from apps.policies.tree.columns import SCOPES, TreeColumns
from apps.priorities.records import EntryRow
from apps.priorities.selectors.rows import PolicyView
from apps.priorities.snapshot_values import Values

I8 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
_BLOCK = 2_000  # rows
_FIELDS = tuple(field.name for field in fields(EntryRow))


@dataclass(frozen=True, eq=False)
class RowColumns:
    """A list for each field of `EntryRow`, as `PolicyView.row` has it of one entry alone.

    places, sizes, opened: (n,), the positions of rows among their siblings, and whether they are open.
    """

    view: PolicyView
    entries: I8
    places: npt.NDArray[Any]
    sizes: npt.NDArray[Any]
    opened: Mask

    def rows(self) -> Iterator[EntryRow]:
        return starmap(EntryRow, zip(*(getattr(self, name) for name in _FIELDS), strict=True))

    def column(self, name: str) -> list[Any] | None:
        """The values of a field; None if rows have no such field."""
        values: list[Any] | None = getattr(self, name) if name in _FIELDS else None
        return values

    def own_column(self, name: str) -> list[float | None]:
        """The algorithm's own number of this name; None where one doesn't exist."""
        numbers = None if self._values is None else self._values.columns.get(name)
        if numbers is None:
            return [None] * len(self.entries)
        is_there = self._is_seen if numbers.exists is None else self._is_seen & numbers.exists[self._at]
        return _with_nothing(numbers.values[self._at].astype(np.float64), ~is_there)

    @property
    def uid(self) -> list[UUID]:
        return [*map(self._tree.uuid, self.entries.tolist())]

    @property
    def parent_uid(self) -> list[UUID | None]:
        parents = self._parents.tolist()
        uids = {parent: self._tree.uuid(parent) if parent >= 0 else None for parent in dict.fromkeys(parents)}
        return [*map(uids.__getitem__, parents)]

    @property
    def path(self) -> list[str]:
        return self._tree.paths(self.entries)

    @property
    def name(self) -> list[str]:
        return self._tree.names_of(self.entries)

    @property
    def kind(self) -> list[str]:
        return [*map(self._tree.kind_names.__getitem__, self._tree.kind_code[self.entries].tolist())]

    @property
    def level(self) -> list[int]:
        return _listed(self._tree.level[self.entries] + 1)

    @property
    def pos_in_set(self) -> list[int]:
        return _listed(self.places)

    @property
    def set_size(self) -> list[int]:
        return _listed(self.sizes)

    @property
    def n_children(self) -> list[int]:
        return _listed(self._n_visible)

    @property
    def hidden_children(self) -> list[int]:
        return _listed(self._tree.n_children[self.entries] - self._n_visible)

    @property
    def is_open(self) -> list[bool]:
        return _listed(self.opened)

    @property
    def shares(self) -> list[float | None]:
        return _with_nothing(self._tree.shares[self.entries], self._tree.inherit[self.entries])

    @property
    def target(self) -> list[float | None]:
        return _with_nothing(self._target, ~self._has_target)

    @property
    def target_global(self) -> list[float | None]:
        return _with_nothing(np.where(self._is_root, 1.0, self.view.target[1][self.entries]), ~self._has_target)

    @property
    def actual(self) -> list[float | None]:
        values = self._values
        return self._nothing if values is None else _with_nothing(self._actual(values), ~self._has_numbers)

    @property
    def actual_global(self) -> list[float | None]:
        snapshot = self.view.snapshot
        if snapshot is None:
            return self._nothing
        actual = np.where(self._is_root, 1.0, snapshot.actual_global[self._at])
        return _with_nothing(actual, ~self._has_numbers)

    @property
    def deviation_points(self) -> list[float | None]:
        values = self._values
        if values is None:
            return self._nothing
        points = np.where(self._is_root, 0.0, (self._actual(values) - self._target) * 100)
        return _with_nothing(points, ~self._has_numbers)

    @property
    def state(self) -> list[State]:
        states = self.view.states_of(self.entries)
        for row in np.flatnonzero(self._is_root & self._is_seen).tolist():
            states[row] = "on"
        return states

    @property
    def priority(self) -> list[float | None]:
        values = self._values
        if values is None:
            return self._nothing
        return _with_nothing(values.priority[self._at], ~self._has_numbers | self._is_root)

    @property
    def rank(self) -> list[int | None]:
        values = self._values
        if values is None:
            return [None] * len(self.entries)
        return _with_nothing(values.rank[self._at], ~(self._is_seen & values.has_rank[self._at]) | self._is_root)

    @property
    def factor(self) -> list[float | None]:
        values = self._values
        if values is None:
            return self._nothing
        return _with_nothing(values.factor[self._at], ~(self._is_seen & values.has_factor[self._at]) | self._is_root)

    @property
    def usage(self) -> list[float | None]:
        return _with_nothing(self._usage, self._is_suppressed)

    @property
    def has_usage(self) -> list[bool]:
        return _listed(self._usage > 0)

    @property
    def locked(self) -> list[bool]:
        return _listed(self._tree.locked[self.entries])

    @property
    def may_change(self) -> list[bool]:
        visibility, parents = self.view.visibility, self._parents
        return _listed((parents >= 0) & visibility.divided[parents] & visibility.unlocked[self.entries])

    @property
    def columns(self) -> list[dict[str, float | None]]:
        names = () if self._values is None else tuple(self._values.columns)
        numbers = zip(*map(self.own_column, names), strict=True) if names else [()] * len(self.entries)
        seen = zip(numbers, self._is_seen.tolist(), strict=True)
        return [dict(zip(names, row, strict=True)) if is_seen else {} for row, is_seen in seen]

    @property
    def adjusted(self) -> list[float]:
        snapshot = self.view.snapshot
        corrections = {} if snapshot is None else snapshot.corrections
        counted = {place: sum(each["counted"] for each in some) for place, some in corrections.items()}
        seen = zip(self._at.tolist(), self._is_seen.tolist(), strict=True)
        return [counted.get(place, 0) if is_seen else 0.0 for place, is_seen in seen]

    @property
    def suppressed(self) -> list[bool]:
        return _listed(self._is_suppressed)

    @property
    def scope(self) -> list[str]:
        return [*map(SCOPES.__getitem__, self._tree.scope_code[self.entries].tolist())]

    @property
    def scope_sources(self) -> list[tuple[str, ...]]:
        sources = self._tree.scope_sources
        return [sources.get(entry, ()) for entry in self.entries.tolist()] if sources else [()] * len(self.entries)

    @property
    def _tree(self) -> TreeColumns:
        return self.view.tree

    @property
    def _values(self) -> Values | None:
        return None if self.view.snapshot is None else self.view.snapshot.values

    @property
    def _nothing(self) -> list[float | None]:
        return [None] * len(self.entries)

    @cached_property
    def _parents(self) -> npt.NDArray[np.int32]:
        return self._tree.parent[self.entries]

    @cached_property
    def _n_visible(self) -> I8:
        """Number of children that the actor may see."""
        n_visible = np.zeros(len(self.entries), np.int64)
        mask = self.view.visibility.mask
        for row in np.flatnonzero(self._tree.n_children[self.entries]).tolist():
            children = self._tree.children(int(self.entries[row]))
            n_visible[row] = mask[children.start : children.stop].sum()
        return n_visible

    @cached_property
    def _at(self) -> I8:
        """The place of each entry in the snapshot; −1: missing there, or hidden."""
        if self.view.snapshot is None:
            return np.full(len(self.entries), -1)
        return self.view.snapshot_index[self.entries]

    @cached_property
    def _is_seen(self) -> Mask:
        return self._at >= 0

    @cached_property
    def _is_root(self) -> Mask:
        is_root: Mask = self.entries == 0
        return is_root

    @cached_property
    def _has_target(self) -> Mask:
        return self._is_root | self.view.competes[self.entries]

    @cached_property
    def _has_numbers(self) -> Mask:
        competes = self.view.competes[self.entries]
        if self._values is not None:
            competes &= self._values.competes[self._at]
        has_numbers: Mask = self._is_seen & (self._is_root | competes)
        return has_numbers

    @cached_property
    def _is_suppressed(self) -> Mask:
        return ~self._is_seen & self.view.suppressed[self.entries]

    @cached_property
    def _target(self) -> npt.NDArray[np.float64]:
        return np.where(self._is_root, 1.0, self.view.target[0][self.entries])

    def _actual(self, values: Values) -> npt.NDArray[np.float64]:
        return np.where(self._is_root, 1.0, values.actual[self._at])

    @cached_property
    def _usage(self) -> npt.NDArray[np.float64]:
        if self._values is None:
            return np.zeros(len(self.entries))
        return np.where(self._is_seen, self._values.usage[self._at], 0.0)


def each_row(
    view: PolicyView, entries: I8, *, place: npt.NDArray[Any], size: npt.NDArray[Any], is_open: Mask
) -> Iterator[EntryRow]:
    """`PolicyView.row` of each entry, made by columns. place, size, is_open: (n,), the positions of rows."""
    for block in row_blocks(view, entries, place=place, size=size, is_open=is_open):
        yield from block.rows()


def row_blocks(
    view: PolicyView, entries: I8, *, place: npt.NDArray[Any], size: npt.NDArray[Any], is_open: Mask
) -> Iterator[RowColumns]:
    """`each_row` by column, a block at a time."""
    for begin in range(0, len(entries), _BLOCK):
        part = slice(begin, begin + _BLOCK)
        yield RowColumns(view, entries[part], place[part], size[part], is_open[part])


def _listed(values: npt.NDArray[Any]) -> list[Any]:
    column: list[Any] = values.tolist()
    return column


def _with_nothing(numbers: npt.NDArray[Any], is_missing: Mask) -> list[Any]:
    """The numbers, with None in place of some."""
    column = _listed(numbers)
    for row in np.flatnonzero(is_missing).tolist():
        column[row] = None
    return column
