"""The whole tree in one picture: a few levels below an entry, each with its largest children and the rest together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

import numpy as np

from apps.accounts.actor import Actor
from apps.policies.settings import PolicySettings
from apps.priorities.selectors.fallen import LocalOnly, local_only_among
from apps.priorities.selectors.moments import Moment, moment_of
from apps.priorities.selectors.not_in_revision import require_entry
from apps.priorities.selectors.rows import F8, EntryRow, PolicyView, open_view

LEVELS = 5
MOST_A_LEVEL = 90  # entries of one level; with what is told together a picture stays under 500 sectors
SMALLEST = 1 / 100  # of the whole: lower ones could not be seen
SIZES = ("target", "actual")


@dataclass(frozen=True)
class Sector:
    """One entry, or (`row` None) some children of one that are told together; `size` is a part of the whole shown."""

    row: EntryRow | None
    size: float
    n_together: int = 0
    children: list[Sector] = field(default_factory=list)


@dataclass(frozen=True)
class IciclePage:
    """`top` fills the picture; `way` leads from the root to it."""

    policy_slug: str
    policy_name: str
    revision: int
    as_of: datetime | None
    settings: PolicySettings
    top: Sector
    way: list[EntryRow]
    sizes: str
    n_entries: int
    n_shown: int
    moment: Moment | None = None
    local_only: list[LocalOnly] = field(default_factory=list)  # by whose usage what is drawn is compared


def get_icicle(
    *,
    policy_slug: str,
    actor: Actor,
    top_uid: UUID | None = None,
    sizes: str = "target",
    at: int | datetime | None = None,
) -> IciclePage:
    """`sizes`: by what part of the whole each was promised, or by what it used. `at`: of a revision or an instant."""
    view = open_view(policy_slug=policy_slug, actor=actor, at=at)
    top = view.visibility.require(0) if top_uid is None else require_entry(view, top_uid)
    picture = _Picture(view, top, sizes)
    drawn = picture.draw()
    return IciclePage(
        policy_slug=view.policy.slug,
        policy_name=view.policy.name,
        revision=view.revision,
        as_of=view.as_of,
        settings=view.settings,
        top=drawn,
        way=view.rows(above for above in view.tree.ancestors(top) if view.visibility.may_see(above)),
        sizes=sizes,
        n_entries=int(view.visibility.mask.sum()),
        n_shown=picture.n_shown,
        moment=moment_of(view),
        local_only=local_only_among(view, list(_uids(drawn))),
    )


def _uids(sector: Sector) -> Iterator[UUID]:
    """At most five levels deep."""
    if sector.row is not None:
        yield sector.row.uid
    for child in sector.children:
        yield from _uids(child)


class _Picture:
    """Sectors being put together, level by level, from the largest down."""

    def __init__(self, view: PolicyView, top: int, sizes: str) -> None:
        self.view, self.top = view, top
        self._levels = view.tree.subtree(top)
        self._size = self._summed_up(self._actual() if sizes == "actual" else self._target())
        self._whole = self._size[top] or 1.0
        self.n_shown = 0

    def draw(self) -> Sector:
        shown = {self.top}
        for level in self._levels[1:LEVELS]:
            shown |= self._largest([i for i in level if int(self.view.tree.parent[i]) in shown])
        self.n_shown = len(shown)
        return self._sector(self.top, shown, depth=1)

    def _largest(self, candidates: list[int]) -> set[int]:
        mask, size = self.view.visibility.mask, self._size
        seen = [i for i in candidates if mask[i] and size[i] >= SMALLEST * self._whole]
        return set(sorted(seen, key=lambda i: (-size[i], i))[:MOST_A_LEVEL])

    def _sector(self, i: int, shown: set[int], depth: int) -> Sector:
        """At most five levels deep."""
        size = float(self._size[i] / self._whole)
        row = self.view.row(i, position=(1, 1))
        children = self.view.tree.children(i)
        if depth >= LEVELS or not children:
            return Sector(row, size)
        below = [self._sector(child, shown, depth + 1) for child in children if child in shown]
        rest = [child for child in children if child not in shown]
        left = float(sum(self._size[child] for child in rest) / self._whole)
        if rest and left >= SMALLEST:
            below.append(Sector(None, left, n_together=len(rest)))
        return Sector(row, size, children=below)

    def _target(self) -> F8:
        target = np.where(self.view.competes, self.view.target[1], 0.0)
        target[0] = 1.0
        return target

    def _actual(self) -> F8:
        """Of the whole; 0 where it isn't known, or not told."""
        place, snapshot = self.view.place, self.view.snapshot
        if snapshot is None:
            return np.zeros(len(self.view.tree))
        known = (place >= 0) & self.view.competes & self.view.told
        found: F8 = np.where(known, snapshot.actual_global[place], 0.0)
        found[0] = 1.0
        return found

    def _summed_up(self, size: F8) -> F8:
        """Entries without shares of their own are as large as what is below them."""
        dissolved = self.view.tree.inherit
        for level in reversed(self._levels[1:]):
            parents = self.view.tree.parent[level.start : level.stop]
            sums = np.zeros(len(size))
            np.add.at(sums, parents, size[level.start : level.stop])
            above = np.unique(parents)
            above = above[dissolved[above] & (above > 0)]
            size[above] = sums[above]
        return size
