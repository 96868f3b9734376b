"""Functions of the code that delete or close what is old, found by reading their syntax."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from apps.core.code_paths import REPOSITORY

_INSTANT = re.compile(r"(^|_)(at|on|date|until|since|day)$|^st_mtime$")
_LOOKUP = re.compile(r"^(?P<field>\w+?)__(lt|lte|gt|gte|range)$")
_SQL_WRITE = re.compile(r"\b(DELETE\s+FROM|UPDATE)\s+\w", re.IGNORECASE)
_SQL_AGE = re.compile(r"\b\w+_(at|on|until)\b\s*[<>]|[<>]=?\s*\w*\.?\w+_(at|on|until)\b|\bday\s*[<>]", re.IGNORECASE)
_ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_DELETES = {"delete", "unlink", "rmtree", "_raw_delete"}


def functions_by_age(path: Path) -> Iterator[tuple[str, bool]]:
    """Of a file: functions that compare an instant and delete or change something, and whether each asks `believed`.

    A function does itself what the functions of the same file do that it calls. Where only both together compare and
    delete, the first that does both is listed.
    """
    module = ast.parse(path.read_text(encoding="utf-8"))
    functions = {node.name: node for node in ast.walk(module) if isinstance(node, ast.FunctionDef)}
    texts = dict(_texts_of(module))
    own = {name: _traits(node, texts) for name, node in functions.items()}
    calls = {name: _names_called(node) & functions.keys() - {name} for name, node in functions.items()}

    @cache
    def reached(name: str) -> frozenset[str]:
        seen, waiting = {name}, [name]
        while waiting:
            new = calls[waiting.pop()] - seen
            seen |= new
            waiting += new
        return frozenset(seen)

    def whole(name: str) -> set[str]:
        return set().union(*(own[each] for each in reached(name)))

    both = {"age", "write"}
    together = {name for name in functions if both <= whole(name)}
    for name in sorted(together):
        if both <= own[name] or not together & (reached(name) - {name}):
            yield name, "believed" in whole(name)


def all_functions_by_age() -> dict[str, bool]:
    """By file and function, of all rooms; see `functions_by_age`."""
    paths = [path for path in sorted((REPOSITORY / "apps").rglob("*.py")) if "migrations" not in path.parts]
    return {
        f"{path.relative_to(REPOSITORY)}::{name}": is_believed
        for path in paths
        for name, is_believed in functions_by_age(path)
    }


def _texts_of(module: ast.Module) -> Iterator[tuple[str, str]]:
    """Constants of the module with text, such as SQL, by name."""
    for node in module.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, _text(node.value)


def _text(node: ast.AST) -> str:
    parts = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return " ".join(parts)


def _traits(function: ast.FunctionDef, texts: dict[str, str]) -> set[str]:
    body = ast.Module(body=function.body[1:] if ast.get_docstring(function) else function.body, type_ignores=[])
    return {trait for node in ast.walk(body) for trait in _traits_of(node, texts)}


def _traits_of(node: ast.AST, texts: dict[str, str]) -> Iterator[str]:
    if isinstance(node, ast.keyword) and node.arg:
        lookup = _LOOKUP.match(node.arg)
        if lookup and _INSTANT.search(lookup["field"]):
            yield "age"
    orders = isinstance(node, ast.Compare) and any(isinstance(each, _ORDER) for each in node.ops)
    if orders and any(_INSTANT.search(name) for name in _names_in(node)):
        yield "age"
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in _DELETES or name == "save" or (name == "update" and node.keywords):
            yield "write"
        if name == "believed":
            yield "believed"
    text = (
        texts.get(node.id, "") if isinstance(node, ast.Name) else node.value if isinstance(node, ast.Constant) else ""
    )
    if isinstance(text, str) and _SQL_WRITE.search(text):
        yield "write"
        if _SQL_AGE.search(text):
            yield "age"


def _names_called(function: ast.FunctionDef) -> set[str]:
    calls = (node.func for node in ast.walk(function) if isinstance(node, ast.Call))
    return {func.id for func in calls if isinstance(func, ast.Name)}


def _names_in(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Attribute):
            yield each.attr
        elif isinstance(each, ast.Name):
            yield each.id
