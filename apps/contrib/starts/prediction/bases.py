"""What a promise is made of, and which of it: the base is chosen by how short its bounds were while they held.

It is chosen each day, and before midnight whenever the record has doubled since the last choice: on the first day of a
cluster with hundreds of jobs a plan loses a sixth less than recent waits, while later a day changes little.

Every base has offsets of its own, so that each keeps its word; a good one only keeps it with shorter bounds. Of two
bases the better one has the smaller pinball loss of log(wait + SHIFT), summed over the levels, of jobs that started in
the last DAYS days, each weighted by 1/√burst. Losses are compared with those of CONSTANT on the same jobs, since some
bases offer nothing for some jobs. Equal records give equal choices: nothing is drawn at random.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from apps.contrib.starts.prediction.calibration import SHIFT_S
from apps.contrib.starts.prediction.promises import LEVELS, Kind
from apps.contrib.starts.prediction.recent_waits import CONSTANT, RECENT

PLAN, SCHEDULER, TREES = "plan", "scheduler", "trees"
RECORDS = "records"  # recent waits in the records of a usage source, without any queue
RECORD_DAYS = 14
LEAST_OF_RECORD = 30.0  # of a base: weight of jobs that started; below, it isn't chosen
LEAST_TO_RANK_EARLY = 60.0  # of a kind of promise, since the last choice; below, the choice waits for the next day
_DAY_S = 86_400.0
Bounds = tuple[float, ...]
Offers = tuple[tuple[str, Bounds], ...]  # by base, seconds at LEVELS


def log_pinball(bounds_s: Bounds, wait_s: float) -> float:
    """Loss of bounds at LEVELS, summed: 0 or more."""
    log_wait, total = math.log(wait_s + SHIFT_S), 0.0
    for level, bound_s in zip(LEVELS, bounds_s, strict=True):
        error = log_wait - math.log(bound_s + SHIFT_S)
        total += max(level * error, (level - 1) * error)
    return total


def is_learned(basis: str, offers: Iterable[tuple[str, object]]) -> bool:
    """Whether bounds rest on what was seen: only CONSTANT is offered until LEAST_FOR_QUANTILES waits are known."""
    return basis != CONSTANT or any(base == RECENT for base, _bounds in offers)


@dataclass(slots=True)
class BaseRecord:
    """How good each base was, by kind of promise and day, and which one is best now.

    losses: by kind, day (since 1970) and base the weighted sum of losses beyond those of CONSTANT, and of weights.
    weights: by kind, of the jobs in the record; ranked: the same when the bases were ranked last.
    """

    losses: dict[tuple[Kind, int, str], tuple[float, float]] = field(default_factory=dict)
    ranks: dict[Kind, tuple[str, ...]] = field(default_factory=dict)
    day: int = 0
    weights: dict[Kind, float] = field(default_factory=dict)
    ranked: dict[Kind, float] = field(default_factory=dict)

    def count(self, kind: Kind, offers: Offers, *, left_s: float, wait_s: float, weight: float) -> None:
        """Count a job that started. wait_s: from the promise on; weight: above 0."""
        losses = {base: log_pinball(bounds, wait_s) for base, bounds in offers}
        if CONSTANT not in losses:
            return
        day = int(left_s // _DAY_S)
        self.weights[kind] = self.weights.get(kind, 0.0) + weight
        for base, loss in losses.items():
            total, weights = self.losses.get((kind, day, base), (0.0, 0.0))
            self.losses[kind, day, base] = total + weight * (loss - losses[CONSTANT]), weights + weight

    def best(self, kind: Kind, bases: Iterable[str]) -> str:
        """The best of some bases, by the record of the last ranking."""
        offered = set(bases)
        return next(base for base in (*self.ranks.get(kind, ()), RECENT, CONSTANT) if base in offered)

    def turn(self, made_s: float) -> None:
        """Rank the bases if the instant is of a new day, or the record of a kind has doubled. What is promised at the
        instant is still by the old ranks.
        """
        day = int(made_s // _DAY_S)
        if day > self.day or any(self._has_doubled(kind) for kind in Kind):
            self._rank(max(day, self.day))

    def _has_doubled(self, kind: Kind) -> bool:
        ranked = self.ranked.get(kind, 0.0)
        return self.weights.get(kind, 0.0) - ranked >= max(ranked, LEAST_TO_RANK_EARLY)

    def _rank(self, day: int) -> None:
        self.day = day
        self.losses = {key: sums for key, sums in self.losses.items() if key[1] >= day - RECORD_DAYS}
        for kind in Kind:
            totals: dict[str, tuple[float, float]] = {}
            for (of_kind, _day, base), (loss, weight) in sorted(self.losses.items()):
                if of_kind is kind:
                    before = totals.get(base, (0.0, 0.0))
                    totals[base] = before[0] + loss, before[1] + weight
            means = {base: loss / weight for base, (loss, weight) in totals.items() if weight >= LEAST_OF_RECORD}
            self.ranks[kind] = tuple(sorted(means, key=lambda base: (means[base], base)))
            self.weights[kind] = self.ranked[kind] = totals.get(CONSTANT, (0.0, 0.0))[1]


def same_at_all_levels(planned_s: Mapping[str, float]) -> dict[str, Bounds]:
    """Planned starts as bases: one number of seconds for each level; those that never come are left out."""
    return {base: (max(at_s, 0.0),) * len(LEVELS) for base, at_s in planned_s.items() if at_s < math.inf}
