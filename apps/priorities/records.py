"""Records that selectors return, for pages and figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from apps.policies.allocations.records import Period
from apps.policies.selectors import read_instant
from apps.policies.settings import PolicySettings
from apps.priorities.sentences import Message, build_message
from apps.priorities.snapshots import State


# --- Moments ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class LocalOnly:
    """An entry in local-only fallback. path, reason: "" if hidden from the reader. was_then: in a view of the past."""

    uid: UUID
    path: str
    since: datetime
    reason: str
    was_then: bool = False

    @property
    def message(self) -> Message:
        """The sentence shown beside numbers that the fallback affects."""
        key = "fallback.below" if self.path else "fallback.above"
        named = {"name": self.path, "reason": self.reason} if self.path else {}
        return build_message(f"{key}_then" if self.was_then else key, **named, at=self.since)

    @property
    def title(self) -> Message:
        """A title without the reason."""
        return build_message("fallback.since", name=self.path, at=self.since)

    @property
    def key(self) -> str:
        return self.message.key

    def __str__(self) -> str:
        return self.message.text


@dataclass(frozen=True)
class Moment:
    """A revision shown in a view of the past, and the snapshot with its numbers.

    until: when it was replaced, None if current. as_of: None without numbers. snapshot_revision: the revision that the
    numbers were computed for, which may be an earlier one. is_reconstructed: computed on request from today's records.
    """

    asked: int | datetime
    revision: int
    reason: str
    author: str
    since: datetime
    until: datetime | None
    head: int
    as_of: datetime | None
    snapshot_revision: int | None
    is_reconstructed: bool
    known_later: Mapping[str, Any] | None = None  # of a reconstruction, see recompute.inputs.find_later_changes

    @property
    def is_now(self) -> bool:
        """Whether the revision is the current one."""
        return self.until is None

    @property
    def notes(self) -> list[Message]:
        """Sentences about the origin of past numbers, and about later reports and corrections."""
        if self.as_of is None:
            return [build_message("past.none")]
        is_other = self.snapshot_revision != self.revision
        earlier = (
            [build_message("past.earlier_revision", at=self.as_of, revision=self.snapshot_revision)] if is_other else []
        )
        if not self.is_reconstructed:
            return earlier or [build_message("past.as_computed", at=self.as_of)]
        return [*earlier, build_message("past.reconstructed", at=self.as_of), *notes_of(self.known_later)]


def notes_of(later: Mapping[str, Any] | None) -> Iterator[Message]:
    """Sentences for the result of `recompute.inputs.find_later_changes`; none for older snapshots without it."""
    if later is None:
        return
    reported_after, usage_from, first_at, mapping_at = (
        None if later[name] is None else read_instant(later[name])
        for name in ("reported_after", "usage_from", "first_usage_at", "mapping_at")
    )
    if first_at is not None:
        yield build_message("past.before_first_usage", at=first_at)
    elif not later["has_usage"]:
        yield build_message("past.no_usage")
    elif reported_after is None:
        yield build_message("past.later_unknown")
    elif usage_from is not None:
        yield build_message("past.usage_later", since_at=usage_from, at=reported_after)
    if later["corrections"]:
        yield build_message("past.corrections_later", n=later["corrections"])
    if not later["has_mapping"]:
        yield build_message("past.no_mapping")
    elif mapping_at is not None:
        yield build_message("past.oldest_mapping", at=mapping_at)


# --- Trees ------------------------------------------------------------------------------------------------------------
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


# --- Core-hours -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class WeekAmounts:
    """Core-hours of each week. place: index among all siblings or sites, which decides the colour."""

    key: str
    name: str
    place: int
    core_h: tuple[float, ...]

    @property
    def total_core_h(self) -> float:
        return sum(self.core_h)


@dataclass(frozen=True, slots=True)
class AllocationLeft:
    """The remaining core-hours of an allocation over time.

    at: its first instant in the period, then each end of a week until now or its end. left_core_h: allocated less
    delivered at each. due_core_h: the allocation by now, if spread evenly over its days.
    """

    uid: UUID
    name: str
    place: tuple[int, int]  # level below the root and index among siblings, which decide the colour
    days: Period
    allocated_core_h: float
    due_core_h: float
    at: tuple[datetime, ...]
    left_core_h: tuple[float, ...]

    @property
    def delivered_core_h(self) -> float:
        return self.allocated_core_h - self.left_core_h[-1]


@dataclass(frozen=True)
class CoreHourWeeks:
    """Core-hours of a group by week, entry and site.

    edges: start of each week (the first is the period's start), then the end of the last; empty before the period.
    entries: the largest children whose amounts the actor may see, or the group itself. rest: the rest of the group;
    zeros if there is none. n_hidden: visible children with hidden amounts. allocations_left: the largest allocations;
    n_allocations: number of all.
    """

    policy_slug: str
    name: str
    period: Period
    zone: ZoneInfo
    now: datetime
    edges: tuple[datetime, ...]
    entries: tuple[WeekAmounts, ...]
    rest: WeekAmounts | None
    sites: tuple[WeekAmounts, ...]
    n_hidden: int
    allocations_left: tuple[AllocationLeft, ...]
    n_allocations: int
