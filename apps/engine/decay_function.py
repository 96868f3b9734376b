"""The interface of decay functions, and the checks of those that packages bring: at load and at each use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np

from apps.engine.arrays import FloatArray
from apps.engine.errors import PackageFailed
from apps.engine.installed import Installed, load_installed, require_name, require_texts
from apps.engine.parameters import Parameter, Settings

Weigh = Callable[[FloatArray, float, Settings], FloatArray]


@dataclass(frozen=True)
class DecayFunction:
    """One decay function; `weigh(age_s, as_of_s, settings)` gives weights of usage that ended `age_s` before `as_of_s`.

    default of a parameter: the scheduler's own; None if required. reach_s: seconds after which the weight is 0,
    None for never. hour_factor: what is left of an hour's bucket at its end.
    """

    name: str
    label: str
    formula: str
    reference: str
    parameters: tuple[Parameter, ...]
    weigh: Weigh = field(repr=False)
    reach_s: Callable[[Settings], float | None] = field(repr=False, default=lambda settings: None)
    hour_factor: Callable[[Settings], float] = field(repr=False, default=lambda settings: 1.0)


ENTRY_POINT_GROUP = "fairshare.decay_functions"
_DAY_S = 86_400.0
_AGES_S = np.concatenate([[0.0], np.geomspace(1.0, 200 * 365 * _DAY_S, 2_000)])
# The sampled hours between which functions with fixed instants may drop all usage at once.
_INSTANTS_S = (1_700_000_123.0, 1_731_234_567.5, 2_000_000_011.0)
_packages: dict[str, str] = {}


@cache
def decay_functions_of_packages(ours: tuple[str, ...], reserved: frozenset[str]) -> Installed[DecayFunction]:
    """Decay functions of other packages that passed their checks, and those that were rejected.

    ours: names of built-in functions. reserved: parameter names that windows already use.
    """
    found = load_installed(
        ENTRY_POINT_GROUP, lambda name, given: _check(name, given, reserved), is_taken=lambda name: name in ours
    )
    _packages.update(found.package)
    return found


def _check(name: str, given: Any, reserved: frozenset[str]) -> DecayFunction:
    """The function with its weights guarded; raises ValueError if it is incomplete or fails on fixed ages."""
    if type(given) is not DecayFunction:
        raise ValueError(f"it must be a DecayFunction, not a {type(given).__name__}")
    require_name(given, name)
    require_texts(given, ("label", "formula", "reference"))
    _check_parameters(given.parameters, reserved)
    checked = replace(given, weigh=guarded(given))
    try:
        for settings in _trials(given.parameters):
            _measure(checked, settings)
    except PackageFailed as error:
        raise ValueError(f"it can't be applied: {error.reason}") from error
    return checked


def _check_parameters(parameters: object, reserved: frozenset[str]) -> None:
    if not isinstance(parameters, tuple) or not all(isinstance(each, Parameter) for each in parameters):
        raise ValueError("its parameters must be a tuple of Parameter")
    for each in parameters:
        if each.name in reserved:
            raise ValueError(f"a parameter can't be called {each.name!r}: windows have one of this name")
        if each.default is None:
            raise ValueError(f"its parameter {each.name!r} needs a default")


def _trials(parameters: tuple[Parameter, ...]) -> Iterator[dict[str, Any]]:
    """The defaults, and each parameter at both ends of its range."""
    defaults = {each.name: each.default for each in parameters}
    yield defaults
    for each in parameters:
        for end in (each.minimum, each.maximum):
            if end is not None:
                yield {**defaults, each.name: each.read(end)}


def _measure(function: DecayFunction, settings: Settings) -> None:
    """Raise ValueError unless weights are 1 at age 0, never rise with age, and are 0 beyond the reach."""
    suffix = f" with {dict(settings)}" if settings else ""
    for as_of_s in _INSTANTS_S:
        found = function.weigh(_AGES_S, as_of_s, settings)
        if found[0] != 1.0:
            raise ValueError(f"its weight at age 0 must be 1, not {found[0]}{suffix}")
        rises = np.flatnonzero(np.diff(found) > 0)
        if len(rises):
            at = int(rises[0])
            raise ValueError(f"its weight rises between the ages {_AGES_S[at]:g} s and {_AGES_S[at + 1]:g} s{suffix}")
        if not np.array_equal(function.weigh(_AGES_S, as_of_s, settings), found):
            raise ValueError(f"it gives other weights the second time{suffix}")
        if not np.array_equal(function.weigh(_AGES_S[::-3], as_of_s, settings), found[::-3]):
            raise ValueError(f"its weight of an age changes with the other ages{suffix}")
    reach_s = function.reach_s(settings)
    if reach_s is not None and not (reach_s > 0 and not found[reach_s <= _AGES_S].any()):
        raise ValueError(f"its reach_s must be None, or an age from which on the weight is 0{suffix}")


def guarded(given: DecayFunction) -> Callable[[FloatArray, float, Settings], FloatArray]:
    """Wrap its formula: read-only ages in, and weights from 0 to 1 out, otherwise PackageFailed."""

    def weigh(age_s: FloatArray, as_of_s: float, settings: Settings) -> FloatArray:
        shown = age_s.view()
        shown.flags.writeable = False
        try:
            with np.errstate(all="ignore"):  # the result is checked below
                found = np.asarray(given.weigh(shown, as_of_s, dict(settings)), dtype=np.float64)
        except Exception as error:  # packages may raise anything
            raise _failed(given.name, f"{type(error).__name__}: {error}") from error
        if found.shape != age_s.shape:
            raise _failed(given.name, f"it gave an array of shape {found.shape} for ages of shape {age_s.shape}")
        wrong = ~((found >= 0.0) & (found <= 1.0))  # also rejects NaN
        if wrong.any():
            at = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
            raise _failed(given.name, f"its weight must be a number from 0 to 1, not {found[at]} at {age_s[at]:g} s")
        return found.copy() if found.base is not None or found is age_s else found

    return weigh


def _failed(name: str, reason: str) -> PackageFailed:
    return PackageFailed(_packages.get(name, ""), "decay function", name, reason, place="window")
