"""Windows of usage, and the weights of usage in them by its age."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from apps.engine.arrays import FloatArray
from apps.engine.calendar_resets import RESETS, longest_period_s, period_start_s, zone_of
from apps.engine.decay_functions import BUCKET_S, DecayFunction, get_decay_function
from apps.engine.errors import BadParameter
from apps.engine.parameters import Parameter

_BY_INSTANTS = ("pbs", "flux")  # decay functions with fixed instants


@dataclass(frozen=True)
class Window:
    """Length and decay of the usage that counts; times are in the unit of the name's suffix.

    length_s: buckets younger than this count, None for all. aging: the name of a decay function. parameters: its
    parameters by name, None for its default; those of other functions are left out. reset: when the calendar sets usage
    to zero, see `calendar_resets`; None for never. reset_zone: the zone of its midnights. Raises BadParameter for a
    parameter out of range, or a missing one.
    """

    length_s: float | None = None
    aging: str = "none"
    parameters: Mapping[str, Any] = field(default_factory=dict, hash=False)
    reset: str | None = None
    reset_zone: str = "UTC"
    # parameters of the decay function with defaults
    settings: dict[str, Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        function = get_decay_function(self.aging)
        for name in ("length_s", "half_life_s", "granularity_s"):
            value = self._given(name)
            if value is not None and not 0 < value < float("inf"):
                raise BadParameter(f"{value!r} is no duration; seconds > 0 are allowed", place=name)
        factor = self._given("factor")
        if factor is not None and not 0 <= factor <= 1:
            raise BadParameter(f"{factor!r} is out of range; 0..1 is allowed", place="factor")
        if self.reset is not None:
            if self.reset not in RESETS:
                raise BadParameter(f"{self.reset!r} isn't allowed; {', '.join(RESETS)} are", place="reset")
            zone_of(self.reset_zone)
        own = {parameter.name for parameter in function.parameters}
        settings = {parameter.name: self._read(parameter) for parameter in function.parameters}
        object.__setattr__(self, "settings", settings)
        object.__setattr__(self, "parameters", {name: v for name, v in self.parameters.items() if name in own})

    @classmethod
    def of(cls, aging: str = "none", length_s: float | None = None, **parameters: Any) -> Window:
        """Build a window with the parameters as keywords."""
        return cls(length_s, aging, parameters)

    @property
    def function(self) -> DecayFunction:
        return get_decay_function(self.aging)

    def _given(self, name: str) -> Any:
        return self.length_s if name == "length_s" else self.parameters.get(name)

    def _read(self, parameter: Parameter) -> Any:
        """The value of a parameter of the decay function, or its default."""
        value = self._given(parameter.name)
        if value is None and parameter.default is None:
            raise BadParameter(f"aging {self.aging!r} needs it", place=parameter.name)
        try:
            return parameter.read(parameter.default if value is None else value)
        except (ValueError, OverflowError):
            raise BadParameter(f"{value!r} isn't allowed; {parameter.allowed} is", place=parameter.name) from None

    @property
    def charges_by_period(self) -> bool:
        """Whether jobs are charged by their own times; see PeriodCharge."""
        return self.aging == "slurm" and bool(self.settings["calc_period_s"]) and self.length_s is None

    @property
    def reach_s(self) -> float | None:
        """Age from which on usage has weight 0; None for never."""
        of_reset = None if self.reset is None else longest_period_s(self.reset)
        ages = [age for age in (self.length_s, self.function.reach_s(self.settings), of_reset) if age is not None]
        return min(ages, default=None)

    @property
    def is_multiplicative(self) -> bool:
        """Whether ageing by some time multiplies any earlier usage by one common factor, within `length_s`."""
        return self.function.is_multiplicative and self.reset is None

    @property
    def depends_on_instant(self) -> bool:
        """Whether the weight of usage depends on the instant, not on its age alone."""
        return self.reset is not None or self.aging in _BY_INSTANTS

    def last_reset_s(self, as_of_s: float) -> float | None:
        """The last reset that has happened at `as_of_s`; None without resets. Slurm resets at its own ticks only."""
        if self.reset is None:
            return None
        if self.charges_by_period:
            period_s, phase_s = self.settings["calc_period_s"], self.settings["phase_s"]
            as_of_s = math.floor((as_of_s - phase_s) / period_s) * period_s + phase_s
        return period_start_s(as_of_s, self.reset, self.reset_zone)

    def begins_s(self, as_of_s: float) -> float | None:
        """When the usage that counts at `as_of_s` begins, by the window's reach and its resets; None if ever."""
        begins = [] if self.reach_s is None else [as_of_s - self.reach_s]
        reset_s = self.last_reset_s(as_of_s)
        return max(begins if reset_s is None else [*begins, reset_s], default=None)


def weights(age_s: npt.ArrayLike, window: Window, as_of_s: float = 0.0) -> FloatArray:
    """Weight 0..1 at `as_of_s` of usage of this age (≥ 0), in the shape of `age_s`; 0 beyond the window's length.

    as_of_s is in seconds since 1970-01-01 00:00 UTC, for decay functions with fixed instants and for resets. Usage that
    ended at a reset or before it has weight 0.
    """
    age = np.asarray(age_s, dtype=np.float64)
    weight = window.function.weigh(age, as_of_s, window.settings)
    if window.length_s is not None:
        weight = np.where(age < window.length_s, weight, 0.0)
    reset_s = window.last_reset_s(as_of_s)
    if reset_s is not None:
        weight = np.where(as_of_s - age > reset_s, weight, 0.0)
    return np.asarray(weight, dtype=np.float64)


def bucket_weights(hour_start_s: npt.ArrayLike, as_of_s: float, window: Window) -> FloatArray:
    """Weight of the hourly buckets [h, h + 1 h) at `as_of_s`; both in seconds since 1970-01-01 00:00 UTC.

    age = max(0, as_of − (h + 1 hour)). A bucket counts completely or not at all; it doesn't count if it begins at or
    after as_of. Some functions also decay within the hour (`hour_factor`).
    """
    start = np.asarray(hour_start_s, dtype=np.float64)
    age = np.maximum(0.0, as_of_s - (start + BUCKET_S))
    weight = np.where(start < as_of_s, weights(age, window, as_of_s), 0.0)
    factor = window.function.hour_factor(window.settings)
    return np.asarray(weight if factor == 1.0 else weight * factor, dtype=np.float64)
