"""One entry of a tree with its numbers, as one actor may see them."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from apps.priorities.snapshots.states import State


@dataclass(frozen=True, slots=True)
class EntryRow:
    """One entry as pages and REST show it. Fractions 0..1; None where something doesn't exist."""

    uid: UUID
    parent_uid: UUID | None
    path: str
    name: str
    kind: str
    level: int  # 1 is the root
    pos_in_set: int
    set_size: int
    n_children: int  # that the actor may see
    hidden_children: int
    is_open: bool
    shares: float | None  # None: inherit
    target: float | None
    target_global: float | None
    actual: float | None
    actual_global: float | None
    deviation_points: float | None  # (actual − target) · 100
    state: State
    priority: float | None
    rank: int | None
    factor: float | None
    usage_core_s: float | None  # None where it is hidden
    has_usage: bool
    locked: bool
    may_change: bool
    columns: dict[str, float | None] = field(default_factory=dict)  # the algorithm's own, by its scheduler's names
    adjusted: float = 0.0  # what adjustments at it come to in its usage; below 0: given back
    suppressed: bool = False  # it has numbers, hidden from this reader
    scope: str = ""  # by whose usage its children are compared, where it says so itself
    scope_sources: tuple[str, ...] = ()  # by these sources alone
