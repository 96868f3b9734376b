"""Code that tests hand to other processes imports what exists: also where such a test takes long and runs seldom."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

_ROOMS = ("apps", "bench", "fairshare_web", "terminal", "tests")


@pytest.mark.deep
def test_code_in_strings_imports_names_that_exist() -> None:
    imports = [(path, each) for path in _sources() for each in _imports(path.read_text())]
    assert len(imports) > 50
    missing = [
        f"{path.relative_to(REPOSITORY)}: {module} has no {name}"
        for path, (module, name) in imports
        if not _exists(module, name)
    ]
    assert missing == []


def test_an_import_in_a_string_is_found_and_looked_up() -> None:
    code = 'RUN = "from apps.core.clock import now, then\\nnow()"\nfrom re import x\n"from apps of old"\n'
    assert list(_imports(code)) == [("apps.core.clock", "now"), ("apps.core.clock", "then")]
    assert _exists("apps.core.clock", "now")
    assert _exists("apps.core", "clock")
    assert not _exists("apps.core.clock", "then")
    assert not _exists("apps.nowhere", "x")


def _sources() -> Iterator[Path]:
    for folder in ("tests", "bench", "docsite", ".ci"):
        yield from sorted((REPOSITORY / folder).rglob("*.py"))


def _imports(source: str) -> Iterator[tuple[str, str]]:
    """Modules of this project, and the names that the first level of code in strings takes from them."""
    if not any(f"from {room}." in source for room in _ROOMS):
        return
    for node in ast.walk(ast.parse(source)):
        text = _text(node)
        if "import " in text:
            for statement in _statements(text):
                if isinstance(statement, ast.ImportFrom) and (statement.module or "").split(".")[0] in _ROOMS:
                    yield from ((statement.module or "", each.name) for each in statement.names)


def _text(node: ast.AST) -> str:
    """Of a string; what an f-string inserts is written as a name."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) or "inserted" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _statements(text: str) -> list[ast.stmt]:
    try:
        return ast.parse(text).body
    except SyntaxError:
        return []


def _exists(module: str, name: str) -> bool:
    try:
        return hasattr(import_module(module), name) or find_spec(f"{module}.{name}") is not None
    except ModuleNotFoundError:
        return False
