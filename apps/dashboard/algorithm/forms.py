"""The parameters of any algorithm as a form: made from the registry, checked by it, kept as typed until right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from django.utils.translation import gettext as _

from apps.analytics.operators.records import OperatorChoice
from apps.analytics.operators.selectors import choices_for
from apps.dashboard.algorithm.words import typed
from apps.engine.algorithms import Algorithm, Parameter, read_algorithm
from apps.engine.errors import BadParameter

_LONGEST = 64


@dataclass(frozen=True, slots=True)
class ParameterField:
    """One parameter: a list where the registry names all values, else a text field with suggestions."""

    name: str
    label: str
    value: str
    hint: str
    choices: Sequence[str]
    suggestions: Sequence[str]
    is_number: bool
    error: str = ""
    operators: Sequence[OperatorChoice] = ()  # each with its sentence; any other one is typed as `operator_named`

    @property
    def is_listed(self) -> bool:
        """Whether the value is one of the operators that can be picked."""
        return self.value in [operator.name for operator in self.operators]

    @property
    def html_id(self) -> str:
        return f"id_{self.name}"


@dataclass(frozen=True)
class ParametersForm:
    """What was typed, field by field; `settings` when all of it can be used."""

    fields: Sequence[ParameterField]
    settings: Mapping[str, Any] | None
    error: str = ""


def unbound(algorithm: Algorithm, current: Mapping[str, Any]) -> ParametersForm:
    """With the values in force, or the defaults where another algorithm is in force."""
    start = current if current.get("name") == algorithm.name else read_algorithm(algorithm.name)
    fields = [_field(one, _typed(one, start)) for one in algorithm.parameters]
    return ParametersForm(fields, read_algorithm(algorithm.name))


def bound(algorithm: Algorithm, data: Mapping[str, Any]) -> ParametersForm:
    """As somebody typed it; a field left empty takes its default, or nothing where it doesn't apply."""
    given = {one.name: str(data.get(one.name, "")).strip()[:_LONGEST] for one in algorithm.parameters}
    if "operator" in given:
        given["operator"] = str(data.get("operator_named", "")).strip()[:_LONGEST] or given["operator"]
    filled = {one.name: _read(one, given[one.name]) for one in algorithm.parameters if given[one.name]}
    settings, place, message = None, "", ""
    try:
        settings = read_algorithm({**filled, "name": algorithm.name})
    except BadParameter as error:
        place, message = error.place.removeprefix("algorithm."), error.message
    fields = [_field(one, given[one.name], message if one.name == place else "") for one in algorithm.parameters]
    return ParametersForm(fields, settings, message if place not in given else "")


def _typed(parameter: Parameter, settings: Mapping[str, Any]) -> str:
    """Nothing where it doesn't apply; an optional one that is left out has its default."""
    if parameter.is_optional and parameter.applies(settings):
        return typed(settings.get(parameter.name, parameter.default))
    return typed(settings[parameter.name]) if parameter.name in settings else ""


def _read(parameter: Parameter, text: str) -> Any:
    """A number where one is wanted; a decimal comma is one too. What isn't stays text, for the registry to refuse."""
    return read_number(text) if _is_number(parameter) else text


def read_number(text: str) -> Any:
    """A number as people type it; what isn't one stays text."""
    plain = text.replace("\u00a0", "").replace(" ", "")
    if plain.count(",") == 1 and "." not in plain:
        plain = plain.replace(",", ".")
    try:
        value = float(plain) if plain.isascii() and "_" not in plain else float("nan")
    except ValueError:
        return text
    if not isfinite(value):
        return text
    return int(value) if value.is_integer() else value


def _is_number(parameter: Parameter) -> bool:
    return isinstance(parameter.default, int | float) and not isinstance(parameter.default, bool)


def _field(parameter: Parameter, value: str, error: str = "") -> ParameterField:
    closed = bool(parameter.choices) and all(_is_readable(parameter, choice) for choice in parameter.choices)
    hint = parameter.allowed[:1].upper() + parameter.allowed[1:]
    if closed:
        hint = ""
    if parameter.condition:
        hint = (hint + "; " if hint else "") + _("applies %(condition)s only") % {"condition": parameter.condition}
    hint = "; ".join(part for part in (parameter.note, hint) if part)
    return ParameterField(
        name=parameter.name,
        label=parameter.label,
        value=value,
        hint=hint,
        choices=parameter.choices if closed else (),
        suggestions=() if closed else _suggestions(parameter),
        is_number=_is_number(parameter),
        error=error[:1].upper() + error[1:] + "." if error else "",
        operators=choices_for({"operator": ""}) if parameter.name == "operator" else (),
    )


def _suggestions(parameter: Parameter) -> Sequence[str]:
    return tuple(choice for choice in parameter.choices if _is_readable(parameter, choice))


def _is_readable(parameter: Parameter, value: str) -> bool:
    try:
        parameter.read(value)
    except (ValueError, TypeError):
        return False
    return True
