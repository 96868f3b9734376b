"""A tree in one picture, as one actor may see it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from apps.policies.settings import PolicySettings
from apps.priorities.records.entries import EntryRow
from apps.priorities.records.local_only import LocalOnly
from apps.priorities.records.moment import Moment


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
