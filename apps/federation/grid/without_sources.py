"""Priorities recomputed without some usage sources, usually a peer's, and compared with the current ones; nothing is
stored.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from threading import Lock
from uuid import UUID

import numpy as np
import numpy.typing as npt
from cachetools import LRUCache, cached
from django.db import connection
from django.utils.translation import gettext as _

from apps.accounts.actor import Actor
from apps.core.derived_state import in_memory
from apps.core.errors import NotFound, TooLarge
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import Mask, TreeColumns
from apps.priorities.recompute.comparison import ComputedTree, compare
from apps.priorities.recompute.pipeline import Computed, Inputs, load_inputs, oldest_counted_at
from apps.priorities.recompute.simulation import Changes, simulate
from apps.priorities.selectors.rows import PolicyView, open_view
from apps.priorities.serving.served_snapshot import ServedSnapshot, snapshot_key
from apps.usage.models import Source

DERIVED_STATE = (
    in_memory(
        "_compute_cached",
        holds="ranks with and without some sources",
        key="slug, id and last instant of the snapshot, sources",
        inputs="usage up to the snapshot's instant, tree, mapping, settings",
        range="the snapshot's instant",
        ends="the newest ones push it out; a snapshot of another instant has another key",
    ),
)

MOST_GRID_BUCKETS = 2_000_000  # read during a request
MOST_LISTED_DIFFERENCES = 50
_LEAST_MOVE = 1e-9  # smaller differences of shares and priorities are rounding errors
_COUNT = """
SELECT count(*) FROM (SELECT FROM usage_bucket WHERE (%(from_at)s::timestamptz IS NULL OR hour_at >= %(from_at)s)
    AND hour_at < %(to_at)s LIMIT %(most)s) buckets
"""
_MOST_CACHED_GRIDS = 4


@dataclass(frozen=True, slots=True)
class Side:
    """An entry's numbers with or without the sources; None where it has none."""

    actual: float | None
    priority: float | None
    rank: int | None
    usage: float  # in the policy's metric, in the scope by which siblings are compared


@dataclass(frozen=True, slots=True)
class Difference:
    """One entry whose numbers would change. Fractions 0..1; level 1 is below the root."""

    uid: UUID
    path: str
    name: str
    kind: str
    level: int
    target: float | None
    before: Side
    after: Side

    @property
    def change(self) -> float:
        """Change of the actual share."""
        return (self.after.actual or 0.0) - (self.before.actual or 0.0)


@dataclass(frozen=True)
class WithoutSources:
    """Differences, the largest changes of actual first, then of rank. n_more: number of differences not listed.

    n_moved: entries whose rank would change. All counts are of visible entries.
    """

    policy_slug: str
    policy_name: str
    settings: PolicySettings
    as_of: datetime
    sources: tuple[str, ...]
    rows: tuple[Difference, ...]
    n_more: int
    n_moved: int
    n_hidden: int


@dataclass(frozen=True, eq=False)
class BothResults:
    """Results of one instant with all sources, and without some."""

    tree: TreeColumns
    with_them: Computed
    without_them: Computed


def compute_both(inputs: Inputs, source_ids: Collection[int]) -> BothResults:
    """Compute both results. The second is bit for bit what a site without these sources would compute."""
    variants = [Changes(), Changes(without_sources=frozenset(source_ids))]
    (with_them,), (without_them,) = simulate(inputs, variants)
    return BothResults(inputs.tree, with_them, without_them)


