"""The tree page with its rows in display order, and the icicle chart of the tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np

from apps.accounts.actor import Actor
from apps.core.typed_numbers import read_whole
from apps.policies.settings import PolicySettings
from apps.priorities.records import IciclePage, Moment, Sector
from apps.priorities.selectors.rows import F8, EntryRow, PolicyView, open_view
from apps.priorities.selectors.tree_listing import DEEPEST, Arrangement, list_rows, sort_children
from apps.priorities.selectors.visible_snapshot import local_only_among, moment_of, require_entry

# --- Rows -------------------------------------------------------------------------------------------------------------
PAGE = 100  # children shown of one entry before "more"
WINDOW = 30  # rows of one response, so that a page stays below 1,500 elements
MOST_MATCHES = 200
MOST_ROWS = 2_000


@dataclass(frozen=True, slots=True)
class MoreRow:
    """Placeholder for children that aren't in the page yet. cursor: of the next ones."""

    parent_uid: UUID
    level: int
    cursor: str
    remaining: int


@dataclass(frozen=True)
class TreePage:
    """The tree page. as_of: None before the first recompute; then only targets are shown."""

    policy_slug: str
    policy_name: str
    revision: int
    as_of: datetime | None
    n_entries: int
    n_ranked: int
    n_out_of_tolerance: int
    settings: PolicySettings
    rows: list[EntryRow]
    more: list[MoreRow]
    query: str = ""
    n_matches: int = 0
    algorithm: dict[str, Any] = field(default_factory=dict)  # that the numbers were computed with
    own_columns: tuple[str, ...] = ()  # the algorithm's own, by the scheduler's names
    moment: Moment | None = None  # of the past
    level: int = 1  # open down to this level; 0: down to all matches
    n_rows: int = 0  # of all windows
    n_left: int = 0  # rows after those shown
    view: PolicyView | None = field(default=None, repr=False, compare=False)  # for the side panel
    shows_sums: bool = False  # some entries show sums only, of the end of a day
    earlier_revision: int | None = None  # of the ranks, if the shown revision is not computed yet


_AS_STORED = Arrangement()


def get_tree_page(
    *,
    policy_slug: str,
    actor: Actor,
    arranged: Arrangement = _AS_STORED,
    after: UUID | None = None,
    parent_uid: UUID | None = None,
    cursor: str | None = None,
    at: int | datetime | None = None,
) -> TreePage:
    """At most WINDOW rows for a page or a fragment, and the ancestors of the first row.

    after: start with the row after this entry. parent_uid: only children of this entry, from `cursor` on.
    """
    view = open_view(policy_slug=policy_slug, actor=actor, at=at)
    if parent_uid is not None:
        return _children_page(view, view.require(parent_uid), arranged, offset(cursor))
    listing = list_rows(view, arranged, most_children=PAGE, room=WINDOW)
    start = listing.after(view, after)
    shown = listing.rows[start : start + WINDOW].tolist()
    stop = start + len(shown)
    way = (
        [above for above in view.tree.ancestors(shown[0]) if view.visibility.may_see(above)] if start and shown else []
    )
    rows = [
        view.row(i, position=(int(listing.place[i]), int(listing.size[i])), is_open=bool(listing.is_open[i]))
        for i in [*way, *shown]
    ]
    more = [
        MoreRow(view.tree.uuid(i), int(view.tree.level[i]) + 2, str(PAGE), left)
        for i, left in listing.left_out.items()
        if start < listing.end[i] <= stop
    ]
    return replace(
        _tree_page(view, rows),
        more=more,
        query=arranged.query,
        n_matches=listing.n_matches,
        level=0 if listing.level == DEEPEST else listing.level,
        n_rows=len(listing.rows),
        n_left=len(listing.rows) - stop,
    )


def iterate_rows(view: PolicyView, arranged: Arrangement) -> Iterator[EntryRow]:
    """All rows of an arrangement, without a limit."""
    listing = list_rows(view, arranged, most_children=len(view.tree), room=WINDOW)
    for i in listing.rows.tolist():
        yield view.row(i, position=(int(listing.place[i]), int(listing.size[i])), is_open=bool(listing.is_open[i]))


