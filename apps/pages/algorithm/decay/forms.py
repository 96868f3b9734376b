"""The form of a usage window: the parameters of a decay function as people type them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings as django_settings
from django.utils.translation import gettext as _

from apps.core.errors import Invalid, problem_sentence
from apps.engine.calendar_resets import RESETS
from apps.engine.decay_functions import DecayFunction
from apps.engine.parameters import Parameter
from apps.pages.algorithm.forms import number_or_text
from apps.policies.settings import PolicySettings

_LONGEST_DECAY_NUMBER = 64
_SECONDS = {"": 1, "s": 1, "min": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"([0-9]+(?:[.,][0-9]+)?)\s*(s|min|h|d|w|)", re.ASCII)
_PLACE = "settings.window."


@dataclass(frozen=True, slots=True)
class WindowField:
    """One value of a usage window, as typed. choices: values and labels, if it is chosen from a list."""

    name: str
    label: str
    value: str
    hint: str
    error: str = ""
    choices: Sequence[tuple[str, str]] = ()

    @property
    def html_id(self) -> str:
        return f"id_{self.name}"


@dataclass(frozen=True)
class WindowForm:
    """The typed values by field. window: set if all are valid."""

    fields: Sequence[WindowField]
    window: Mapping[str, Any] | None
    error: str = ""
    is_wrong: bool = False


def unbound(function: DecayFunction, current: PolicySettings) -> WindowForm:
    """Form with the active values if the decay function has them, else with its scheduler's defaults."""
    window = current.window
    start = window if window["aging"] == function.name else {**window, **_defaults(function), "aging": function.name}
    texts = {
        parameter.name: _typed(parameter, start.get(parameter.name, parameter.default)) for parameter in _own(function)
    }
    texts = {"length_s": _typed_duration(window["length_s"]), **texts, "reset": window.get("reset") or ""}
    fields = _fields(function, texts, {})
    try:
        read = PolicySettings.from_json({"window": _window_of(function, start)}, base=current).window
    except Invalid:  # linear decay needs a window with an end
        read = None
    return WindowForm(fields, read)


def bound(function: DecayFunction, current: PolicySettings, data: Mapping[str, Any]) -> WindowForm:
    """Form with the typed values; an empty length is no limit, other empty fields get the scheduler's default."""
    names = ("length_s", *(parameter.name for parameter in _own(function)), "reset")
    texts = {name: str(data.get(name, "")).strip()[:_LONGEST_DECAY_NUMBER] for name in names}
    typed_window: dict[str, Any] = {"aging": function.name, "length_s": None, **_defaults(function)}
    typed_window |= {"reset": None, "reset_zone": django_settings.TIME_ZONE}
    for name, text in texts.items():
        if text:
            typed_window[name] = _read_duration(text) if name.endswith("_s") else number_or_text(text)
    try:
        read = PolicySettings.from_json({"window": typed_window}, base=current).window
    except Invalid as refusal:
        errors = {problem.where.removeprefix(_PLACE): problem.message for problem in refusal.fields}
        other = "" if set(errors) & set(texts) else refusal.message
        return WindowForm(_fields(function, texts, errors), None, other, is_wrong=True)
    return WindowForm(_fields(function, texts, {}), read)


def _window_of(function: DecayFunction, window: Mapping[str, Any]) -> dict[str, Any]:
    names = {"aging", "length_s", "reset", "reset_zone", *(parameter.name for parameter in function.parameters)}
    return {name: value for name, value in window.items() if name in names}


def _fields(function: DecayFunction, texts: Mapping[str, str], errors: Mapping[str, str]) -> list[WindowField]:
    numbers = [
        _field(parameter, texts[parameter.name if parameter else "length_s"], errors)
        for parameter in (None, *_own(function))
    ]
    error = problem_sentence(errors.get("reset", ""))
    hint = _("All usage is set to zero at midnight in the site’s time zone, %(zone)s") % {
        "zone": django_settings.TIME_ZONE
    }
    labels = (_("Each day"), _("Each Sunday"), _("Each month"), _("Each quarter"), _("Each year"))
    choices = [("", _("Never")), *zip(RESETS, labels, strict=True)]
    return [*numbers, WindowField("reset", _("Reset"), texts["reset"], hint, error, choices)]


def _own(function: DecayFunction) -> list[Parameter]:
    """Parameters other than the window's length, which every decay function has."""
    return [parameter for parameter in function.parameters if parameter.name != "length_s"]


def _defaults(function: DecayFunction) -> dict[str, Any]:
    return {parameter.name: parameter.default for parameter in _own(function) if parameter.default is not None}


def _field(parameter: Parameter | None, value: str, errors: Mapping[str, str]) -> WindowField:
    name = parameter.name if parameter else "length_s"
    if parameter is None:
        label, hint = _("Window"), _("Such as 7 d, 36 h or 600 s; leave empty for no limit")
    else:
        label = parameter.label
        hint = {
            "s": _("Such as 7 d, 36 h or 600 s"),
            "h": _("0 for no decay"),
        }.get(parameter.unit, _("Allowed: %(values)s") % {"values": parameter.allowed})
    error = errors.get(name, "")
    return WindowField(name, label, value, hint, problem_sentence(error))


def _typed(parameter: Parameter, value: Any) -> str:
    if value is None:
        return ""
    return _typed_duration(value) if parameter.unit == "s" else f"{value:.12g}"


def _typed_duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    for unit in ("d", "h", "min"):
        if seconds >= _SECONDS[unit] and seconds % _SECONDS[unit] == 0:
            return f"{seconds // _SECONDS[unit]:.0f} {unit}"
    return f"{seconds:.12g} s"


def _read_duration(text: str) -> Any:
    """Seconds; text that isn't a duration is returned for the settings to reject."""
    match = _DURATION.fullmatch(text.replace("\u00a0", " "))
    if match is None:
        return text
    seconds = float(match[1].replace(",", ".")) * _SECONDS[match[2]]
    return int(seconds) if seconds.is_integer() else seconds
