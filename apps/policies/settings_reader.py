"""Validate values of settings from JSON and collect all problems, so that one error reports them together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apps.core.errors import FieldProblem, Invalid
from apps.engine.parameters import Parameter
from apps.policies.tree.names import clean_text


class SettingsReader:
    """Each method returns a valid value, or notes a problem of the place `where` and returns a harmless one."""

    def __init__(self) -> None:
        self.problems: list[FieldProblem] = []

    def problem(self, where: str, message: str) -> None:
        self.problems.append(FieldProblem(where, message))

    def mapping(self, value: object, where: str, *, allowed: list[str] | None = None) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            self.problem(where, "must be an object")
            return {}
        for key in value:
            if allowed is not None and key not in allowed:
                self.problem(f"{where}.{key}", f"is unknown; known are {', '.join(allowed)}")
        return value

    def number(self, value: object, where: str, least: float, most: float) -> float:
        if isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most:
            return float(value)  # rejects NaN, too
        self.problem(where, f"must be a number from {least:g} to {most:g}")
        return least

    def whole(self, value: object, where: str, least: int, most: int) -> int:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        self.problem(where, f"must be a whole number from {least} to {most}")
        return least

    def choice(self, value: object, where: str, allowed: tuple[str, ...]) -> str:
        if isinstance(value, str) and value in allowed:
            return value
        self.problem(where, f"must be one of {', '.join(allowed)}")
        return allowed[0]

    def parameter(self, value: object, where: str, parameter: Parameter) -> Any:
        try:
            return parameter.read(value)
        except (ValueError, OverflowError):
            self.problem(where, f"must be {parameter.allowed}")
            return parameter.default

    def refuse(self) -> None:
        if self.problems:
            first = self.problems[0]
            raise Invalid(f"{first.where} {first.message}.", code="bad_settings", fields=self.problems)

    def text(self, value: object, where: str, longest: int) -> str:
        """A text of 1 to `longest` characters; "" where it is none."""
        try:
            text = clean_text(value, longest).strip() if isinstance(value, str) else ""
        except ValueError as error:
            self.problem(where, str(error))
            return ""
        if not text:
            self.problem(where, f"must be a text of 1 to {longest} characters")
        return text

    def items(self, value: object, where: str, most: int) -> list[tuple[str, object]]:
        """Each item of a list with its place in the input."""
        if not isinstance(value, list) or len(value) > most:
            self.problem(where, f"must be a list of at most {most} objects")
            return []
        return [(f"{where}[{i}]", each) for i, each in enumerate(value)]
