"""How much of past usage counts: windows and weights by age."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from apps.engine.arrays import FloatArray
from apps.engine.errors import BadParameter

BUCKET_S = 3600
Aging = Literal["none", "exponential", "linear", "step"]


@dataclass(frozen=True)
class Window:
    """Length and aging of the usage that counts; all times in seconds.

    length_s: buckets younger than this count, None for all; `linear` needs it. half_life_s: for `exponential`.
    granularity_s and factor: for `step`, the weight falls to `factor` of itself every `granularity_s`.
    """

    length_s: float | None = None
    aging: Aging = "none"
    half_life_s: float | None = None
    granularity_s: float | None = None
    factor: float | None = None

    def __post_init__(self) -> None:
        if self.aging not in get_args(Aging):
            raise BadParameter(f"unknown aging {self.aging!r}; allowed are {', '.join(get_args(Aging))}", place="aging")
        for name in ("length_s", "half_life_s", "granularity_s"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise BadParameter(f"{value!r} is no duration; seconds > 0 are allowed", place=name)
        needs = {"linear": ("length_s",), "exponential": ("half_life_s",), "step": ("granularity_s", "factor")}
        for name in needs.get(self.aging, ()):
            if getattr(self, name) is None:
                raise BadParameter(f"aging {self.aging!r} needs it", place=name)
        if self.factor is not None and not 0 <= self.factor <= 1:
            raise BadParameter(f"{self.factor!r} is out of range; 0..1 is allowed", place="factor")


def weights(age_s: npt.ArrayLike, window: Window) -> FloatArray:
    """Weight 0..1 of usage of this age, shape of `age_s`, ages ≥ 0.

    none: 1. exponential: 2^(−age/half_life). linear: 1 − age/length. step: factor^floor(age/granularity).
    0 from the window's length on.
    """
    age = np.asarray(age_s, dtype=np.float64)
    if window.aging == "exponential" and window.half_life_s is not None:
        weight = np.exp2(-age / window.half_life_s)
    elif window.aging == "linear" and window.length_s is not None:
        weight = 1.0 - age / window.length_s
    elif window.aging == "step" and window.granularity_s is not None and window.factor is not None:
        weight = window.factor ** np.floor(age / window.granularity_s)
    else:
        weight = np.ones_like(age)
    if window.length_s is not None:
        weight = np.where(age < window.length_s, weight, 0.0)
    return np.asarray(weight, dtype=np.float64)


def bucket_weights(hour_start_s: npt.ArrayLike, as_of_s: float, window: Window) -> FloatArray:
    """Weight of the hourly buckets [h, h + 1 h) at `as_of_s`; both count from the same epoch.

    age = max(0, as_of − (h + 1 hour)); a bucket counts whole or not at all, and not when it begins at or after as_of.
    """
    start = np.asarray(hour_start_s, dtype=np.float64)
    age = np.maximum(0.0, as_of_s - (start + BUCKET_S))
    return np.asarray(np.where(start < as_of_s, weights(age, window), 0.0), dtype=np.float64)
