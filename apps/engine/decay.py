"""Windows of usage and the registry of decay functions, among them those of common schedulers under their own names.

A decay function gives the weight 0..1 at an instant of usage, depending on when it was used. Most depend on its age
alone; those that decay all usage at fixed instants (`pbs`, `flux`) depend on how many of these instants have passed
since.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from apps.engine.arrays import FloatArray
from apps.engine.decay_function import DecayFunction, decay_functions_of_packages
from apps.engine.errors import BadParameter
from apps.engine.installed import Installed, rejection_note
from apps.engine.parameters import Parameter, Settings, integer, number

LONGEST_S = 200 * 365 * 86_400
BUCKET_S = 3600
_LONGEST_PERIOD_S = 30 * 86_400
# Slurm's approximation of ln 2.
SLURM_LN2 = 0.693


def _duration(name: str, label: str, default: int | None = None, least: float = 0.001) -> Parameter:
    plain = number(name, label, 0.0, least, LONGEST_S, unit="s")
    return Parameter(
        name,
        label,
        default,
        f"seconds from {least:g} to {LONGEST_S}",
        plain.read,
        minimum=least,
        maximum=LONGEST_S,
        unit="s",
    )


def _hours(name: str, label: str, default: float) -> Parameter:
    return number(name, label, default, 0, LONGEST_S / 3600, unit="h")


_PHASE = number("phase_s", "Start of a period, since 1970-01-01 00:00 UTC", 0, 0, LONGEST_S, unit="s")


def power_of_age(base: float, age: FloatArray) -> FloatArray:
    """base^age for a base of 0..1; 1 at age 0, whatever the base."""
    if base <= 0:
        return np.where(age > 0, 0.0, 1.0)
    with np.errstate(under="ignore"):
        weight: FloatArray = np.exp(age * math.log(base))
    return weight


def instants_passed(age_s: FloatArray, as_of_s: float, period_s: float, phase_s: float) -> FloatArray:
    """The number of instants phase + n · period from the end of the usage to `as_of_s`, both included.

    Usage ends where its bucket ends, so usage right before an instant is decayed at it.
    """
    ended = (as_of_s - phase_s - age_s) / period_s
    passed: FloatArray = np.maximum(0.0, math.floor((as_of_s - phase_s) / period_s) - np.ceil(ended) + 1.0)
    return passed


def left_in_gridengine(age_s: FloatArray, half_life_s: float) -> FloatArray:
    """k^(age / 60), k = 1 − 60 · ln 2 / half-life; 1 for a half-life ≤ 0."""
    if half_life_s <= 0:
        return np.ones_like(age_s)
    return power_of_age(1.0 - 60.0 * math.log(2.0) / half_life_s, age_s / 60.0)


def _exponential(age: FloatArray, as_of_s: float, settings: Settings) -> FloatArray:
    with np.errstate(under="ignore"):
        weight: FloatArray = np.exp2(-age / settings["half_life_s"])
    return weight


def _linear(age: FloatArray, as_of_s: float, settings: Settings) -> FloatArray:
    weight: FloatArray = np.maximum(0.0, 1.0 - age / settings["length_s"])
    return weight


def _step(age: FloatArray, as_of_s: float, settings: Settings) -> FloatArray:
    with np.errstate(under="ignore"):
        weight: FloatArray = settings["factor"] ** np.floor(age / settings["granularity_s"])
    return weight


def _slurm(age: FloatArray, as_of_s: float, settings: Settings) -> FloatArray:
    return power_of_age(1.0 - SLURM_LN2 / settings["half_life_s"], age)


def _slurm_hour(settings: Settings) -> float:
    """k^D · (1 − k^H) / (H / D · (1 − k^D)): the part of an hour of steady use that is left at its end.

    H is an hour, D the period of Slurm's calculations. Slurm charges a period at its end and decays all of it, so usage
    ages from the beginning of its period.
    """
    base, period_s = 1.0 - SLURM_LN2 / settings["half_life_s"], settings["calc_period_s"]
    if not period_s or base <= 0:
        return 1.0
    of_period, of_hour = -math.expm1(period_s * math.log(base)), -math.expm1(BUCKET_S * math.log(base))
    return float((1.0 - of_period) * of_hour * period_s / (BUCKET_S * of_period))


def _gridengine(age: FloatArray, as_of_s: float, settings: Settings) -> FloatArray:
    return left_in_gridengine(age, settings["halftime_h"] * 3600.0)


def _lsf(age: FloatArray, as_of_s: float, settings: Settings) -> FloatArray:
    if settings["hist_hours"] == 0:
        return np.ones_like(age)
    return power_of_age(0.1, age / (settings["hist_hours"] * 3600.0))


def _pbs(age: FloatArray, as_of_s: float, settings: Settings) -> FloatArray:
    passed = instants_passed(age, as_of_s, settings["decay_time_s"], settings["phase_s"])
    with np.errstate(under="ignore"):
        weight: FloatArray = settings["decay_factor"] ** passed
    return weight


def _flux(age: FloatArray, as_of_s: float, settings: Settings) -> FloatArray:
    passed = instants_passed(age, as_of_s, settings["half_life_s"], settings["phase_s"])
    with np.errstate(under="ignore"):
        weight: FloatArray = np.where(passed < settings["periods"], np.exp2(-passed), 0.0)
    return weight


_DECAY_FUNCTIONS = (
    DecayFunction(
        "none",
        "No aging",
        "1",
        "usage counts whole for as long as the window is",
        (),
        lambda age, as_of_s, settings: np.ones_like(age),
    ),
    DecayFunction(
        "exponential",
        "Exponential half-life",
        "2^(−age / half_life_s)",
        "exact halving",
        (_duration("half_life_s", "Half-life"),),
        _exponential,
    ),
    DecayFunction(
        "linear",
        "Linear",
        "1 − age / length_s",
        "down to nothing at the end of the window",
        (_duration("length_s", "Length of the window"),),
        _linear,
        lambda settings: float(settings["length_s"]),
    ),
    DecayFunction(
        "step",
        "Step",
        "factor^⌊age / granularity_s⌋",
        "falls each time a bucket is one granularity older",
        (
            _duration("granularity_s", "Granularity"),
            Parameter(
                "factor",
                "Factor",
                None,
                "a number from 0 to 1",
                number("factor", "Factor", 0.5, 0, 1).read,
                minimum=0,
                maximum=1,
            ),
        ),
        _step,
    ),
    DecayFunction(
        "slurm",
        "Slurm",
        "(1 − 0.693 / half_life_s)^age",
        "PriorityDecayHalfLife, default 7 days; 0.693 for ln 2, a little slower decay than halving. With "
        "PriorityCalcPeriod each job is charged by its own times, as Slurm does it; with 0 usage ages from the end of "
        "its hour on",
        (
            _duration("half_life_s", "PriorityDecayHalfLife", 604_800, 1.0),
            number("calc_period_s", "PriorityCalcPeriod", 0, 0, _LONGEST_PERIOD_S, unit="s"),
            _PHASE,
        ),
        _slurm,
        hour_factor=_slurm_hour,
    ),
    DecayFunction(
        "gridengine",
        "Grid Engine",
        "k^(age / 60), k = 1 − 60 · ln 2 / (halftime_h · 3600)",
        "halftime in hours, default 168, 0 for no decay (halflife_decay_list is in minutes: divide by 60); a little "
        "less than half is left",
        (_hours("halftime_h", "halftime", 168.0),),
        _gridengine,
    ),
    DecayFunction(
        "lsf",
        "LSF",
        "0.1^(age / (hist_hours · 3600))",
        "HIST_HOURS, default 5, 0 for no decay: a tenth is left after that many hours, not a half",
        (_hours("hist_hours", "HIST_HOURS", 5.0),),
        _lsf,
    ),
    DecayFunction(
        "pbs",
        "PBS",
        "decay_factor^n, n = instants phase_s + i · decay_time_s since the usage",
        "fairshare_decay_time, default 24 h, and fairshare_decay_factor, default 0.5: all usage is multiplied at once",
        (
            _duration("decay_time_s", "fairshare_decay_time", 86_400, 1.0),
            number("decay_factor", "fairshare_decay_factor", 0.5, 0, 1),
            _PHASE,
        ),
        _pbs,
    ),
    DecayFunction(
        "flux",
        "Flux",
        "2^(−n) for n < periods, else 0; n = whole periods phase_s + i · half_life_s since the usage",
        "PriorityDecayHalfLife, default 1 week, and PriorityUsageResetPeriod, default 4 weeks: usage is kept in bins "
        "of one half-life, the current one whole",
        (
            _duration("half_life_s", "PriorityDecayHalfLife", 604_800, 1.0),
            integer("periods", "Periods that count, the current one included", 4, 1, 10_000),
            _PHASE,
        ),
        _flux,
        lambda settings: float(settings["half_life_s"] * settings["periods"]),
    ),
)
_OURS = {function.name: function for function in _DECAY_FUNCTIONS}
_RESERVED = frozenset(
    {"aging", "length_s", "more", *(one.name for function in _DECAY_FUNCTIONS for one in function.parameters)}
)
_BROUGHT = decay_functions_of_packages(tuple(_OURS), _RESERVED)
DECAY_FUNCTIONS: dict[str, DecayFunction] = {**_OURS, **_BROUGHT.found}


def installed_decay_functions() -> Installed[DecayFunction]:
    """Decay functions of other packages (entry points `fairshare.decay_functions`), and those that were rejected."""
    return _BROUGHT


def get_decay_function(name: str) -> DecayFunction:
    """The decay function of this name; BadParameter if there is none, with the reason if its package was rejected."""
    if name not in DECAY_FUNCTIONS:
        message = f"unknown aging {name!r}; allowed are {', '.join(DECAY_FUNCTIONS)}{rejection_note(_BROUGHT, name)}"
        raise BadParameter(message, place="aging")
    return DECAY_FUNCTIONS[name]


AGINGS = tuple(DECAY_FUNCTIONS)


@dataclass(frozen=True)
class Window:
    """Length and decay of the usage that counts; times are in the unit of the name's suffix.

    length_s: buckets younger than this count, None for all. aging: the name of a decay function; the other fields are
    its parameters, None for its default. Raises BadParameter for a parameter out of range, or a missing one.
    """

    length_s: float | None = None
    aging: str = "none"
    half_life_s: float | None = None
    granularity_s: float | None = None
    factor: float | None = None
    halftime_h: float | None = None
    hist_hours: float | None = None
    decay_time_s: float | None = None
    decay_factor: float | None = None
    periods: int | None = None
    phase_s: float | None = None
    calc_period_s: float | None = None
    more: Mapping[str, Any] = field(default_factory=dict, hash=False)  # parameters of a package's function
    # parameters of the decay function with defaults
    settings: dict[str, Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        get_decay_function(self.aging)
        for name in ("length_s", "half_life_s", "granularity_s"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise BadParameter(f"{value!r} is no duration; seconds > 0 are allowed", place=name)
        if self.factor is not None and not 0 <= self.factor <= 1:
            raise BadParameter(f"{self.factor!r} is out of range; 0..1 is allowed", place="factor")
        object.__setattr__(self, "settings", self._read_settings())

    @classmethod
    def of(cls, aging: str, length_s: float | None, parameters: Mapping[str, Any]) -> Window:
        """Build a window. parameters: those of the decay function, by name; others are ignored."""
        asked = {one.name: parameters.get(one.name) for one in get_decay_function(aging).parameters}
        common: dict[str, Any] = {name: asked.pop(name) for name in list(asked) if name in _RESERVED}
        common.update(length_s=length_s, aging=aging, more=asked)
        return cls(**common)

    @property
    def function(self) -> DecayFunction:
        return get_decay_function(self.aging)

    def _read_settings(self) -> dict[str, Any]:
        read: dict[str, Any] = {}
        for parameter in self.function.parameters:
            value = getattr(self, parameter.name, self.more.get(parameter.name))
            if value is None and parameter.default is None:
                raise BadParameter(f"aging {self.aging!r} needs it", place=parameter.name)
            try:
                read[parameter.name] = parameter.read(parameter.default if value is None else value)
            except (ValueError, OverflowError):
                raise BadParameter(f"{value!r} isn't allowed; {parameter.allowed} is", place=parameter.name) from None
        return read

    @property
    def charges_by_period(self) -> bool:
        """Whether jobs are charged by their own times; see PeriodCharge."""
        return self.aging == "slurm" and bool(self.settings["calc_period_s"]) and self.length_s is None

    @property
    def reach_s(self) -> float | None:
        """Age from which on usage has weight 0; None for never."""
        found = [reach for reach in (self.length_s, self.function.reach_s(self.settings)) if reach is not None]
        return min(found, default=None)


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
