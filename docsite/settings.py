"""docs/settings.md: every environment variable with its default and bounds, as the code reads it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from apps.core.code_paths import REPOSITORY
from docsite.markdown import code, table
from docsite.setting_texts import SECTIONS

_READERS = (
    "env_bool",
    "env_choice",
    "env_database",
    "env_int",
    "env_list",
    "env_origins",
    "env_str",
    "env_time_zone",
    "env_url",
)
# Read outside of fairshare_web/settings.py, because they are needed before it.
_EARLY = {"FAIRSHARE_VAR": "`var`", "FAIRSHARE_CONFIG": "none"}


@dataclass(frozen=True)
class Variable:
    """One environment variable as a call in the settings reads it; `values` is what it may be, in words."""

    name: str
    default: str
    values: str = ""


def read_variables(path: Path = REPOSITORY / "fairshare_web/settings.py") -> dict[str, Variable]:
    """Every variable that the settings read, by name."""
    calls = (node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call))
    variables = [
        _variable(call, call.func.id) for call in calls if isinstance(call.func, ast.Name) and call.func.id in _READERS
    ]
    early = [Variable(name, default) for name, default in _EARLY.items()]
    return {variable.name: variable for variable in [*early, *variables]}


def _variable(call: ast.Call, reader: str) -> Variable:
    name = ast.literal_eval(call.args[0])
    keywords = {each.arg: _value(each.value) for each in call.keywords if each.arg}
    if reader == "env_choice":
        choices = ast.literal_eval(call.args[1])
        return Variable(name, code(choices[0]), ", ".join(map(code, choices)))
    if reader == "env_bool":
        return Variable(name, "yes" if keywords["default"] else "no", "yes or no")
    if reader == "env_int":
        low, high = keywords.get("minimum", 0), keywords.get("maximum")
        return Variable(name, code(str(keywords["default"])), f"{low} to {high}" if high else f"{low} or more")
    default = keywords.get("default")
    return Variable(name, code(str(default)) if default else "none")


def _value(node: ast.expr) -> object:
    """A constant, or arithmetic of constants such as 2 * 1024**3."""
    return eval(compile(ast.Expression(node), "settings", "eval"), {"__builtins__": {}})  # noqa: S307 - our own source


def page() -> str:
    """The sections of the page; KeyError for a text without a variable."""
    variables = read_variables()
    parts = []
    for section, texts in SECTIONS.items():
        rows = [(code(name), text, *_columns(variables[name])) for name, text in texts.items()]
        parts.append(f"## {section}\n\n" + table(("variable", "meaning", "values", "default"), rows))
    return "\n\n".join(parts)


def _columns(variable: Variable) -> tuple[str, str]:
    return variable.values, variable.default
