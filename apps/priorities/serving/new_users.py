"""The priority of a user who isn't in the tree: of one who would join it by an *each* rule, or whom only the scheduler
knows and whose account leads to a group.

Under `aequus` and `gridwide` it is a documented approximation, but in trees of Slurm: the user is compared with the
entries of the snapshot, although their arrival would lower the targets of their siblings a little. Under any other
algorithm, and in trees of Slurm, the user is added as the last sibling and all priorities are computed again: within
the request in small trees, in a background thread in larger ones. Until that is done, look-ups return the fallback
factor.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from apps.core.errors import Invalid
from apps.engine import codecs
from apps.engine.algorithms import PriorityResult
from apps.engine.algorithms.aequus import measure
from apps.engine.codecs import lineage
from apps.engine.errors import EngineError
from apps.engine.tree import FairshareTree
from apps.policies.tree.columns import TreeColumns
from apps.priorities.entry_order import Ordering
from apps.priorities.recompute.totals import compute_from_totals
from apps.priorities.serving.lookup import LookupIndex
from apps.priorities.snapshot_values import Values

logger = logging.getLogger(__name__)

_BY_COMPONENTS = ("aequus", "gridwide")
MOST_ENTRIES_IN_REQUEST = 50_000  # entries of a tree that is computed within the request, in about 50 ms
_MOST_WAITING_USERS = 64
RankAndFactor = tuple[int | None, int, float | None]  # rank, number of ranked entries, factor


class ComputedTree(Protocol):
    """The part of a served snapshot that this module needs."""

    @property
    def tree(self) -> TreeColumns: ...
    @property
    def values(self) -> Values: ...
    @property
    def index(self) -> LookupIndex: ...
    @property
    def algorithm(self) -> dict[str, Any]: ...
    @property
    def order(self) -> Ordering: ...
    @property
    def depth(self) -> int: ...
    @property
    def leaf_components(self) -> npt.NDArray[Any]: ...
    def lineage(self, entries: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]: ...


class EntryNumbers(NamedTuple):
    """Priorities and components from the root to an entry, and its rank among `of` entries, itself included."""

    priorities: list[float]
    vector: list[int] | None
    rank: int | None
    of: int
    factor: float | None


class NewUsers:
    """Priorities of users who would join one snapshot, by parent entry and shares; computed once."""

    def __init__(self, snapshot: ComputedTree) -> None:
        self._snapshot = snapshot
        self._known: dict[tuple[int, float], EntryNumbers | None] = {}
        self._waiting: dict[tuple[int, float], None] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def at(self, entry: int, shares: float) -> EntryNumbers | None:
        """The priority as a child of `entry`; None while it is being computed, and if it can't be."""
        key = entry, shares
        if key not in self._known:
            if not self._is_quick and len(self._snapshot.tree) > MOST_ENTRIES_IN_REQUEST:
                with self._lock:
                    if len(self._waiting) < _MOST_WAITING_USERS:
                        self._waiting[key] = None
                    if self._thread is None or not self._thread.is_alive():
                        self._thread = threading.Thread(target=self._compute_waiting, name="new-users", daemon=True)
                        self._thread.start()
                return None
            self._known[key] = self._compute(key)
        return self._known[key]

    @property
    def _is_quick(self) -> bool:
        is_of_slurm = self._snapshot.index.named.has_associations
        return self._snapshot.algorithm["name"] in _BY_COMPONENTS and not is_of_slurm

    def is_known(self, entry: int, shares: float) -> bool:
        """Whether the priority has been computed."""
        return (entry, shares) in self._known

    def wait(self) -> None:
        """Wait until all requested priorities are computed; for measurements and tests."""
        thread = self._thread
        if thread is not None:
            thread.join()

    def _compute_waiting(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._thread = None
                    return
                key = next(iter(self._waiting))
            answer = self._compute(key)
            with self._lock:
                self._known[key] = answer
                del self._waiting[key]

    def _compute(self, key: tuple[int, float]) -> EntryNumbers | None:
        snapshot, (entry, shares) = self._snapshot, key
        if self._is_quick:
            return rank_beside_entries(snapshot, entry, shares)
        try:
            return rank_in_new_tree(snapshot, entry, shares)
        except (EngineError, Invalid):
            logger.exception(
                "The priority of a new user below %s can't be computed; the fallback factor is served.",
                snapshot.tree.path(entry),
            )
            return None


def rank_in_new_tree(snapshot: ComputedTree, entry: int, shares: float) -> EntryNumbers:
    """Add a user with `shares` and without usage below `entry`, and compute all priorities again."""
    tree, values = snapshot.tree.engine_tree(), snapshot.values
    seniority = tree.seniority or (lambda: np.arange(tree.n_entries))
    larger, order = FairshareTree.from_columns(
        np.append(tree.parent, entry),
        np.append(tree.shares, shares),
        inherits=np.append(tree.inherits, False),
        is_group=np.append(tree.is_group, False),
        is_reserve=np.append(tree.is_reserve, False),
        is_user=np.append(tree.is_user, True),
        seniority=lambda: np.append(seniority(), tree.n_entries),
    )
    usage, group_usage = (np.append(total, 0.0)[order] for total in (values.usage, values.group_usage))
    result = compute_from_totals(larger, usage, group_usage, algorithm=snapshot.algorithm)
    at = int(np.flatnonzero(order == tree.n_entries)[0])
    return EntryNumbers(
        priorities=_priorities(result, at),
        vector=result.vector(at) if snapshot.order.decides == "vector" else None,
        rank=int(result.rank[at]) if result.has_rank[at] else None,
        of=result.n_ranked,
        factor=float(result.factor[at]) if result.has_factor[at] else None,
    )


def _priorities(result: PriorityResult, entry: int) -> list[float]:
    """Priorities from the root to the entry, of the levels that compete."""
    contest, entry_of, seat, _ = result.tree.competition
    priorities: list[float] = result.priority[entry_of[lineage(contest, int(seat[entry]))]].tolist()
    return priorities


def rank_beside_entries(snapshot: ComputedTree, entry: int, shares: float) -> EntryNumbers:
    """Compare a new user below `entry` with the present entries."""
    contest, _, seat, _ = snapshot.tree.engine_tree().competition
    rows, depth_of = snapshot.lineage(np.array([entry]))
    above = rows[0, : int(depth_of[0])]
    first = int(contest.first_child[seat[entry]])
    count = int(contest.child_count[seat[entry]])
    total = shares + float(contest.shares[first : first + count].sum())
    return rank_new_leaf(
        target=shares / total if total else 0.0,
        above=snapshot.values.priority[above].tolist(),
        above_scalars=snapshot.values.scalar[above].tolist(),
        leaves=snapshot.leaf_components,
        order=snapshot.order,
        algorithm=snapshot.algorithm,
        depth=snapshot.depth,
    )


def rank_new_leaf(
    *,
    target: float,
    above: list[float],
    above_scalars: list[int],
    leaves: npt.NDArray[Any],
    order: Ordering,
    algorithm: dict[str, Any],
    depth: int,
) -> EntryNumbers:
    """Rank a new leaf with a target and no usage, where components decide the order.

    above, above_scalars: priorities and components of its ancestors. leaves: components of all ranked leaves, padded
    to `depth`, shape (N, depth).
    """
    of = len(leaves) + 1
    resolution = order.resolution
    if resolution is None:
        priorities = [*above, target * 100.0]
        rank = 1 + count_ahead(leaves, priorities, order)
        return EntryNumbers(priorities, None, rank, of, _factor(rank, of))
    priority, scalar = measure(algorithm, np.array([target]), np.zeros(1))
    vector = [*above_scalars, int(scalar[0])]
    rank = 1 + count_ahead(leaves, vector, order)
    factor = _factor(rank, of)
    if algorithm["factor_from"] == "key":
        factor = factor_of_vector(vector, depth, resolution)
    return EntryNumbers([*above, float(priority[0])], vector, rank, of, factor)


def _factor(rank: int, of: int) -> float:
    return float(codecs.factor_from_rank(np.array([rank]), of)[0])


def factor_of_vector(vector: Sequence[int], depth: int, resolution: int) -> float:
    """`Σ vector_i / r^i`, padded with r//2 to `depth`: the factor from the key."""
    padded = [*vector, *[resolution // 2] * (depth - len(vector))]
    return float(sum(component / resolution**level for level, component in enumerate(padded, start=1)))


def count_ahead(leaves: npt.NDArray[Any], vector: list[Any], order: Ordering) -> int:
    """Number of leaves whose padded vector is strictly ahead of the padded `vector`."""
    n_leaves, depth = leaves.shape
    ahead, level_with = np.zeros(n_leaves, dtype=np.bool_), np.ones(n_leaves, dtype=np.bool_)
    for level in range(max(depth, len(vector))):
        components = leaves[:, level] if level < depth else np.full(n_leaves, order.fill)
        own = vector[level] if level < len(vector) else order.fill
        ahead |= level_with & order.ahead(components, own)
        level_with &= order.ties(components, own)
    return int(ahead.sum())


def rank_among_leaves(
    snapshot: ComputedTree, entry: int, components: Sequence[Any], computed: RankAndFactor
) -> RankAndFactor:
    """Rank and factor of an entry that is no ranked leaf, among the leaves and itself.

    components: its vector or deviations. The computed values are returned unchanged for the root, for reserves, and
    under an algorithm that orders leaves by its own rules.
    """
    if snapshot.order.has_own_order or entry == 0 or snapshot.tree.is_reserve[entry]:
        return computed
    rank, n_ranked, factor = computed
    if rank is None:
        rank = 1 + count_ahead(snapshot.leaf_components, list(components), snapshot.order)
    if factor is None and snapshot.algorithm.get("factor_from") == "key":
        factor = factor_of_vector(components, snapshot.depth, int(snapshot.order.resolution or 0))
    if factor is None:
        factor = float(codecs.factor_from_rank(np.array([rank]), n_ranked)[0])
    return rank, n_ranked + 1, factor
