"""Usage of users and projects as the share tree sees it: faded by resource, and made one number."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from apps.engine.decay.functions import left_in_gridengine


@lru_cache(maxsize=256)
def decay_factor(age_s: float, half_life_s: float) -> float:
    """What Grid Engine leaves of usage: k^(age/60), k = 1 − 60·ln 2/half_life; ages ≥ 0 and half-lives in seconds.

    A half-life of 0 or less keeps everything, one below 60·ln 2 s leaves nothing. Source: apps.engine.decay.functions.
    """
    if age_s <= 0:
        return 1.0
    return float(left_in_gridengine(np.asarray(age_s, dtype=np.float64), half_life_s))


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
