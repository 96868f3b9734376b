"""How often promises held: by promise and by burst, above the floor, by group and by month; and how short they were."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from apps.contrib.starts.prediction.calibration import SHIFT_S
from apps.contrib.starts.prediction.predictor import PastPromise
from apps.contrib.starts.prediction.promises import FLOOR_S, LEVELS, Outcome

K = TypeVar("K")
MONTH_S = 30 * 86_400.0


class Held(NamedTuple):
    """kept of n promises that were kept or broken; withdrawn ones apart. share: None without any."""

    kept: float
    n: float
    withdrawn: int

    @property
    def share(self) -> float | None:
        return self.kept / self.n if self.n else None


def held(settled: Iterable[PastPromise], level: int) -> Held:
    """By promise."""
    outcomes = [each.outcomes[level] for each in settled]
    kept, broken = outcomes.count(Outcome.KEPT), outcomes.count(Outcome.BROKEN)
    return Held(kept, kept + broken, outcomes.count(Outcome.WITHDRAWN))


def held_by_burst(settled: Iterable[PastPromise], level: int) -> Held:
    """Each burst counts once, with the share of its promises that held."""
    bursts: defaultdict[object, list[bool]] = defaultdict(list)
    n_withdrawn = 0
    for each in settled:
        if each.outcomes[level] is Outcome.WITHDRAWN:
            n_withdrawn += 1
        else:
            bursts[each.promise.burst].append(each.outcomes[level] is Outcome.KEPT)
    return Held(sum(sum(kept) / len(kept) for kept in bursts.values()), len(bursts), n_withdrawn)


def above_floor(settled: Iterable[PastPromise], level: int) -> list[PastPromise]:
    """Promises that say more than "within 5 minutes": those of the floor hide the others."""
    return [each for each in settled if each.promise.bounds_s[level] > FLOOR_S]


def by_group(settled: Iterable[PastPromise], key: Callable[[PastPromise], K]) -> dict[K, list[PastPromise]]:
    groups: dict[K, list[PastPromise]] = {}
    for each in settled:
        groups.setdefault(key(each), []).append(each)
    return groups


def pinball(settled: Sequence[PastPromise], level: int) -> float:
    """Mean loss of log(bound + SHIFT) as a quantile of log(wait + SHIFT): the smaller, the shorter bounds that hold."""
    q = LEVELS[level]
    errors = np.array(
        [
            math.log(each.wait_s + SHIFT_S) - math.log(each.promise.bounds_s[level] + SHIFT_S)
            for each in settled
            if each.outcomes[level] is not Outcome.WITHDRAWN
        ]
    )
    return float(np.maximum(q * errors, (q - 1) * errors).mean()) if len(errors) else math.nan