def selectable(view: PolicyView, arranged: Arrangement) -> list[UUID]:
    """Uids of rows that the actor may change; with a filter only matches, without their ancestors."""
    listing = list_rows(view, arranged, most_children=len(view.tree), room=WINDOW)
    rows = listing.rows[listing.rows > 0]
    if listing.matches is not None:
        rows = rows[listing.matches[rows]]
    return [view.tree.uuid(i) for i in rows.tolist() if view.visibility.may_change(i)]


def _children_page(view: PolicyView, parent: int, arranged: Arrangement, start: int) -> TreePage:
    children, n_siblings = sort_children(view, parent, arranged)
    shown = children[start : start + WINDOW]
    rows = [view.row(child, position=(place, n_siblings)) for child, place in shown]
    left = len(children) - start - len(shown)
    level = int(view.tree.level[parent]) + 2
    more = [MoreRow(view.tree.uuid(parent), level, str(start + len(shown)), left)] if left > 0 else []
    return replace(_tree_page(view, rows), more=more, query=arranged.query)


def _tree_page(view: PolicyView, rows: list[EntryRow]) -> TreePage:
    return TreePage(
        policy_slug=view.policy.slug,
        policy_name=view.policy.name,
        revision=view.revision,
        as_of=view.as_of,
        n_entries=int(view.visibility.mask.sum()),
        n_ranked=view.n_ranked,
        n_out_of_tolerance=view.count_out_of_tolerance(),
        settings=view.settings,
        rows=rows,
        more=[],
        algorithm=view.snapshot.algorithm if view.snapshot else view.settings.algorithm,
        own_columns=view.snapshot.own_columns if view.snapshot else (),
        moment=moment_of(view),
        view=view,
        shows_sums=view.shows_sums,
        earlier_revision=view.earlier_revision,
    )


def get_tree_rows(*, policy_slug: str, actor: Actor, uids: Sequence[UUID]) -> TreePage:
    """Rows of these entries; archived and hidden ones are left out."""
    view = open_view(policy_slug=policy_slug, actor=actor)
    found = [i for uid in uids if (i := view.tree.index_of_uid(uid)) is not None and view.visibility.may_see(i)]
    return _tree_page(view, view.rows(found))


def offset(cursor: str | None) -> int:
    """The start index in a cursor; 0 if it is missing or invalid."""
    return read_whole(cursor or "", 9) or 0


# --- Icicle chart -----------------------------------------------------------------------------------------------------
MOST_A_LEVEL = 50  # entries of one level; with combined ones a chart has at most 400 sectors


def get_icicle(
    *,
    policy_slug: str,
    actor: Actor,
    chosen_uid: UUID | None,
    sizes: str,
    levels: int,
    smallest: float,
    at: int | datetime | None,
) -> IciclePage:
    """The icicle of an entry and those below it; of its parent if the entry has no children.

    sizes: `target` or `actual`. levels: number of levels, the entry's own included. smallest: least fraction of the
    chart that gets its own sector. at: a revision or an instant of the past.
    """
    view = open_view(policy_slug=policy_slug, actor=actor, at=at)
    chosen = view.visibility.require(0) if chosen_uid is None else require_entry(view, chosen_uid)
    top = _top_of(view, chosen)
    chart = _Chart(view, top, sizes, levels, smallest)
    drawn = chart.draw()
    return IciclePage(
        policy_slug=view.policy.slug,
        policy_name=view.policy.name,
        revision=view.revision,
        as_of=view.as_of,
        settings=view.settings,
        top=drawn,
        way=view.rows(above for above in view.tree.ancestors(top) if view.visibility.may_see(above)),
        chosen=view.row(chosen, position=(1, 1)),
        sizes=sizes,
        n_entries=chart.n_entries,
        n_shown=chart.n_shown,
        moment=moment_of(view),
        local_only=local_only_among(view, list(_uids(drawn))),
    )


