"""Declared parameters: meaning, range, and reading of values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from apps.engine.errors import BadParameter

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Parameter:
    """One parameter of an algorithm: its meaning, allowed values and default."""

    name: str
    label: str
    default: Any
    allowed: str  # allowed values in words, for messages and pages
    read: Callable[[object], Any] = field(repr=False)  # returns the value in its type, or raises ValueError
    applies: Callable[[Settings], bool] = field(repr=False, default=lambda settings: True)
    condition: str = ""  # the condition in words, for messages and pages
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    unit: str = ""  # s, h, …; empty for a plain number
    note: str = ""  # meaning of its values, for pages and documentation
    is_optional: bool = False  # omitted from settings at its default, because older settings don't have it


def integer(name: str, label: str, default: int, minimum: int, maximum: int, **more: Any) -> Parameter:
    """An integer within a range; 1000.0 counts as one."""

    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError
        if isinstance(value, float) and not value.is_integer():
            raise ValueError
        if not minimum <= value <= maximum:
            raise ValueError
        return int(value)

    allowed = f"an integer from {minimum} to {maximum}"
    return Parameter(name, label, default, allowed, read, minimum=minimum, maximum=maximum, **more)


def number(name: str, label: str, default: float, minimum: float, maximum: float, **more: Any) -> Parameter:
    """A finite number within a range."""

    def read(value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError
        if not minimum <= value <= maximum:
            raise ValueError
        return float(value)

    allowed = f"a number from {minimum:g} to {maximum:g}"
    return Parameter(name, label, default, allowed, read, minimum=minimum, maximum=maximum, **more)


def choice(name: str, label: str, default: str, choices: tuple[str, ...], **more: Any) -> Parameter:
    """One of a few words."""

    def read(value: object) -> str:
        if not isinstance(value, str) or value not in choices:
            raise ValueError
        return value

    return Parameter(name, label, default, " or ".join(map(repr, choices)), read, choices=choices, **more)


def read_settings(name: str, parameters: Sequence[Parameter], raw_settings: Settings) -> dict[str, Any]:
    """The settings of the algorithm of this name with all defaults; BadParameter for unknown or invalid ones.

    An optional parameter is omitted at its default.
    """
    settings: dict[str, Any] = {"name": name}
    refused = set(raw_settings) - {"name"} - {parameter.name for parameter in parameters}
    if refused:
        known = ", ".join(parameter.name for parameter in parameters) or "none"
        raise BadParameter(
            f"unknown parameter of {name}; allowed are {known}", place=f"algorithm.{min(refused, key=str)}"
        )
    for parameter in parameters:
        if not parameter.applies(settings):
            is_default = parameter.is_optional and raw_settings.get(parameter.name) == parameter.default
            if parameter.name in raw_settings and not is_default:
                raise BadParameter(f"applies {parameter.condition} only", place=f"algorithm.{parameter.name}")
            continue
        value = raw_settings.get(parameter.name, parameter.default)
        try:
            settings[parameter.name] = parameter.read(value)
            if parameter.is_optional and settings[parameter.name] == parameter.default:
                del settings[parameter.name]
        except BadParameter as problem:
            raise BadParameter(problem.message, place=f"algorithm.{parameter.name}") from None
        except (ValueError, OverflowError):
            raise BadParameter(
                f"{_shown(value)} isn't allowed; {parameter.allowed} is", place=f"algorithm.{parameter.name}"
            ) from None
    return settings


def _shown(value: object) -> str:
    """The value as given, truncated if it is very long."""
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    text = repr(value) if not isinstance(value, dict | list) else f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:60]}…"
