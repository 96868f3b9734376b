"""The registry of decay functions, among them those of common schedulers under their own names.

A decay function gives the weight 0..1 at an instant of usage, depending on when it was used. Most depend on its age
alone; those that decay all usage at fixed instants (`pbs`, `flux`) depend on how many of these instants have passed
since. Another one is a function below with its registration: settings, pages and REST read the registry.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from apps.engine.arrays import FloatArray
from apps.engine.errors import BadParameter
from apps.engine.parameters import Parameter, Settings, integer, number

LONGEST_DECAY_S = 200 * 365 * 86_400
BUCKET_S = 3600
_LONGEST_CALC_PERIOD_S = 30 * 86_400
# Slurm's approximation of ln 2.
SLURM_LN2 = 0.693

# Functions with weight(a + b) = weight(a) · weight(b).
_MULTIPLICATIVE = frozenset({"none", "exponential", "slurm", "gridengine", "lsf"})

Weigh = Callable[[FloatArray, float, Settings], FloatArray]
_PHASE = number("phase_s", "Start of a period, since 1970-01-01 00:00 UTC", 0, 0, LONGEST_DECAY_S, unit="s")


@dataclass(frozen=True)
class DecayFunction:
    """One decay function; `weigh(age_s, as_of_s, settings)` gives weights of usage that ended `age_s` before `as_of_s`.

    The weights have the shape of `age_s`, are 1 at age 0 (less at an instant at which all usage decays) and never rise
    with age. default of a parameter: the scheduler's own; None if required. reach_s: seconds after which the weight is
    0, None for never. hour_factor: what is left of an hour's bucket at its end.
    """

    name: str
    label: str
    formula: str
    reference: str
    parameters: tuple[Parameter, ...]
    weigh: Weigh = field(repr=False)
    reach_s: Callable[[Settings], float | None] = field(repr=False, default=lambda settings: None)
    hour_factor: Callable[[Settings], float] = field(repr=False, default=lambda settings: 1.0)

    @property
    def is_multiplicative(self) -> bool:
        """Whether ageing by some time multiplies any earlier usage by one common factor, within the window."""
        return self.name in _MULTIPLICATIVE


DECAY_FUNCTIONS: dict[str, DecayFunction] = {}


def decay_function(
    name: str,
    label: str,
    formula: str,
    reference: str,
    *parameters: Parameter,
    reach_s: Callable[[Settings], float | None] = lambda settings: None,
    hour_factor: Callable[[Settings], float] = lambda settings: 1.0,
) -> Callable[[Weigh], Weigh]:
    """Register the weights below it under this name; the arguments are those of `DecayFunction`."""

    def register(weigh: Weigh) -> Weigh:
        DECAY_FUNCTIONS[name] = DecayFunction(name, label, formula, reference, parameters, weigh, reach_s, hour_factor)
        return weigh

    return register


def get_decay_function(name: str) -> DecayFunction:
    """The decay function of this name; BadParameter if there is none."""
    if name not in DECAY_FUNCTIONS:
        raise BadParameter(f"unknown aging {name!r}; allowed are {', '.join(DECAY_FUNCTIONS)}", place="aging")
    return DECAY_FUNCTIONS[name]


def decay_parameter_names() -> tuple[str, ...]:
    """The names of the parameters of all decay functions, each once, in the order of the registry."""
    return tuple(
        dict.fromkeys(parameter.name for function in DECAY_FUNCTIONS.values() for parameter in function.parameters)
    )


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


def _duration(name: str, label: str, default: int | None = None, least: float = 0.001) -> Parameter:
    plain = number(name, label, 0.0, least, LONGEST_DECAY_S, unit="s")
    return Parameter(
        name,
        label,
        default,
        f"seconds from {least:g} to {LONGEST_DECAY_S}",
        plain.read,
        minimum=least,
        maximum=LONGEST_DECAY_S,
        unit="s",
    )


def _hours(name: str, label: str, default: float) -> Parameter:
    return number(name, label, default, 0, LONGEST_DECAY_S / 3600, unit="h")


@decay_function("none", "No aging", "1", "usage counts whole for as long as the window is")
def _none(age: FloatArray, as_of_s: float, settings: Settings) -> FloatArray:
    return np.ones_like(age)


@decay_function(
    "exponential",
    "Exponential half-life",
    "2^(−age / half_life_s)",
    "exact halving",
    _duration("half_life_s", "Half-life"),
)
def _exponential(age: FloatArray, as_of_s: float, settings: Settings) -> FloatArray:
    with np.errstate(under="ignore"):
        weight: FloatArray = np.exp2(-age / settings["half_life_s"])
    return weight


@decay_function(
    "linear",
    "Linear",
    "1 − age / length_s",
    "down to nothing at the end of the window",
    _duration("length_s", "Length of the window"),
    reach_s=lambda settings: float(settings["length_s"]),
)
def _linear(age: FloatArray, as_of_s: float, settings: Settings) -> FloatArray:
    weight: FloatArray = np.maximum(0.0, 1.0 - age / settings["length_s"])
    return weight


@decay_function(
    "step",
    "Step",
    "factor^⌊age / granularity_s⌋",
    "falls each time a bucket is one granularity older",
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
)
def _step(age: FloatArray, as_of_s: float, settings: Settings) -> FloatArray:
    with np.errstate(under="ignore"):
        weight: FloatArray = settings["factor"] ** np.floor(age / settings["granularity_s"])
    return weight


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


@decay_function(
    "slurm",
    "Slurm",
    "(1 − 0.693 / half_life_s)^age",
    "PriorityDecayHalfLife, default 7 days; 0.693 for ln 2, a little slower decay than halving. With "
    "PriorityCalcPeriod each job is charged by its own times, as Slurm does it; with 0 usage ages from the end of "
    "its hour on",
    _duration("half_life_s", "PriorityDecayHalfLife", 604_800, 1.0),
    number("calc_period_s", "PriorityCalcPeriod", 0, 0, _LONGEST_CALC_PERIOD_S, unit="s"),
    _PHASE,
    hour_factor=_slurm_hour,
)
def _slurm(age: FloatArray, as_of_s: float, settings: Settings) -> FloatArray:
    return power_of_age(1.0 - SLURM_LN2 / settings["half_life_s"], age)


@decay_function(
    "gridengine",
    "Grid Engine",
    "k^(age / 60), k = 1 − 60 · ln 2 / (halftime_h · 3600)",
    "halftime in hours, default 168, 0 for no decay (halflife_decay_list is in minutes: divide by 60); a little "
    "less than half is left",
    _hours("halftime_h", "halftime", 168.0),
)
def _gridengine(age: FloatArray, as_of_s: float, settings: Settings) -> FloatArray:
    return left_in_gridengine(age, settings["halftime_h"] * 3600.0)


@decay_function(
    "lsf",
    "LSF",
    "0.1^(age / (hist_hours · 3600))",
    "HIST_HOURS, default 5, 0 for no decay: a tenth is left after that many hours, not a half",
    _hours("hist_hours", "HIST_HOURS", 5.0),
)
def _lsf(age: FloatArray, as_of_s: float, settings: Settings) -> FloatArray:
    if settings["hist_hours"] == 0:
        return np.ones_like(age)
    return power_of_age(0.1, age / (settings["hist_hours"] * 3600.0))


@decay_function(
    "pbs",
    "PBS",
    "decay_factor^n, n = instants phase_s + i · decay_time_s since the usage",
    "fairshare_decay_time, default 24 h, and fairshare_decay_factor, default 0.5: all usage is multiplied at once",
    _duration("decay_time_s", "fairshare_decay_time", 86_400, 1.0),
    number("decay_factor", "fairshare_decay_factor", 0.5, 0, 1),
    _PHASE,
)
def _pbs(age: FloatArray, as_of_s: float, settings: Settings) -> FloatArray:
    passed = instants_passed(age, as_of_s, settings["decay_time_s"], settings["phase_s"])
    with np.errstate(under="ignore"):
        weight: FloatArray = settings["decay_factor"] ** passed
    return weight


@decay_function(
    "flux",
    "Flux",
    "2^(−n) for n < periods, else 0; n = whole periods phase_s + i · half_life_s since the usage",
    "PriorityDecayHalfLife, default 1 week, and PriorityUsageResetPeriod, default 4 weeks: usage is kept in bins "
    "of one half-life, the current one whole",
    _duration("half_life_s", "PriorityDecayHalfLife", 604_800, 1.0),
    integer("periods", "Periods that count, the current one included", 4, 1, 10_000),
    _PHASE,
    reach_s=lambda settings: float(settings["half_life_s"] * settings["periods"]),
)
def _flux(age: FloatArray, as_of_s: float, settings: Settings) -> FloatArray:
    passed = instants_passed(age, as_of_s, settings["half_life_s"], settings["phase_s"])
    with np.errstate(under="ignore"):
        weight: FloatArray = np.where(passed < settings["periods"], np.exp2(-passed), 0.0)
    return weight
