"""Rounding by the resolution of `aequus`: which leaves of a tree change rank, and the smallest job that is visible."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import orjson
from cachetools import LRUCache

from apps.core.cache_sizes import mask_digest, sized
from apps.core.derived_state import in_memory
from apps.engine.algorithms import PriorityResult
from apps.engine.algorithms.aequus import operator_of
from apps.engine.analysis.job_size import smallest_jobs
from apps.engine.analysis.tree_resolution import Collisions, SafeBits, TreeBits, bits_now, collisions_at, safe_bits
from apps.policies.tree.columns import Mask, TreeColumns
from apps.priorities.metering import HOUR_S
from apps.priorities.recompute.totals import simulate_totals
from apps.priorities.serving.served_snapshot import ServedSnapshot

DERIVED_STATE = (
    in_memory(
        "_cache",
        holds="smallest visible jobs and bits of vectors",
        key="snapshot and its instant, tree, settings, entries that count",
        inputs="the snapshot, tree, settings",
        range="the snapshot's instant",
        ends="another key; the largest sizes push it out",
    ),
)

Settings = Mapping[str, Any]
F8 = npt.NDArray[np.float64]
T = TypeVar("T")
_MOST_CACHED_ROUNDINGS = 256
_MOST_ROUNDED_BYTES = 256 * 1024**2


def _n_bytes(value: Any) -> int:
    """Of the arrays of a value; the others are short."""
    return sum(each.nbytes for each in value if isinstance(each, np.ndarray)) if isinstance(value, tuple) else 0


_cache: LRUCache[tuple[Any, ...], Any] = LRUCache(
    _MOST_ROUNDED_BYTES, getsizeof=sized(_MOST_ROUNDED_BYTES, _MOST_CACHED_ROUNDINGS, _n_bytes)
)
_lock = Lock()


@dataclass(frozen=True, eq=False)
class CheckedTree:
    """One tree with the usage of one snapshot, under `aequus` with these settings.

    leaves: mask (n,) of the leaves to include. job_leaves: mask (n,) of those whose smallest job the reader may know;
    None: the same. content: names a large tree that isn't stored, as a digest does.
    """

    snapshot: ServedSnapshot
    tree: TreeColumns
    settings: Settings
    leaves: Mask
    job_leaves: Mask | None = None
    content: str = ""

    @property
    def visible_job_leaves(self) -> Mask:
        return self.leaves if self.job_leaves is None else self.job_leaves

    @cached_property
    def result(self) -> PriorityResult:
        """Priorities as a recompute would compute them. Raises Invalid if an operator from a package fails."""
        return simulate_totals(self.snapshot.totals, self.tree, algorithm=self.settings)

    @cached_property
    def _cache_key(self) -> tuple[Any, ...]:
        settings = orjson.dumps(self.settings, option=orjson.OPT_SORT_KEYS)
        masks = mask_digest(self.leaves), mask_digest(self.visible_job_leaves)
        return *self.snapshot.key, self.tree.digest or self.content, settings, *masks

    def at(self, resolutions: Sequence[int]) -> list[Collisions]:
        return self._cached(("at", *resolutions), lambda: collisions_at(self.result, resolutions, leaves=self.leaves))

    def safe(self) -> SafeBits:
        return self._cached(("safe",), lambda: safe_bits(self.result, leaves=self.leaves))

    def job_bits(self, job_h: float) -> TreeBits:
        """Return the bits from which a job is visible on every level, for the visible leaves and the groups
        above them.
        """
        return self._cached(("bits", job_h), lambda: self._job_bits(job_h))

    def _job_bits(self, job_h: float) -> TreeBits:
        entries, parent = self.visible_job_leaves.copy(), self.tree.parent
        for lo, hi in zip(self.tree.level_starts[-2:0:-1], self.tree.level_starts[:1:-1], strict=True):
            entries[parent[lo:hi][entries[lo:hi]]] = True
        return bits_now(self.result, operator_of(self.settings), job_h * HOUR_S, entries=entries)

    def jobs(self) -> tuple[F8, F8]:
        """Return the smallest visible job on any level and on every level, by visible leaf, in hours of the metric;
        infinite if none.
        """
        return self._cached(("jobs",), self._jobs)

    def _jobs(self) -> tuple[F8, F8]:
        jobs = smallest_jobs(self.result)
        return jobs.anywhere[self.visible_job_leaves] / HOUR_S, jobs.everywhere[self.visible_job_leaves] / HOUR_S

    def _cached(self, what: tuple[Any, ...], count: Callable[[], T]) -> T:
        """Compute once for the snapshot at its instant. A draft's tree has no digest, so few of them are cached."""
        if not (self.tree.digest or self.content):
            return count()
        key = (*self._cache_key, *what)
        with _lock:
            value: T | None = _cache.get(key)
        if value is None:
            value = count()
            with _lock:
                _cache[key] = value
        return value
