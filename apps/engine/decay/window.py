"""Weight of past usage: a window of some length, and a decay function within it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from apps.engine.arrays import FloatArray
from apps.engine.decay.functions import DECAY_FUNCTIONS, DecayFunction
from apps.engine.errors import BadParameter

BUCKET_S = 3600
Aging = Literal["none", "exponential", "linear", "step", "slurm", "gridengine", "lsf", "pbs", "flux"]
AGINGS: tuple[Aging, ...] = get_args(Aging)


@dataclass(frozen=True)
class Window:
    """Length and aging of the usage that counts; times in the unit that their names end with.

    length_s: buckets younger than this count, None for all. aging: the name of a decay function; the others are its
    parameters, None for its default. Raises BadParameter for a parameter out of range, or a missing one.
    """

    length_s: float | None = None
    aging: Aging = "none"
    half_life_s: float | None = None
    granularity_s: float | None = None
    factor: float | None = None
    halftime_h: float | None = None
    hist_hours: float | None = None
    decay_time_s: float | None = None
    decay_factor: float | None = None
    periods: int | None = None
    phase_s: float | None = None
    settings: dict[str, Any] = field(init=False, repr=False, compare=False)  # of the decay function, defaults filled in

    def __post_init__(self) -> None:
        if self.aging not in DECAY_FUNCTIONS:
            raise BadParameter(f"unknown aging {self.aging!r}; allowed are {', '.join(DECAY_FUNCTIONS)}", place="aging")
        for name in ("length_s", "half_life_s", "granularity_s"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise BadParameter(f"{value!r} is no duration; seconds > 0 are allowed", place=name)
        if self.factor is not None and not 0 <= self.factor <= 1:
            raise BadParameter(f"{self.factor!r} is out of range; 0..1 is allowed", place="factor")
        object.__setattr__(self, "settings", self._read_settings())

    @property
    def law(self) -> DecayFunction:
        return DECAY_FUNCTIONS[self.aging]

    def _read_settings(self) -> dict[str, Any]:
        read: dict[str, Any] = {}
        for parameter in self.law.parameters:
            value = getattr(self, parameter.name)
            if value is None and parameter.default is None:
                raise BadParameter(f"aging {self.aging!r} needs it", place=parameter.name)
            try:
                read[parameter.name] = parameter.read(parameter.default if value is None else value)
            except (ValueError, OverflowError):
                raise BadParameter(f"{value!r} isn't allowed; {parameter.allowed} is", place=parameter.name) from None
        return read

    @property
    def reach_s(self) -> float | None:
        """Age from which on nothing counts, None for never."""
        found = [reach for reach in (self.length_s, self.law.reach_s(self.settings)) if reach is not None]
        return min(found, default=None)


def weights(age_s: npt.ArrayLike, window: Window, as_of_s: float = 0.0) -> FloatArray:
    """Weight 0..1 at `as_of_s` of usage of this age, shape of `age_s`, ages ≥ 0; 0 from the window's length on.

    as_of_s counts since 1970-01-01 00:00 UTC; decay functions with fixed instants need it.
    """
    age = np.asarray(age_s, dtype=np.float64)
    weight = window.law.weigh(age, as_of_s, window.settings)
    if window.length_s is not None:
        weight = np.where(age < window.length_s, weight, 0.0)
    return np.asarray(weight, dtype=np.float64)


def bucket_weights(hour_start_s: npt.ArrayLike, as_of_s: float, window: Window) -> FloatArray:
    """Weight of the hourly buckets [h, h + 1 h) at `as_of_s`; both count since 1970-01-01 00:00 UTC.

    age = max(0, as_of − (h + 1 hour)); a bucket counts whole or not at all, and not when it begins at or after as_of.
    """
    start = np.asarray(hour_start_s, dtype=np.float64)
    age = np.maximum(0.0, as_of_s - (start + BUCKET_S))
    return np.asarray(np.where(start < as_of_s, weights(age, window, as_of_s), 0.0), dtype=np.float64)
