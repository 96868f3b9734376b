"""How Grid Engine forgets usage: a step a minute, a trifle more than half after one half-life."""

from __future__ import annotations

import math
from collections.abc import Mapping

STEP_S = 60.0


def decay_factor(age_s: float, half_life_s: float) -> float:
    """What is left of usage: k^(age/60), k = 1 − 60·ln 2/half_life; ages ≥ 0 and half-lives in seconds.

    The line through one minute stands for the exponential, so that 0.49992 is left after a half-life of 24 h. A
    half-life of 0 or less keeps everything; one below 60·ln 2 s leaves nothing. Source: Grid Engine 8.1.9, measured.
    """
    if half_life_s <= 0 or age_s <= 0:
        return 1.0
    k = max(1.0 - STEP_S * math.log(2.0) / half_life_s, 0.0)
    return math.pow(k, age_s / STEP_S)


def decayed(
    usage: Mapping[str, float], age_s: float, halftime_h: float, half_lives_min: Mapping[str, float]
) -> dict[str, float]:
    """Usage by resource after `age_s` seconds: half-lives in minutes where listed, else the halftime in hours."""
    return {
        name: amount * decay_factor(age_s, half_lives_min[name] * 60 if name in half_lives_min else halftime_h * 3600)
        for name, amount in usage.items()
    }


def combined(usage: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """One number from usage by resource: Σ w·usage / Σ w; 0 where the weights sum to 0."""
    total = math.fsum(weights.values())
    if total <= 0:
        return 0.0
    return sum(amount * (weights[name] / total) for name, amount in usage.items() if name in weights)
