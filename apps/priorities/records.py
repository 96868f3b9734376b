"""Records that selectors return, for pages and figures."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from apps.engine.target_state import State
from apps.policies.settings import PolicySettings
from apps.priorities.moments import LocalOnly, Moment


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
    usage: float | None  # None where it is hidden
    has_usage: bool
    locked: bool
    may_change: bool
    columns: dict[str, float | None] = field(default_factory=dict)  # the algorithm's own, by its scheduler's names
    adjusted: float = 0.0  # amount of adjustments at the entry in its usage; below 0 for refunds
    suppressed: bool = False  # it has numbers, hidden from this reader
    scope: str = ""  # scope set at the entry itself, "" if inherited
    scope_sources: tuple[str, ...] = ()  # restricts the scope to these sources

    @property
    def depth(self) -> int:
        """0 is the root."""
        return self.level - 1

    @property
    def inherits(self) -> bool:
        return self.shares is None

    @property
    def leaf_rank(self) -> int | None:
        """None for an entry with children: people compare ranks of users."""
        return None if self.n_children else self.rank

    @property
    def leaf_factor(self) -> float | None:
        """None for an entry with children, as its rank."""
        return None if self.n_children else self.factor


@dataclass(frozen=True)
class Sector:
    """A sector of the icicle: one entry, or (row None) several small children. size: fraction of the top sector."""

    row: EntryRow | None
    size: float
    n_together: int = 0
    children: list[Sector] = field(default_factory=list)


@dataclass(frozen=True)
class IciclePage:
    """An icicle chart. top: the widest sector; way: its ancestors. chosen: the requested entry, `top` or its child.

    n_entries: visible entries at and below `top`; n_shown: the number of them that have a sector.
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
    local_only: list[LocalOnly] = field(default_factory=list)  # fallbacks that affect the entries shown
