"""The position of an entry among all ranked leaves, in words and as good or not: the first thing that is said of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from apps.priorities.serving.served_snapshot import ServedSnapshot

NEAR_FRONT = 0.1  # fraction of all ranks ahead up to which an entry is near the front
Band = Literal["only", "near", "ahead", "middle", "behind"]


@dataclass(frozen=True, slots=True)
class RankPosition:
    """A rank among `of`, itself included. n_behind: leaves with a worse rank; the others tie or are ahead."""

    rank: int
    of: int
    n_behind: int

    @property
    def n_ahead(self) -> int:
        return self.rank - 1

    @property
    def band(self) -> Band:
        """near: at most a tenth is ahead; ahead: of the first third, and most are behind; behind: of the last third."""
        if self.of == 1:
            return "only"
        if self.n_ahead <= NEAR_FRONT * self.of:
            return "near"
        if 3 * self.rank <= self.of and 2 * self.n_behind > self.of - 1:
            return "ahead"
        return "middle" if 3 * self.rank <= 2 * self.of else "behind"

    @property
    def is_good(self) -> bool:
        """Whether the rank is explained by who is behind, instead of by who is ahead."""
        return self.band in ("only", "near", "ahead") or (self.band == "middle" and self.n_ahead <= self.n_behind)


def standing_at(snapshot: ServedSnapshot, rank: int, of: int) -> RankPosition:
    ranks = snapshot.values.rank[snapshot.values.is_ranked]
    return RankPosition(rank, of, int((ranks > rank).sum()))


def standing_of(snapshot: ServedSnapshot, entry: int) -> RankPosition | None:
    """The standing of an entry as look-ups serve it; None for an entry without a rank."""
    (served,) = snapshot.describe(np.array([entry]))
    return None if served["rank"] is None else standing_at(snapshot, served["rank"], served["of"])
