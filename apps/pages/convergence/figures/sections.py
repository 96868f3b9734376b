"""Sections of small pictures: who is off target, large and small, and all others. A section has one scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from apps.pages.convergence.figures.course import Axis, GroupNumbers
from apps.pages.convergence.figures.picture import Scale, scale_of
from apps.priorities.level_facts import OFF_STATES
from apps.series.convergence.records import Convergence

SMALL = 0.05  # share of the parent; smaller entries have a section of their own
PAGE = 24  # pictures of a section at a time
Key = Literal["off", "small", "rest"]


@dataclass(frozen=True, eq=False)
class Section:
    """rows: of all its entries, in order. page: counts from 1; shown: rows of that page.

    is_split: whether entries off target are in two sections, by size.
    """

    key: Key
    rows: Sequence[int]
    numbers: GroupNumbers
    axis: Axis
    is_split: bool

    @cached_property
    def scale(self) -> Scale:
        return scale_of(self.numbers, self.rows, self.axis, is_tile=True)

    def shown(self, page: int) -> Sequence[int]:
        return self.rows[(page - 1) * PAGE : page * PAGE]

    def has_more(self, page: int) -> bool:
        return len(self.rows) > page * PAGE


def sections_of(numbers: GroupNumbers, axis: Axis) -> list[Section]:
    """Sections that have entries: off target, farthest first; then the others, the largest target first."""
    convergence = numbers.convergence
    off = off_target(convergence)
    others = sorted(
        set(range(len(convergence.members))) - set(off),
        key=lambda row: (-_target(convergence, row), convergence.members[row].name),
    )
    small = [row for row in off if _size(convergence, row) < SMALL]
    large = [row for row in off if row not in set(small)]
    is_split = bool(small and large)
    groups: list[tuple[Key, list[int]]] = (
        [("off", large), ("small", small), ("rest", others)] if is_split else [("off", off), ("rest", others)]
    )
    return [Section(key, rows, numbers, axis, is_split) for key, rows in groups if rows]


def off_target(convergence: Convergence) -> list[int]:
    """Rows of the entries off target at the last point, farthest first."""
    if not convergence.on:
        return []
    away = np.abs(convergence.deviation[:, -1])
    rows = [row for row, state in enumerate(convergence.states[:, -1].tolist()) if state in OFF_STATES]
    return sorted(rows, key=lambda row: (-float(away[row]), convergence.members[row].name))


def _target(convergence: Convergence, row: int) -> float:
    return float(np.nan_to_num(convergence.target[row, -1])) if convergence.on else 0.0


def _size(convergence: Convergence, row: int) -> float:
    return max(_target(convergence, row), float(np.nan_to_num(convergence.actual[row, -1])))
