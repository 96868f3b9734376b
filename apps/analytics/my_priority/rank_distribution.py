"""Where one's own account is among all that are ranked: bins of the factor, none of which is about few people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

import numpy as np
import numpy.typing as npt
from django.conf import settings

from apps.accounts.actor import Actor
from apps.analytics.my_priority.rank_history import get_own_entry
from apps.analytics.my_priority.records import N_BINS, Bin, MyPlace
from apps.engine.algorithms.inputs import prepare
from apps.engine.codecs import factor_from_key
from apps.priorities.serving.lookup_index import ServedSnapshot

F8 = npt.NDArray[np.float64]


def get_my_place(*, policy_slug: str, entry_uid: UUID, actor: Actor, at: datetime) -> MyPlace:
    """Of the actor's account that has this entry; NotFound where there is none."""
    mine = get_own_entry(policy_slug=policy_slug, entry_uid=entry_uid, actor=actor, at=at)
    snapshot, entry = mine.snapshot, mine.entry
    values = snapshot.values
    ranked = values.has_rank & values.is_ranked
    has_rank = bool(ranked[entry])
    factor, is_from_key = factors_with_distance(snapshot)
    rank = int(values.rank[entry]) if has_rank else None
    own = float(factor[entry]) if has_rank else None
    smallest = int(settings.FAIRSHARE_SMALLEST_GROUP)
    return MyPlace(
        policy_slug=mine.policy.slug, policy_name=mine.policy.name, account=mine.account, as_of=snapshot.as_of,
        revision=snapshot.revision, rank=rank, of=int(ranked.sum()),
        n_same=int((values.rank[ranked] == rank).sum()) - 1 if has_rank else 0,
        factor=own, is_from_key=is_from_key, smallest=smallest,
        bins=() if own is None else bins_of(factor[ranked], own, smallest=smallest),
    )  # fmt: skip


def factors_with_distance(snapshot: ServedSnapshot) -> tuple[F8, bool]:
    """Factors 0..1 of all entries, and whether they are those of the vectors' keys instead of the policy's own."""
    algorithm, values = snapshot.algorithm, snapshot.values
    if algorithm["name"] != "aequus" or algorithm.get("factor_from") != "rank":
        return values.factor, False
    prepared = prepare(snapshot.tree.engine_tree())
    scalar = (values.scalar if prepared.is_whole else values.scalar[prepared.entry]).astype(np.int64)
    found = factor_from_key(prepared.contest, scalar, prepared.depth, int(algorithm["resolution"]))
    return prepared.spread(found), True


def bins_of(factors: F8, own: float, *, smallest: int, n_bins: int = N_BINS) -> tuple[Bin, ...]:
    """Twentieths of 0..1; neighbours are one bin until at least `smallest` others are in it, or none is.

    factors: of all ranked leaves, one's own (`own`) among them. Empty where all others would be in one bin.
    """
    place = np.clip((factors * n_bins + 1e-9).astype(np.int64), 0, n_bins - 1)
    others = np.bincount(place, minlength=n_bins)
    mine = min(max(int(own * n_bins + 1e-9), 0), n_bins - 1)
    others[mine] -= 1
    if others.sum() < smallest:
        return ()
    found = tuple(
        Bin(first / n_bins, end / n_bins, int(others[first:end].sum()) + (first <= mine < end), first <= mine < end)
        for first, end in _joined(others.tolist(), smallest)
    )
    return found if sum(one.n > one.is_mine for one in found) > 1 else ()


def _joined(others: Sequence[int], smallest: int) -> list[tuple[int, int]]:
    """Runs of bins, each empty or with enough in it; the rest at the end joins the last run with people."""
    runs: list[tuple[int, int]] = []
    first, n = 0, 0
    for at, here in enumerate(others):
        n += here
        if n >= smallest or n == 0:
            runs.append((first, at + 1))
            first, n = at + 1, 0
    if n:
        while runs and not sum(others[runs[-1][0] : runs[-1][1]]):
            first = runs.pop()[0]
        first = runs.pop()[0]
        runs.append((first, len(others)))
    return runs
