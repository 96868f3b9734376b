"""Where constants stand in a module, and what bounds are called."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
MODULES = [path for path in sorted((ROOT / "apps").rglob("*.py")) if "migrations" not in path.parts]
_CONSTANT = re.compile(r"_{0,2}[A-Z][A-Z0-9_]*")
_BOUND = re.compile(r"_?((?:MOST|LEAST|LONGEST|SHORTEST)(?:_\w+)?)")


@pytest.mark.deep
def test_constants_stand_above_functions_unless_they_hold_what_is_defined_below() -> None:
    """A module whose constants stand between functions is two modules, or one that hides its numbers."""
    late = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in MODULES
        for name in late_constants(path.read_text(encoding="utf-8"))
    ]
    assert late == []


def late_constants(source: str) -> list[str]:
    """Names of constants below the first function, without those whose value needs a function or class below it."""
    body = ast.parse(source).body
    first = next((place for place, node in enumerate(body) if _is_function(node)), len(body))
    below: set[str] = set()  # what can't be named above the first function
    late = []
    for node in body[first:]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            below.add(node.name)
        elif _names_in(node) & below or not isinstance(node, ast.Assign | ast.AnnAssign):
            below |= {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        else:
            late += constants_of(node)
    return late


def constants_of(node: ast.stmt) -> list[str]:
    """Names that a statement of a module assigns, written as constants."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    assigned = [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]
    return [name for name in assigned if _CONSTANT.fullmatch(name)]


def _is_function(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def _names_in(node: ast.stmt) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}


def test_a_constant_between_functions_is_seen() -> None:
    between = (
        "def first():\n    return 1\n\nMOST = 3\nTABLE = {1: first}\nOTHER = TABLE\n\ndef second():\n    return MOST\n"
    )
    assert late_constants(between) == ["MOST"]


@pytest.mark.deep
def test_each_bound_has_a_name_of_its_own_that_says_what_it_bounds() -> None:
    """A search for the name finds one definition and its uses, not those of other bounds."""
    modules: dict[str, list[str]] = {}
    for path in MODULES:
        for name in bounds_of(path.read_text(encoding="utf-8")):
            modules.setdefault(name, []).append(str(path.relative_to(ROOT)))
    assert len(modules) > 500
    assert {name: where for name, where in modules.items() if len(where) > 1 or "_" not in name} == {}


def bounds_of(source: str) -> list[str]:
    """Names of bounds that a module defines, without the underscore of private ones."""
    names = [name for node in ast.parse(source).body for name in constants_of(node)]
    return [bound[1] for name in names if (bound := _BOUND.fullmatch(name))]


def test_a_private_bound_and_a_public_one_of_the_same_name_are_alike() -> None:
    assert bounds_of("_MOST_ROWS = 3\nMOST_ROWS: int = 4\nLEAST, UTMOST = 1, 2\n") == [
        "MOST_ROWS",
        "MOST_ROWS",
        "LEAST",
    ]
