"""Windows of usage, and the weights of usage in them by its age."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from apps.engine.arrays import FloatArray
from apps.engine.decay_functions import BUCKET_S, DecayFunction, get_decay_function
from apps.engine.errors import BadParameter
from apps.engine.parameters import Parameter


@dataclass(frozen=True)
class Window:
    """Length and decay of the usage that counts; times are in the unit of the name's suffix.

    length_s: buckets younger than this count, None for all. aging: the name of a decay function. parameters: its
    parameters by name, None for its default; those of other functions are left out. Raises BadParameter for a parameter
    out of range, or a missing one.
    """

    length_s: float | None = None
    aging: str = "none"
    parameters: Mapping[str, Any] = field(default_factory=dict, hash=False)
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
        ages = [reach for reach in (self.length_s, self.function.reach_s(self.settings)) if reach is not None]
        return min(ages, default=None)


def weights(age_s: npt.ArrayLike, window: Window, as_of_s: float = 0.0) -> FloatArray:
    """Weight 0..1 at `as_of_s` of usage of this age (≥ 0), in the shape of `age_s`; 0 beyond the window's length.

    as_of_s is in seconds since 1970-01-01 00:00 UTC, for decay functions with fixed instants.
    """
    age = np.asarray(age_s, dtype=np.float64)
    weight = window.function.weigh(age, as_of_s, window.settings)
    if window.length_s is not None:
        weight = np.where(age < window.length_s, weight, 0.0)
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
