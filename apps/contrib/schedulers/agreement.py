"""Match the scheduler's users to entries of the policy, and measure how far both orders of users agree.

Agreement is measured by Kendall's tau-b, Spearman's rho and the overlap of the first tenth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime

import numpy as np
import numpy.typing as npt

from apps.contrib.schedulers.models import Agreement, Scheduler
from apps.contrib.schedulers.own_values import OwnValue
from apps.core.errors import NotFound, Unavailable
from apps.policies.tree.slurm_associations import split_association
from apps.priorities.serving import store
from apps.priorities.serving.lookup import AccountQuery
from apps.priorities.serving.served_snapshot import ServedSnapshot

F8 = npt.NDArray[np.float64]


def entries_of(rows: Sequence[OwnValue], snapshot: ServedSnapshot, namespace: str) -> list[int]:
    """Entry of each row, −1 if there is none or several.

    A user's entry is found by look-up; a group's is the parent of an entry of one of its users.
    """
    entries = [-1] * len(rows)
    of_group: dict[str, int] = {}
    for i, row in enumerate(rows):
        if not row.user:
            continue
        user, partition = split_association(row.user)
        matches = snapshot.index.find_certain(AccountQuery(user, row.group, namespace, partition=partition))
        if len(matches) != 1 or snapshot.tree.takes_members[matches[0]]:
            continue
        entries[i] = matches[0]
        above = int(snapshot.tree.parent[matches[0]])
        if above >= 0:
            of_group.setdefault(row.group, above)
    for i, row in enumerate(rows):
        if not row.user:
            entries[i] = of_group.get(row.group, -1)
    return entries


def store_agreement(scheduler: Scheduler, values: list[OwnValue], at: datetime) -> Agreement | None:
    """Measure and store the agreement in the caller's transaction; None without a snapshot."""
    try:
        snapshot = store.newest(scheduler.policy.slug)
    except (NotFound, Unavailable):
        return None
    scheduler_values, entries = [], []
    for value, entry in zip(values, entries_of(values, snapshot, scheduler.namespace), strict=True):
        if value.user and entry >= 0 and not math.isnan(value.fairshare) and snapshot.values.has_factor[entry]:
            scheduler_values.append(value.fairshare)
            entries.append(entry)
    ours = np.asarray(snapshot.values.factor)[np.array(entries, np.int64)]
    tau, rho, overlap = agreement_of(np.array(scheduler_values), np.asarray(ours, np.float64))
    numbers = {"kendall": tau, "spearman": rho, "top_overlap": overlap}
    defaults = {"snapshot": snapshot.snapshot_id, "compared": len(scheduler_values), **numbers}
    return Agreement.objects.update_or_create(scheduler=scheduler, at=at, defaults=defaults)[0]


def agreement_of(scheduler_values: F8, ours: F8) -> tuple[float | None, float | None, float | None]:
    """Agreement of two lists of values: tau-b and rho in [-1, 1], overlap in [0, 1].

    None where undefined: fewer than two values, or all values equal on one side. Kendall (1945), "The treatment of ties
    in ranking problems"; in O(n log n) after Knight (1966).
    """
    if len(scheduler_values) < 2:
        return None, None, None
    return _tau_b(scheduler_values, ours), _rho(scheduler_values, ours), _overlap(scheduler_values, ours)


def pairs_in_order(tau: float) -> int:
    """How many of 100 pairs have the same order, as people read tau: 50 · (1 + τ), exact where nothing ties."""
    return round(50 * (1 + tau))


def _tau_b(x: F8, y: F8) -> float | None:
    n_pairs = _pairs(np.array([len(x)]))
    ties_x, ties_y = (_pairs(np.unique(values, return_counts=True)[1]) for values in (x, y))
    both = _pairs(np.unique(np.stack([x, y], axis=1), axis=0, return_counts=True)[1])
    if n_pairs in (ties_x, ties_y):
        return None
    order = np.lexsort((y, x))
    discordant = _inversions(np.unique(y, return_inverse=True)[1][order])
    score = n_pairs - ties_x - ties_y + both - 2 * discordant
    return _bounded(score / math.sqrt((n_pairs - ties_x) * (n_pairs - ties_y)))


def _pairs(counts: npt.NDArray[np.int64]) -> int:
    return int((counts.astype(np.int64) * (counts.astype(np.int64) - 1) // 2).sum())


def _inversions(ranks: npt.NDArray[np.int64]) -> int:
    """Number of inversions, by merge sort: values of a left half that are larger than one of the right half."""
    n_inversions, width, ranks = 0, 1, ranks.copy()
    while width < len(ranks):
        for start in range(0, len(ranks) - width, 2 * width):
            left, right = ranks[start : start + width], ranks[start + width : start + 2 * width]
            n_inversions += int((len(left) - np.searchsorted(left, right, side="right")).sum())
            ranks[start : start + len(left) + len(right)] = np.sort(np.concatenate([left, right]), kind="stable")
        width *= 2
    return n_inversions


def _rho(x: F8, y: F8) -> float | None:
    a, b = _mean_ranks(x), _mean_ranks(y)
    a, b = a - a.mean(), b - b.mean()
    scale = math.sqrt(float((a * a).sum()) * float((b * b).sum()))
    return _bounded(float((a * b).sum()) / scale) if scale else None


def _mean_ranks(x: F8) -> F8:
    _values, index, counts = np.unique(x, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return ((2 * last - counts + 1) / 2)[index].astype(np.float64)


def _overlap(x: F8, y: F8) -> float:
    """Overlap of the first tenths of both orders; ties keep their order."""
    k = max(1, len(x) // 10)
    first = [set(np.argsort(-values, kind="stable")[:k].tolist()) for values in (x, y)]
    return len(first[0] & first[1]) / k


def _bounded(value: float) -> float:
    return max(-1.0, min(1.0, value))
