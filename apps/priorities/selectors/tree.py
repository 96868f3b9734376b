"""The tree page with its rows in display order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from apps.accounts.actor import Actor
from apps.core.typed_numbers import read_whole
from apps.policies.settings import PolicySettings
from apps.priorities.moments import Moment
from apps.priorities.selectors.row_columns import RowColumns, row_blocks
from apps.priorities.selectors.rows import EntryRow, PolicyView, open_view
from apps.priorities.selectors.tree_listing import DEEPEST, Arrangement, list_rows, sort_children
from apps.priorities.selectors.visible_snapshot import moment_of

PAGE = 100  # children shown of one entry before "more"
WINDOW = 30  # rows of one response, so that a page stays below 1,500 elements
MOST_TREE_MATCHES = 200
MOST_TREE_ROWS = 2_000


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
    for block in blocks_of_rows(view, arranged):
        yield from block.rows()


def blocks_of_rows(view: PolicyView, arranged: Arrangement) -> Iterator[RowColumns]:
    """`iterate_rows` by column, a block at a time."""
    listing = list_rows(view, arranged, most_children=len(view.tree), room=WINDOW)
    rows = listing.rows
    return row_blocks(view, rows, place=listing.place[rows], size=listing.size[rows], is_open=listing.is_open[rows])


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
    entries = [i for uid in uids if (i := view.tree.index_of_uid(uid)) is not None and view.visibility.may_see(i)]
    return _tree_page(view, view.rows(entries))


def offset(cursor: str | None) -> int:
    """The start index in a cursor; 0 if it is missing or invalid."""
    return read_whole(cursor or "", 9) or 0
