"""Tests by the names that their marks have, read from the source: nothing is imported, nothing runs."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache

from apps.core.code_paths import REPOSITORY


@cache
def marked_tests(mark: str) -> dict[str, list[str]]:
    """Tests as `path::name`, by each argument of `@pytest.mark.<mark>` at functions of modules."""
    tests: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted((REPOSITORY / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if f"@pytest.mark.{mark}(" in text:
            for test, name in _marks(ast.parse(text), f"pytest.mark.{mark}"):
                tests[name].append(f"{path.relative_to(REPOSITORY)}::{test}")
    return dict(tests)


def _marks(module: ast.Module, mark: str) -> Iterator[tuple[str, str]]:
    """Test and argument of each mark."""
    for node in module.body:
        if isinstance(node, ast.FunctionDef):
            for decorator in node.decorator_list:
                if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == mark:
                    for name in decorator.args:
                        yield node.name, str(ast.literal_eval(name))


def function_of(test: str) -> str:
    """The test without its parameters."""
    return test.partition("[")[0]
