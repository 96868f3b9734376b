"""Offsets that make promises hold as often as they say, whatever their base is, learned from settled promises alone.

A bound at level q for a job with features x₁ … xₙ (its size, its length, both, its user, and one that all have):

    log(bound + SHIFT) = log(base + SHIFT) + Σ θ[q, xᵢ]

When the promise is settled, each of its offsets moves by

    θ[q, xᵢ] += step / (n · burst^together · (1 + CALM · step · open)) · ((1 if broken else 0) − (1 − q))

burst: promises of the user within the hour so far, which hold or break together. open: promises of this kind and level
that aren't settled yet. What is learned acts on promises that settle only after those, and a step that doesn't shrink
with them swings: on a steady machine with fifty open promises, 21 % of those of 50 % held.

Of 95 % one of twenty breaks, and when a long queue moves, all of a burst do. So of those made later a burst counts once
(TOGETHER): on the first two thirds of three logs 93.8, 91.8 and 93.8 % of bursts held instead of 90.5, 92.0 and 93.8 %,
and their bounds lost as much, 6 % and 3 % less.

So a promise that is broken too often grows, and one that is kept too often shrinks, until exactly 1 − q of them break.
Base and load of the machine don't matter for that (Gibbs and Candès, Adaptive conformal inference, 2021), only for how
short the bounds are.

A kept promise of FLOOR_S teaches nothing, because no shorter one could have been made; neither does a withdrawn one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from apps.contrib.starts.prediction.promises import CEILING_S, FLOOR_S, LEVELS, Kind, Outcome, Promise, WaitingJob

SHIFT_S = 300.0  # below it a difference doesn't matter to anybody
STEP = {Kind.SUBMIT: 0.48, Kind.WAITING: 0.18}
CALM = 0.1
TOGETHER = {Kind.SUBMIT: (0.5, 0.5, 0.5), Kind.WAITING: (0.5, 0.5, 1.0)}  # at LEVELS; 1: a burst counts once
_MOST_LOG = 20.0  # of a bound in seconds: beyond every ceiling, within the range of a double
_USER = "user"
Feature = tuple[str, ...]


def features(job: WaitingJob, kind: Kind) -> tuple[Feature, ...]:
    """What a promise has in common with others; the first one all promises of this kind have."""
    size, length = str(job.size), str(job.length)
    return (kind,), (kind, "size", size), (kind, "length", length), (kind, size, length), (kind, _USER, job.user)


@dataclass(slots=True)
class Calibration:
    """Offsets of one scheduler. The state is a function of the settled promises in their order, and of nothing else."""

    offsets: list[dict[Feature, float]] = field(default_factory=lambda: [{} for _level in LEVELS])

    def bounds_s(self, job: WaitingJob, kind: Kind, base_s: tuple[float, ...]) -> tuple[float, ...]:
        """Bounds at LEVELS, rising; base_s: one number a level, in seconds, 0 or more."""
        named = features(job, kind)
        bounds = sorted(
            math.exp(min(math.log(base + SHIFT_S) + sum(of_level.get(each, 0.0) for each in named), _MOST_LOG))
            - SHIFT_S
            for base, of_level in zip(base_s, self.offsets, strict=True)
        )
        return tuple(min(max(bound, FLOOR_S), CEILING_S) for bound in bounds)

    def learn(self, promise: Promise, level: int, outcome: Outcome, *, n_of_burst: int, n_open: int) -> None:
        """Learn from one settled promise. n_of_burst: promises of its burst, this one included, at least 1.

        n_open: other promises of its kind and level that aren't settled.
        """
        if outcome is Outcome.WITHDRAWN:
            return
        if outcome is Outcome.KEPT and promise.bounds_s[level] <= FLOOR_S:
            return
        named = features(promise.job, promise.kind)
        error = float(outcome is Outcome.BROKEN) - (1 - LEVELS[level])
        step = STEP[promise.kind]
        n_counted = n_of_burst ** TOGETHER[promise.kind][level]
        move = step / (len(named) * n_counted * (1 + CALM * step * n_open)) * error
        for feature in named:
            self.offsets[level][feature] = self.offsets[level].get(feature, 0.0) + move

    def rename_users(self, names: Mapping[str, str]) -> None:
        """Learn nothing, and know some users by other names."""
        for offsets in self.offsets:
            for feature in [each for each in offsets if each[1:2] == (_USER,) and each[2] in names]:
                kind, user, name = feature
                offsets[kind, user, names[name]] = offsets.pop(feature)


def entries(calibration: Calibration) -> Iterator[tuple[int, Feature, float]]:
    """Level, feature and offset of all that was learned, in a fixed order."""
    for level, offsets in enumerate(calibration.offsets):
        for feature, offset in sorted(offsets.items()):
            yield level, feature, offset
