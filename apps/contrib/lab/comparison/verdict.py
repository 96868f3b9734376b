"""Which of several replayed settings is better: the one rule of advice and lab. Pure; the numbers decide.

Another setting must be nearer to fair use on the first days, by NEARER_PERCENT, by FEWEST_POINTS, by the error of the
replay of history, by the typical job in points of seven days' usage, and by more than twice the standard error of the
replays; and nearer on the held-back days, too.
Where candidates don't differ on the first days, the first half of the held-back days chooses, and their second half
must confirm it by the same margins. It must have the properties that the current one has. Of half-lives that are as
near as the nearest, the closest to the current one is chosen. Where the held-back days contradict the first ones,
nothing is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log2, sqrt
from statistics import fmean, stdev
from typing import Any, Literal, Protocol

NEARER_PERCENT = 5.0  # of the distance with the current settings
FEWEST_POINTS = 0.5  # of distance from fair use: less is not worth a change
ERRORS = 2.0  # standard errors of the replays


@dataclass(frozen=True, slots=True)
class ReplayFacts:
    """Own jobs replayed with other settings: distances from fair use in points, one of each replay.

    value: the settings of the algorithm or operator, or the half-life in seconds; None where usage has no half-life.
    held_back: of the last days, late and latest: of their first and their second half. refused: why the algorithm
    doesn't fit the tree.
    """

    name: str
    value: Any
    is_now: bool
    training: tuple[float, ...]
    held_back: tuple[float, ...]
    late: tuple[float, ...]
    latest: tuple[float, ...]
    is_isolated: bool = True
    is_proportional: bool = True
    has_boundaries: bool = True
    refused: str = ""


def read_facts(data: Mapping[str, Any]) -> ReplayFacts:
    """Of stored JSON. Raises TypeError for other fields."""
    return ReplayFacts(**{**data, **{name: tuple(data[name]) for name in ("training", "held_back", "late", "latest")}})


@dataclass(frozen=True, slots=True)
class Decision:
    """What the replays say about one setting. nearest: the candidate that is talked about; `now` where none is nearer.

    basis: `keep`; `first`: chosen on the first days, confirmed by the held-back ones; `last`: no difference on the
    first days, chosen on the first half of the held-back ones and confirmed by the second; `contradicted`: the first
    days and the held-back ones disagree, so that `chosen` is `now`.
    """

    now: ReplayFacts
    nearest: ReplayFacts
    chosen: ReplayFacts
    basis: Literal["keep", "first", "last", "contradicted"]

    @property
    def is_change(self) -> bool:
        return self.chosen is not self.now


class Replayed(Protocol):
    """What was replayed: the numbers of days, and how far the replay of history is from history."""

    @property
    def n_training_days(self) -> int: ...
    @property
    def n_held_back_days(self) -> int: ...
    @property
    def model_error_points(self) -> float | None: ...
    @property
    def job_points(self) -> float: ...
    @property
    def wait_s(self) -> float | None: ...
    @property
    def model_wait_s(self) -> float | None: ...


def decide(facts: Sequence[ReplayFacts], replayed: Replayed) -> Decision | None:
    """Choose among replayed candidates; None where the current one was not replayed."""
    now = next((each for each in facts if each.is_now), None)
    if now is None:
        return None
    margin = max(FEWEST_POINTS, replayed.model_error_points or 0.0, replayed.job_points)
    others = [each for each in facts if each.training and each is not now and keeps_properties(now, each)]
    if not now.training or not others:
        return Decision(now, now, now, "keep")
    first = [each for each in others if is_nearer(now.training, each.training, margin)]
    if first:
        nearest = _nearest(now, first, lambda each: each.training, margin)
        confirms = fmean(nearest.held_back) < fmean(now.held_back)
        return Decision(now, nearest, nearest if confirms else now, "first" if confirms else "contradicted")
    late = [each for each in others if is_nearer(now.late, each.late, margin)]
    undecided = [each for each in late if not is_nearer(each.training, now.training, margin)]
    confirmed = [each for each in undecided if is_nearer(now.latest, each.latest, margin)]
    if confirmed:
        nearest = _nearest(now, confirmed, lambda each: each.late, margin)
        return Decision(now, nearest, nearest, "last")
    held_back = [each for each in others if is_nearer(now.held_back, each.held_back, margin)]
    if held_back:
        return Decision(now, _nearest(now, held_back, lambda each: each.held_back, margin), now, "contradicted")
    return Decision(now, now, now, "keep")


def _nearest(
    now: ReplayFacts, better: Sequence[ReplayFacts], part: Callable[[ReplayFacts], Sequence[float]], margin: float
) -> ReplayFacts:
    """The nearest; of half-lives the closest to the current one among those that are no farther by the margin."""
    nearest = min(better, key=lambda each: fmean(part(each)))
    if not isinstance(nearest.value, int | float):
        return nearest
    bound = fmean(part(nearest)) + margin
    alike = [each for each in better if fmean(part(each)) <= bound]
    return min(alike, key=lambda each: _octaves(each, now))


def _octaves(each: ReplayFacts, now: ReplayFacts) -> float:
    """Between two half-lives; without a current one, the longer the closer."""
    if not now.value:
        return -float(each.value)
    return abs(log2(float(each.value) / float(now.value)))


def keeps_properties(now: ReplayFacts, other: ReplayFacts) -> bool:
    """Whether the other one has all properties of the current one."""
    return (
        other.is_isolated >= now.is_isolated
        and other.is_proportional >= now.is_proportional
        and other.has_boundaries >= now.has_boundaries
    )


def is_nearer(now: Sequence[float], other: Sequence[float], margin: float) -> bool:
    """By both margins, and by more than twice the standard error of the paired replays."""
    if not now or not other:
        return False
    gains = [before - after for before, after in zip(now, other, strict=True)]
    gain = fmean(gains)
    error = stdev(gains) / sqrt(len(gains)) if len(gains) > 1 else 0.0
    return gain * 100 >= NEARER_PERCENT * fmean(now) and gain >= margin and gain > ERRORS * error
