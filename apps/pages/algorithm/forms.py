"""The form of an algorithm's parameters, checked by the registry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from apps.core.errors import problem_sentence
from apps.core.typed_numbers import read_number
from apps.engine.algorithms import Algorithm, Parameter, read_algorithm
from apps.engine.errors import BadParameter
from apps.web.texts.algorithm_text import typed
from apps.web.texts.operator_choices import OperatorChoice, list_operator_choices

_LONGEST_PARAMETER = 64


@dataclass(frozen=True, slots=True)
class ParameterField:
    """One parameter: a list if the registry has all values, else a text field with suggestions."""

    name: str
    label: str
    value: str
    hint: str
    choices: Sequence[str]
    suggestions: Sequence[str]
    is_number: bool
    error: str = ""
    operators: Sequence[OperatorChoice] = ()  # with descriptions; other ones are typed into `operator_named`

    @property
    def is_listed(self) -> bool:
        """Whether the value is one of the listed operators."""
        return self.value in [operator.name for operator in self.operators]

    @property
    def html_id(self) -> str:
        return f"id_{self.name}"


@dataclass(frozen=True)
class ParametersForm:
    """The typed values by field. name: of the algorithm. settings: set if all are valid."""

    name: str
    fields: Sequence[ParameterField]
    settings: Mapping[str, Any] | None
    error: str = ""
    is_typed: bool = False

    @property
    def has_rare_errors(self) -> bool:
        """Whether a field that is folded away has an error, or another power than the listed ones."""
        return any(field.error or (field.operators and field.value and not field.is_listed) for field in self.fields)


def unbound(algorithm: Algorithm, current: Mapping[str, Any]) -> ParametersForm:
    """Form with the active values, or with the defaults of an algorithm that isn't active."""
    start = current if current.get("name") == algorithm.name else read_algorithm(algorithm.name)
    fields = [_field(parameter, _typed(parameter, start)) for parameter in algorithm.parameters]
    return ParametersForm(algorithm.name, fields, read_algorithm(algorithm.name))


def bound(algorithm: Algorithm, data: Mapping[str, Any]) -> ParametersForm:
    """Form with the typed values; an empty field gets its default, or nothing if it doesn't apply."""
    texts = {
        parameter.name: str(data.get(parameter.name, "")).strip()[:_LONGEST_PARAMETER]
        for parameter in algorithm.parameters
    }
    if "operator" in texts:
        texts["operator"] = str(data.get("operator_named", "")).strip()[:_LONGEST_PARAMETER] or texts["operator"]
    filled = {
        parameter.name: _read(parameter, texts[parameter.name])
        for parameter in algorithm.parameters
        if texts[parameter.name]
    }
    settings, place, message = None, "", ""
    try:
        settings = read_algorithm({**filled, "name": algorithm.name})
    except BadParameter as error:
        place, message = error.place.removeprefix("algorithm."), error.message
    fields = [
        _field(parameter, texts[parameter.name], message if parameter.name == place else "")
        for parameter in algorithm.parameters
    ]
    return ParametersForm(algorithm.name, fields, settings, message if place not in texts else "", is_typed=True)


def _typed(parameter: Parameter, settings: Mapping[str, Any]) -> str:
    """Value as text; empty if it doesn't apply, the default if an optional one is left out."""
    if parameter.is_optional and parameter.applies(settings):
        return typed(settings.get(parameter.name, parameter.default))
    return typed(settings[parameter.name]) if parameter.name in settings else ""


def _read(parameter: Parameter, text: str) -> Any:
    """The number if one is expected, also with a decimal comma; other text is returned for the registry to reject."""
    return number_or_text(text) if _is_number(parameter) else text


def number_or_text(text: str) -> Any:
    """The number as typed; other text is returned for the settings to reject."""
    try:
        value = read_number(text)
    except ValueError:
        return text
    return int(value) if value.is_integer() else value


def _is_number(parameter: Parameter) -> bool:
    return isinstance(parameter.default, int | float) and not isinstance(parameter.default, bool)


def _field(parameter: Parameter, value: str, error: str = "") -> ParameterField:
    closed = bool(parameter.choices) and all(_is_readable(parameter, choice) for choice in parameter.choices)
    hints = [] if closed or not parameter.allowed else [_("Allowed: %(values)s") % {"values": parameter.allowed}]
    if parameter.condition:
        hints.append(_("Applies %(condition)s only") % {"condition": parameter.condition})
    if parameter.note:
        hints.append(parameter.note)
    return ParameterField(
        name=parameter.name,
        label=parameter.label,
        value=value,
        hint=". ".join(hints),
        choices=parameter.choices if closed else (),
        suggestions=() if closed else tuple(choice for choice in parameter.choices if _is_readable(parameter, choice)),
        is_number=_is_number(parameter),
        error=problem_sentence(error),
        operators=list_operator_choices({"operator": ""}) if parameter.name == "operator" else (),
    )


def _is_readable(parameter: Parameter, value: str) -> bool:
    try:
        parameter.read(value)
    except (ValueError, TypeError):
        return False
    return True
