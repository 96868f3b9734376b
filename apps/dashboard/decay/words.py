"""Windows and their laws of aging in words: the phrase beside every usage, and what is left after a while."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from apps.dashboard.shell import presentation
from apps.engine.decay import DECAY_FUNCTIONS, weights
from apps.engine.decay_function import DecayFunction
from apps.engine.errors import BadParameter, PackageFailed
from apps.priorities.metering import window_of

HOUR_S = 3_600
DAY_S = 24 * HOUR_S
SHOWN_AGES_S = (HOUR_S, 5 * HOUR_S, DAY_S, 3 * DAY_S, 7 * DAY_S, 14 * DAY_S, 28 * DAY_S, 90 * DAY_S)


@dataclass(frozen=True, slots=True)
class Left:
    """What is left of usage of this age, under what is in force and under what is looked at."""

    age: str
    in_force: str
    chosen: str


def fading(window: Mapping[str, Any]) -> str:
    """How usage fades, as a phrase: half-life 7 d; LSF, a tenth left after 5 h. Empty where it doesn't."""
    law = DECAY_FUNCTIONS.get(window["aging"])
    if law is None:
        return _("%(law)s, whose package isn’t installed") % {"law": window["aging"]}
    told = {parameter.name: _told(window, parameter.name, parameter.default) for parameter in law.parameters}
    has_decay = not any(window.get(name, 1) == 0 for name in ("halftime_h", "hist_hours") if name in told)
    if law.name not in _PHRASES:  # of a package: its own words, and its parameters
        return ", ".join([law.label, *(f"{name} {value}" for name, value in told.items())])
    return _PHRASES[law.name]() % {**told, "law": law.label} if has_decay else ""


_PHRASES: dict[str, Callable[[], str]] = {
    "none": lambda: "",
    "exponential": lambda: _("half-life %(half_life_s)s"),
    "linear": lambda: _("linear over %(length_s)s"),
    "step": lambda: _("× %(factor)s every %(granularity_s)s"),
    "slurm": lambda: _("%(law)s, half-life %(half_life_s)s"),
    "gridengine": lambda: _("%(law)s, halftime %(halftime_h)s"),
    "lsf": lambda: _("%(law)s, a tenth left after %(hist_hours)s"),
    "pbs": lambda: _("%(law)s, × %(decay_factor)s every %(decay_time_s)s"),
    "flux": lambda: _("%(law)s, halves every %(half_life_s)s, %(periods)s periods count"),
}


def _told(window: Mapping[str, Any], name: str, default: Any) -> str:
    value = window.get(name, default)
    if value is None:
        return ""
    if name.endswith("_s"):
        return presentation.duration(value)
    return f"{value:g}{presentation.NBSP}h" if name in ("halftime_h", "hist_hours") else f"{value:g}"


def list_laws() -> Sequence[DecayFunction]:
    return tuple(DECAY_FUNCTIONS.values())


def left_after(in_force: Mapping[str, Any], chosen: Mapping[str, Any] | None, as_of_s: float) -> list[Left]:
    """Percent left by age; for decay functions with fixed instants, as of now. Empty where a package fails."""
    try:
        columns = [weights(SHOWN_AGES_S, window_of(window), as_of_s) for window in (in_force, chosen or in_force)]
    except (BadParameter, PackageFailed):
        return []
    return [
        Left(presentation.duration(age), _percent(float(old)), _percent(float(new)))
        for age, old, new in zip(SHOWN_AGES_S, *columns, strict=True)
    ]


def _percent(weight: float) -> str:
    return presentation.percent(weight)