def compare_without_sources(
    *, policy_slug: str, sources: Collection[str], actor: Actor, at: datetime
) -> WithoutSources:
    """Compare visible entries without these sources (slugs), on the usage of the newest snapshot.

    Raises: NotFound if there is no such policy or source, or nothing has been computed yet. TooLarge if there is too
    much usage for one request.
    """
    view = open_view(
        policy_slug=policy_slug,
        actor=actor,
        scope=next((scope for scope in ("policies:read", "federation") if actor.has_scope(scope)), "policies:read"),
        is_live=True,
    )
    if view.snapshot is None:
        raise NotFound(_("This policy has no priorities yet."))
    ids = dict(Source.objects.filter(slug__in=sources).values_list("slug", "pk"))
    missing = sorted(set(sources) - set(ids))
    if missing:
        raise NotFound(_("There is no usage source %(slug)s.") % {"slug": repr(missing[0][:80])})
    both = _compute_cached(view, view.snapshot, frozenset(ids.values()))
    visible = _visible_in(view, both.tree)
    order, n_moved = _differences(both, visible)
    return WithoutSources(
        policy_slug=view.policy.slug,
        policy_name=view.policy.name,
        settings=view.settings,
        as_of=view.snapshot.as_of,
        sources=tuple(sorted(ids)),
        n_more=max(len(order) - MOST_LISTED_DIFFERENCES, 0),
        rows=tuple(_difference(both, int(i)) for i in order[:MOST_LISTED_DIFFERENCES]),
        n_moved=n_moved,
        n_hidden=int(len(visible) - visible.sum()),
    )


def _visible_in(view: PolicyView, tree: TreeColumns) -> Mask:
    """Mask of visible entries of the computed tree, which may be another revision than the view's."""
    if tree is view.tree or tree.digest == view.tree.digest != "":
        return view.shows_numbers
    indices = [view.tree.index_of_uid(tree.uuid(i)) for i in range(len(tree))]
    return np.array([place is not None and bool(view.shows_numbers[place]) for place in indices], dtype=np.bool_)


def _differences(both: BothResults, visible: Mask) -> tuple[npt.NDArray[np.int64], int]:
    """Return the entries whose numbers change, largest changes first, and how many change rank."""
    comparison = compare(
        ComputedTree(both.tree, both.with_them.result), ComputedTree(both.tree, both.without_them.result)
    )
    before, after = comparison.before, comparison.after
    compared = ~np.isnan(before.actual) & visible
    compared[0] = False
    by_share = np.where(compared, np.abs(after.actual - before.actual), 0.0)
    by_priority = np.where(compared, np.abs(after.priority - before.priority), 0.0)
    ranked = (before.rank > 0) & (after.rank > 0) & visible
    by_rank = np.where(ranked, np.abs(after.rank - before.rank), 0)
    differs = np.flatnonzero((by_share > _LEAST_MOVE) | (by_priority > _LEAST_MOVE) | (by_rank > 0))
    order = differs[np.lexsort((differs, -by_rank[differs], -np.round(by_share[differs], 12)))]
    return order, int((by_rank > 0).sum())


def _difference(both: BothResults, i: int) -> Difference:
    tree, result = both.tree, both.with_them.result
    return Difference(
        uid=tree.uuid(i),
        path=tree.path(i),
        name=tree.name[i],
        kind=tree.kind_names[int(tree.kind_code[i])],
        level=int(tree.level[i]),
        target=float(result.target[i]) if result.competes[i] else None,
        before=_side(both.with_them, i),
        after=_side(both.without_them, i),
    )


def _side(computed: Computed, i: int) -> Side:
    result = computed.result
    competes = bool(result.competes[i])
    return Side(
        actual=float(result.actual[i]) if competes else None,
        priority=float(result.priority[i]) if competes else None,
        rank=int(result.rank[i]) if result.has_rank[i] else None,
        usage=float(result.usage[i]),
    )


@cached(
    LRUCache(_MOST_CACHED_GRIDS),
    key=lambda view, snapshot, source_ids: (*snapshot_key(view.policy, snapshot), source_ids),
    lock=Lock(),
)
def _compute_cached(view: PolicyView, snapshot: ServedSnapshot, source_ids: frozenset[int]) -> BothResults:
    """Compute both results; cached, so that paging through them is fast."""
    _reject_too_many(view.settings, snapshot.as_of)
    return compute_both(load_inputs(view.policy, as_of=snapshot.as_of), source_ids)


def _reject_too_many(settings: PolicySettings, as_of: datetime) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            _COUNT, {"from_at": oldest_counted_at(settings, as_of), "to_at": as_of, "most": MOST_GRID_BUCKETS + 1}
        )
        n = int(cursor.fetchone()[0])
    if n > MOST_GRID_BUCKETS:
        message = _("More than %(n)s hours of usage count in this policy: the calculation would take too long.")
        raise TooLarge(message % {"n": f"{MOST_GRID_BUCKETS:,}"})
