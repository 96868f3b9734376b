"""Usage windows as phrases, such as half-life 7 d, reset each quarter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from apps.engine.decay_functions import DECAY_FUNCTIONS
from apps.priorities.sentences import numbers
from apps.web.shell import presentation

_RESETS = {
    "daily": gettext_lazy("reset each day"),
    "weekly": gettext_lazy("reset each Sunday"),
    "monthly": gettext_lazy("reset each month"),
    "quarterly": gettext_lazy("reset each quarter"),
    "yearly": gettext_lazy("reset each year"),
}
_PHRASES: dict[str, Callable[[], str]] = {
    "none": lambda: "",
    "exponential": lambda: _("half-life %(half_life_s)s"),
    "linear": lambda: _("linear over %(length_s)s"),
    "step": lambda: _("× %(factor)s every %(granularity_s)s"),
    "slurm": lambda: _("%(function)s, half-life %(half_life_s)s"),
    "gridengine": lambda: _("%(function)s, halftime %(halftime_h)s"),
    "lsf": lambda: _("%(function)s, a tenth left after %(hist_hours)s"),
    "pbs": lambda: _("%(function)s, × %(decay_factor)s every %(decay_time_s)s"),
    "flux": lambda: _("%(function)s, halves every %(half_life_s)s, %(periods)s periods count"),
}


def decay_phrase(window: Mapping[str, Any]) -> str:
    """The decay and the resets as a phrase: half-life 7 d; LSF, a tenth left after 5 h. "" without both.

    A function without a phrase of its own gets its label and parameters.
    """
    reset = window.get("reset")
    return ", ".join(part for part in (_decay(window), str(_RESETS[reset]) if reset else "") if part)


def _decay(window: Mapping[str, Any]) -> str:
    function = DECAY_FUNCTIONS.get(window["aging"])
    if function is None:
        return _("%(function)s, a decay function that this version doesn’t have") % {"function": window["aging"]}
    values = {
        parameter.name: _parameter_text(window, parameter.name, parameter.default) for parameter in function.parameters
    }
    has_decay = not any(window.get(name, 1) == 0 for name in ("halftime_h", "hist_hours") if name in values)
    if function.name not in _PHRASES:
        return ", ".join([function.label, *(f"{name} {value}" for name, value in values.items())])
    return _PHRASES[function.name]() % {**values, "function": function.label} if has_decay else ""


def _parameter_text(window: Mapping[str, Any], name: str, default: Any) -> str:
    value = window.get(name, default)
    if value is None:
        return ""
    if name.endswith("_s"):
        return presentation.duration(value)
    return f"{value:g}{numbers.NBSP}h" if name in ("halftime_h", "hist_hours") else f"{value:g}"
