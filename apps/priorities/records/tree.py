"""A tree in one picture, as one actor may see it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from apps.policies.settings import PolicySettings
from apps.priorities.records.moment import LocalOnly, Moment
from apps.priorities.snapshots.ordering import State


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


@dataclass(frozen=True)
class Sector:
    """One entry, or (`row` None) some children of one that are drawn together; `size` is a part of the whole shown."""

    row: EntryRow | None
    size: float
    n_together: int = 0
    children: list[Sector] = field(default_factory=list)


@dataclass(frozen=True)
class IciclePage:
    """`top` fills the picture; `way` leads from the root to it. chosen: the entry asked for, `top` or a child of it.

    n_entries: `top` and what is below it, as far as the actor may see it; n_shown: how many of them are drawn.
    """

    policy_slug: str
    policy_name: str
    revision: int
    as_of: datetime | None
    settings: PolicySettings
    top: Sector
    way: list[EntryRow]
    chosen: EntryRow
    sizes: str
    n_entries: int
    n_shown: int
    moment: Moment | None = None
    local_only: list[LocalOnly] = field(default_factory=list)  # by whose usage what is drawn is compared