def _top_of(view: PolicyView, chosen: int) -> int:
    """The top entry of the chart: for a leaf its parent, if visible."""
    parent = int(view.tree.parent[chosen])
    if view.visible_children(chosen) or parent < 0 or not view.visibility.may_see(parent):
        return chosen
    return parent


def _uids(sector: Sector) -> Iterator[UUID]:
    """At most five levels deep."""
    if sector.row is not None:
        yield sector.row.uid
    for child in sector.children:
        yield from _uids(child)


class _Chart:
    """Builds the sectors of a chart, level by level, the largest entries of each."""

    def __init__(self, view: PolicyView, top: int, sizes: str, levels: int, smallest: float) -> None:
        self.view, self.top = view, top
        self._depth, self._smallest = levels, smallest
        self._levels = view.tree.subtree(top)
        self._size = self._with_inheriting(self._actual() if sizes == "actual" else self._target())
        self._whole = self._size[top] or 1.0
        self.n_shown = 0

    @property
    def n_entries(self) -> int:
        mask = self.view.visibility.mask
        return sum(int(mask[level.start : level.stop].sum()) for level in self._levels)

    def draw(self) -> Sector:
        shown = {self.top}
        for level in self._levels[1 : self._depth]:
            shown |= self._largest([i for i in level if int(self.view.tree.parent[i]) in shown])
        self.n_shown = len(shown)
        return self._sector(self.top, shown, depth=1)

    def _largest(self, candidates: list[int]) -> set[int]:
        mask, size = self.view.visibility.mask, self._size
        least = self._smallest * self._whole * (1 - 1e-9)
        seen = [i for i in candidates if mask[i] and size[i] >= least]
        return set(sorted(seen, key=lambda i: (-size[i], i))[:MOST_A_LEVEL])

    def _sector(self, i: int, shown: set[int], depth: int) -> Sector:
        """A sector with the sectors below it; recursion is limited by the number of levels."""
        size = float(self._size[i] / self._whole)
        row = self.view.row(i, position=(1, 1))
        children = self.view.tree.children(i)
        if depth >= self._depth or not children:
            return Sector(row, size)
        below = [self._sector(child, shown, depth + 1) for child in children if child in shown]
        rest = [child for child in children if child not in shown]
        left = float(sum(self._size[child] for child in rest) / self._whole)
        if rest and left >= self._smallest:
            below.append(Sector(None, left, n_together=len(rest)))
        return Sector(row, size, children=below)

    def _target(self) -> F8:
        """Products of targets from the top down; children of an entry that inherits divide its parent's target."""
        tree, competes, among_siblings = self.view.tree, self.view.competes, self.view.target[0]
        target = np.zeros(len(tree))
        target[self.top] = 1.0
        of_parent = target.copy()  # the fraction that the children divide
        for level in self._levels[1:]:
            here = slice(level.start, level.stop)
            above = of_parent[tree.parent[here]]
            target[here] = np.where(competes[here], among_siblings[here] * above, 0.0)
            of_parent[here] = np.where(competes[here], target[here], above)
        return target

    def _actual(self) -> F8:
        """Actual shares of the whole; 0 if unknown or hidden."""
        place, snapshot = self.view.snapshot_index, self.view.snapshot
        if snapshot is None:
            return np.zeros(len(self.view.tree))
        known = (place >= 0) & self.view.competes & self.view.shows_numbers
        found: F8 = np.where(known, snapshot.actual_global[place], 0.0)
        found[0] = 1.0
        return found

    def _with_inheriting(self, size: F8) -> F8:
        """Set entries with *inherit* shares to the sum of their children."""
        inherits = self.view.tree.inherit
        for level in reversed(self._levels[1:]):
            parents = self.view.tree.parent[level.start : level.stop]
            sums = np.zeros(len(size))
            np.add.at(sums, parents, size[level.start : level.stop])
            above = np.unique(parents)
            above = above[inherits[above] & (above > 0)]
            size[above] = sums[above]
        return size
