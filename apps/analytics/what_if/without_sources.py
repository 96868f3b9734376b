"""What if some sources were left out, a peer's above all: priorities computed again without them. Nothing is kept."""

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
from apps.analytics.forecast.past_usage import snapshot_key
from apps.core.errors import NotFound, TooLarge
from apps.policies.settings import PolicySettings
from apps.policies.tree.columns import Mask, TreeColumns
from apps.priorities.recompute.comparison import ComputedTree, compare
from apps.priorities.recompute.pipeline import Computed, Inputs, load_inputs, oldest_counted_at
from apps.priorities.recompute.simulation import Changes, simulate
from apps.priorities.selectors.rows import PolicyView, open_view
from apps.priorities.serving.served_snapshot import ServedSnapshot
from apps.usage.models import Source

MOST_BUCKETS = 2_000_000  # read within the request
MOST_LISTED = 50
_LEAST = 1e-9  # of a share or a priority: below it, rounding
_COUNT = """
SELECT count(*) FROM (SELECT FROM usage_bucket WHERE (%(from_at)s::timestamptz IS NULL OR hour_at >= %(from_at)s)
    AND hour_at < %(to_at)s LIMIT %(most)s) buckets
"""
_MOST_KEPT = 4


@dataclass(frozen=True, slots=True)
class Side:
    """An entry with the sources or without them; None where it doesn't have such a number."""

    actual: float | None
    priority: float | None
    rank: int | None
    usage: float  # in the policy's metric, as its siblings are compared


@dataclass(frozen=True, slots=True)
class Difference:
    """One entry whose numbers would differ. Fractions 0..1; level 1 is below the root."""

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
        """Of the actual share."""
        return (self.after.actual or 0.0) - (self.before.actual or 0.0)


@dataclass(frozen=True)
class Without:
    """Largest differences of actual first, then of rank. n_more: further ones that aren't listed.

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
    n_told: int
    n_untold: int


@dataclass(frozen=True, eq=False)
class BothWays:
    """One instant computed twice: with all sources, and without some."""

    tree: TreeColumns
    with_them: Computed
    without_them: Computed


def compute_both(inputs: Inputs, source_ids: Collection[int]) -> BothWays:
    """Compute with and without sources: bit for bit what a recompute of a site without those sources finds."""
    variants = [Changes(), Changes(without_sources=frozenset(source_ids))]
    (with_them,), (without_them,) = simulate(inputs, variants)
    return BothWays(inputs.tree, with_them, without_them)


def leave_out(
    *, policy_slug: str, sources: Collection[str], actor: Actor, at: datetime, most: int = MOST_LISTED
) -> Without:
    """Sources by their slugs, on the usage that counts in the newest snapshot; for visible entries.

    Raises:
        NotFound: no such policy or source, or nothing computed yet.
        TooLarge: more hours count than one request may process.
    """
    view = open_view(policy_slug=policy_slug, actor=actor, scope=_scope(actor), is_live=True)
    if view.snapshot is None:
        raise NotFound(_("This policy has no priorities yet."))
    ids = dict(Source.objects.filter(slug__in=sources).values_list("slug", "pk"))
    missing = sorted(set(sources) - set(ids))
    if missing:
        raise NotFound(_("There is no usage source %(slug)s.") % {"slug": repr(missing[0][:80])})
    both = _work_out(view, view.snapshot, frozenset(ids.values()))
    told = _told_there(view, both.tree)
    order, n_moved = _differences(both, told)
    return Without(
        policy_slug=view.policy.slug,
        policy_name=view.policy.name,
        settings=view.settings,
        as_of=view.snapshot.as_of,
        sources=tuple(sorted(ids)),
        n_more=max(len(order) - most, 0),
        rows=tuple(_difference(both, int(i)) for i in order[:most]),
        n_moved=n_moved,
        n_told=int(told.sum()),
        n_untold=int(len(told) - told.sum()),
    )


def _scope(actor: Actor) -> str:
    return next((scope for scope in ("policies:read", "federation") if actor.has_scope(scope)), "policies:read")


def _told_there(view: PolicyView, tree: TreeColumns) -> Mask:
    """Visible entries of the computed tree; a revision may have been published in between."""
    if tree is view.tree or tree.digest == view.tree.digest != "":
        return view.shows_numbers
    places = [view.tree.index_of_uid(tree.uuid(i)) for i in range(len(tree))]
    return np.array([place is not None and bool(view.shows_numbers[place]) for place in places], dtype=np.bool_)


def _differences(both: BothWays, told: Mask) -> tuple[npt.NDArray[np.int64], int]:
    """Entries whose numbers would differ, largest differences first; how many of them in rank."""
    found = compare(ComputedTree(both.tree, both.with_them.result), ComputedTree(both.tree, both.without_them.result))
    one, other = found.before, found.after
    compared = ~np.isnan(one.actual) & told
    compared[0] = False
    by_share = np.where(compared, np.abs(other.actual - one.actual), 0.0)
    by_priority = np.where(compared, np.abs(other.priority - one.priority), 0.0)
    ranked = (one.rank > 0) & (other.rank > 0) & told
    by_rank = np.where(ranked, np.abs(other.rank - one.rank), 0)
    differs = np.flatnonzero((by_share > _LEAST) | (by_priority > _LEAST) | (by_rank > 0))
    order = differs[np.lexsort((differs, -by_rank[differs], -np.round(by_share[differs], 12)))]
    return order, int((by_rank > 0).sum())


def _difference(both: BothWays, i: int) -> Difference:
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
    LRUCache(_MOST_KEPT),
    key=lambda view, snapshot, source_ids: (*snapshot_key(view.policy, snapshot), source_ids),
    lock=Lock(),
)
def _work_out(view: PolicyView, snapshot: ServedSnapshot, source_ids: frozenset[int]) -> BothWays:
    """Kept: who pages through what was worked out waits once."""
    _refuse_too_many(view.settings, snapshot.as_of)
    return compute_both(load_inputs(view.policy, as_of=snapshot.as_of), source_ids)


def _refuse_too_many(settings: PolicySettings, as_of: datetime) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            _COUNT, {"from_at": oldest_counted_at(settings, as_of), "to_at": as_of, "most": MOST_BUCKETS + 1}
        )
        n = int(cursor.fetchone()[0])
    if n > MOST_BUCKETS:
        message = _("More than %(n)s hours of usage count in this policy: the calculation would take too long.")
        raise TooLarge(message % {"n": f"{MOST_BUCKETS:,}"})
