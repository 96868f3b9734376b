"""One group of a draft: its children, and the pool that their shares are fractions of."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from apps.policies.changesets.draft_tree import Place
from apps.policies.tree.columns import Node
from apps.priorities.selectors.draft import DraftRow, DraftView

MOST_DRAFT_MEMBERS = 200


@dataclass(frozen=True)
class DraftGroup:
    """Children of one entry, those with most shares in the revision first, so that the order is stable during edits.

    pool, pool_before: the total that shares are fractions of, in the draft and in the revision. It exceeds the sum of
    the rows if there are more than 200 children, hidden ones, or entries elsewhere that compete with these. is_closed:
    the pool is the sum of the children's own shares, so that shares can be moved between them.
    """

    parent: Node
    rows: Sequence[DraftRow]
    pool: float
    pool_before: float
    n_left_out: int
    is_closed: bool

    @property
    def rest(self) -> float:
        """Shares of competitors that are not among the rows."""
        return _rest(self.pool, [row.node.shares or 0.0 for row in self.rows])

    @property
    def rest_before(self) -> float:
        return _rest(self.pool_before, [self._shares_before(row) for row in self.rows])

    def _shares_before(self, row: DraftRow) -> float:
        return (row.before.shares or 0.0) if row.before is not None and row.stays else 0.0


def get_draft_group(view: DraftView, parent: Node) -> DraftGroup:
    """Return the visible children, at most 200."""
    indices = view.places(parent.uid)
    chosen = heapq.nsmallest(MOST_DRAFT_MEMBERS, indices, key=lambda child: (-_order(view, child), child.name))
    sums = view.tree.sum_of(parent.uid)
    pool = view.tree.pool_of(parent.uid)
    passes_on = sums.passes_on or (parent.shares is None and parent.parent_uid is not None)
    return DraftGroup(
        parent=parent,
        rows=[view.row(view.tree.node_at(child), position=(k, len(indices))) for k, child in enumerate(chosen, 1)],
        pool=pool,
        pool_before=view.tree.pool_before(parent.uid),
        n_left_out=len(indices) - len(chosen),
        is_closed=not passes_on,
    )


def _order(view: DraftView, child: Place) -> float:
    """Sort by shares in the revision, else in the draft."""
    if child.row is not None:
        return float(view.base.shares[child.row])
    node = view.tree.node_at(child)
    before = view.tree.before(node.uid)
    return (before or node).shares or 0.0


def _rest(pool: float, shown: Sequence[float]) -> float:
    """0 if the difference is only a rounding error."""
    rest = pool - sum(shown)
    return rest if rest > 1e-9 * pool else 0.0
