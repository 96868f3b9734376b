"""What users of a Slurm do in two hours, drawn from a seed: jobs of many kinds, and what disturbs them."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from typing import NamedTuple

SIZES, OF_SIZES = (1, 2, 4, 8, 16), (30, 20, 20, 20, 10)  # cores, and how many jobs of 100
LIMITS_MIN, OF_LIMITS = (1, 2, 4, 8), (25, 30, 25, 20)
FAILS_EARLY, REACHES_LIMIT = 0.2, 0.2  # shares of the jobs; the others run from a fifth to nine tenths of their limits
LOAD, SWING, SWING_S = 1.15, 0.5, 1_500.0  # of the cores, on average, and how far it goes up and down
SUBMITS_UNTIL, DRAINED, BACK = 0.80, 0.50, 0.62  # parts of the whole time
LARGEST_ARRAY, LARGEST_BURST = 6, 8
_DISTURBED_EVERY_S = 150.0


class Step(NamedTuple):
    """Something that is done at an instant, in seconds from the beginning.

    action: "submit", "hold", "release", "cancel", "alter", "requeue", "drain" or "resume". Those of waiting or running
    jobs take the one at `place`, a part of those that there are then.
    """

    at_s: float
    action: str
    user: str = ""
    options: tuple[str, ...] = ()
    seconds: float = 0.0
    cpus: int = 1
    place: float = 0.0


def mix(seed: int, whole_s: float, cores: int, groups: Mapping[str, str]) -> list[Step]:
    """Steps in the order of time; equal seeds give equal steps. groups: account by user."""
    rng = random.Random(seed)
    steps = [*_submissions(rng, whole_s, cores, sorted(groups)), *_disturbances(rng, whole_s)]
    steps += [Step(whole_s * DRAINED, "drain"), Step(whole_s * BACK, "resume")]
    return sorted(steps)


def _submissions(rng: random.Random, whole_s: float, cores: int, users: list[str]) -> Iterator[Step]:
    at_s, mean_cpu_s = 0.0, _mean_cpu_s()
    weights = [1 + len(users) - place for place in range(len(users))]
    while True:
        load = LOAD + SWING * math.sin(2 * math.pi * at_s / SWING_S)
        n_jobs = 1
        options: tuple[str, ...] = ()
        kind = rng.random()
        if kind < 0.06:
            n_jobs = rng.randint(2, LARGEST_ARRAY)
            options = (f"--array=0-{n_jobs - 1}%{rng.randint(1, n_jobs)}",)
        elif kind < 0.12:
            n_jobs = rng.randint(3, LARGEST_BURST)
        elif kind < 0.15:
            options = (f"--begin=now+{rng.randint(2, 8)}minutes",)
        elif kind < 0.18:
            options = ("--dependency=singleton", "--job-name=chain")
        at_s += rng.expovariate(load * cores / mean_cpu_s) * n_jobs
        if at_s > whole_s * SUBMITS_UNTIL:
            return
        user = rng.choices(users, weights)[0]
        for each in range(1 if any("--array" in option for option in options) else n_jobs):
            (cpus,), (limit_min,) = rng.choices(SIZES, OF_SIZES), rng.choices(LIMITS_MIN, OF_LIMITS)
            seconds = round(limit_min * 60 * _part_of_limit(rng))
            yield Step(at_s + each, "submit", user, (f"--time={limit_min}", *options), seconds, cpus)


def _part_of_limit(rng: random.Random) -> float:
    kind = rng.random()
    if kind < FAILS_EARLY:
        return rng.uniform(0.02, 0.1)
    return 2.0 if kind > 1 - REACHES_LIMIT else rng.uniform(0.2, 0.9)


def _mean_cpu_s() -> float:
    cpus = sum(size * n for size, n in zip(SIZES, OF_SIZES, strict=True)) / sum(OF_SIZES)
    limit_s = 60 * sum(limit * n for limit, n in zip(LIMITS_MIN, OF_LIMITS, strict=True)) / sum(OF_LIMITS)
    part = FAILS_EARLY * 0.06 + REACHES_LIMIT + (1 - FAILS_EARLY - REACHES_LIMIT) * 0.55
    return cpus * limit_s * part


def _disturbances(rng: random.Random, whole_s: float) -> Iterator[Step]:
    at_s = _DISTURBED_EVERY_S
    while at_s < whole_s * SUBMITS_UNTIL:
        action = rng.choice(("hold", "cancel", "alter", "requeue"))
        yield Step(at_s, action, place=rng.random())
        if action == "hold":
            yield Step(at_s + rng.uniform(120, 420), "release")
        at_s += _DISTURBED_EVERY_S * rng.uniform(0.5, 1.5)
