"""Effect of an operator at a resolution on the order of one tree: compared with exact numbers, and for jobs of a given
size.
"""

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
from django.utils.translation import gettext as _

from apps.core.errors import FieldProblem, Invalid
from apps.engine.algorithms import PriorityResult, read_algorithm
from apps.engine.algorithms.aequus import operator_of
from apps.engine.analysis.job_size import smallest_jobs
from apps.engine.analysis.tree_resolution import Collisions, SafeBits, TreeBits, bits_now, collisions_at, safe_bits
from apps.engine.errors import BadParameter
from apps.pages.algorithm.operators.records import FigureQuery
from apps.pages.algorithm.operators.sentences import misplaced_text, safe_bits_text
from apps.policies.changesets.checks import Check
from apps.policies.changesets.review import Review
from apps.policies.tree.columns import Mask, TreeColumns
from apps.priorities.metering import HOUR_S
from apps.priorities.recompute.totals import simulate_totals
from apps.priorities.sentences.numbers import count
from apps.priorities.sentences.operators import operator_text, resolution_text
from apps.priorities.serving.served_snapshot import ServedSnapshot

Settings = Mapping[str, Any]
F8 = npt.NDArray[np.float64]
T = TypeVar("T")
# Compared with the resolution in use: 10,000 and the powers of two up to 16 bits.
CANDIDATES = (*(2**bits for bits in range(8, 14)), 10_000, *(2**bits for bits in range(14, 17)))
MOST_FOR_ALL = 20_000  # leaves of a tree for which every operator is tried at every candidate
FEW_CANDIDATES = (2**8, 2**12, 10_000, 2**16)
_MOST_CACHED = 256
_cache: LRUCache[tuple[Any, ...], Any] = LRUCache(_MOST_CACHED)
_lock = Lock()


def aequus_settings(algorithm: Settings, query: FigureQuery) -> dict[str, Any]:
    """Return settings of `aequus` from the query, else the policy, else the defaults. Raises Invalid."""
    own = dict(algorithm) if algorithm.get("name") == "aequus" else read_algorithm("aequus")
    settings = {key: value for key, value in own.items() if key in ("name", "zero_shares")}
    settings["operator"] = query.operator or own["operator"]
    settings["resolution"] = query.resolution or own["resolution"]
    if settings["operator"] == "combined":
        k = own.get("k") if query.k is None else query.k
        settings |= {} if k is None else {"k": k}
    if settings["resolution"] < 4:  # too few values to reserve one for zero shares
        settings.pop("zero_shares", None)
    try:
        return read_algorithm(settings)
    except BadParameter as error:
        field = error.place.removeprefix("algorithm.")
        raise Invalid(f"{error.message}.", fields=[FieldProblem(field, error.message)]) from None


@dataclass(frozen=True, eq=False)
class CheckedTree:
    """One tree with the usage of one snapshot, under `aequus` with these settings.

    leaves: mask (n,) of the leaves to include. job_leaves: mask of those whose smallest job is visible; see
    `OperatorQuery`.
    """

    snapshot: ServedSnapshot
    tree: TreeColumns
    settings: Settings
    leaves: Mask
    job_leaves: Mask | None = None

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
        masks = np.packbits(self.leaves).tobytes(), np.packbits(self.visible_job_leaves).tobytes()
        return self.snapshot.snapshot_id, self.tree.digest, settings, *masks

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
        found = smallest_jobs(self.result)
        return found.anywhere[self.visible_job_leaves] / HOUR_S, found.everywhere[self.visible_job_leaves] / HOUR_S

    def _cached(self, what: tuple[Any, ...], count: Callable[[], T]) -> T:
        """Compute once per snapshot, which never changes. A draft's tree has no digest, so it is not cached."""
        if not self.tree.digest:
            return count()
        key = (*self._cache_key, *what)
        with _lock:
            found: T | None = _cache.get(key)
        if found is None:
            found = count()
            with _lock:
                _cache[key] = found
        return found


def check_resolution(
    review: Review, snapshot: ServedSnapshot, *, visible_before: Mask, visible_after: Mask
) -> Check | None:
    """Check the rounding of a change set's policy; None if it doesn't round. visible_before, visible_after: visible
    entries.
    """
    settings = review.wanted.algorithm
    if settings.get("name") != "aequus":
        return None
    after = _checked(snapshot, review.after, settings, visible_after)
    try:
        found = after.at([int(settings["resolution"])])[0]
        before = _before(review, snapshot, visible_before)
    except (Invalid, BadParameter):  # an operator's package fails: reported by the check `algorithm`
        return None
    values = {
        "resolution": resolution_text(found.resolution),
        "n": count(found.n_misplaced),
        "all": count(found.n_leaves),
        "operator": operator_text(str(settings["operator"]), settings.get("k")),
    }
    title = misplaced_text(found.n_misplaced) % values
    if not found.n_misplaced:
        return Check("resolution", "ok", title)
    text = "" if before is None else _("Before: %(n)s.") % {"n": count(before.n_misplaced)}
    is_worse = found.n_misplaced > (0 if before is None else before.n_misplaced)
    return Check(
        "resolution",
        "warn" if is_worse else "ok",
        title,
        text,
        safe_bits_text(after.safe().same_ranks) if is_worse else "",
    )


def _checked(snapshot: ServedSnapshot, tree: TreeColumns, settings: Settings, visible: Mask) -> CheckedTree:
    return CheckedTree(snapshot, tree, settings, visible & tree.engine_tree().is_ranked)


def _before(review: Review, snapshot: ServedSnapshot, visible: Mask) -> Collisions | None:
    settings = review.settings.algorithm
    if settings.get("name") != "aequus":
        return None
    return _checked(snapshot, review.before, settings, visible).at([int(settings["resolution"])])[0]
