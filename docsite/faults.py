"""docs/reliability.md: each fault with its promise, the tests that are marked with it, and what they measured last."""

from __future__ import annotations

import ast
import json
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from typing import TypedDict

from apps.core.code_paths import REPOSITORY
from docsite.fault_promises import PROMISES
from docsite.markdown import code, table

FIGURES = REPOSITORY / "docsite/fault_figures.json"
_MARK = "pytest.mark.fault"


class Figure(TypedDict):
    """What a test measured; `name` says of what."""

    name: str
    value: float
    unit: str
    on: str


def table_of_faults() -> str:
    tests = tests_by_fault()
    rows = [
        (fault, injected, promise, ", ".join(map(code, tests.get(fault, ()))), _last_figure(tests.get(fault, ())))
        for fault, (injected, promise) in PROMISES.items()
    ]
    return table(("fault", "what is done", "promise", "tests", "last figure"), rows)


@cache
def tests_by_fault() -> dict[str, list[str]]:
    """Names of tests as `path::name`, by the fault that their marks name."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for path in sorted((REPOSITORY / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if f"@{_MARK}(" in text:
            for test, fault in _marks(ast.parse(text)):
                found[fault].append(f"{path.relative_to(REPOSITORY)}::{test}")
    return dict(found)


def _marks(module: ast.Module) -> Iterator[tuple[str, str]]:
    """Test and fault of each mark."""
    for node in module.body:
        if isinstance(node, ast.FunctionDef):
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == _MARK:
                    for fault in mark.args:
                        yield node.name, str(ast.literal_eval(fault))


def figures() -> dict[str, list[Figure]]:
    """By test, with its parameters."""
    stored: dict[str, list[Figure]] = json.loads(FIGURES.read_text(encoding="utf-8"))
    return stored


def function_of(test: str) -> str:
    """The test without its parameters."""
    return test.partition("[")[0]


def _last_figure(tests: list[str] | tuple[()]) -> str:
    """Of several parameters the largest value; "passes" where no test of the fault measures anything."""
    largest: dict[tuple[str, str], Figure] = {}
    for test, measured in figures().items():
        for figure in measured if function_of(test) in tests else ():
            key = function_of(test), figure["name"]
            if key not in largest or figure["value"] > largest[key]["value"]:
                largest[key] = figure
    texts = [f"{one['name']}: {one['value']:g} {one['unit']}".strip() + f" ({one['on']})" for one in largest.values()]
    return "; ".join(texts) or "passes"


def stored_text(stored: dict[str, list[Figure]]) -> str:
    """Of the file of figures."""
    return json.dumps(dict(sorted(stored.items())), indent=1, ensure_ascii=False) + "\n"


def store(test: str, measured: list[Figure]) -> None:
    """Replace the figures of one test."""
    FIGURES.write_text(stored_text({**figures(), test: measured}), encoding="utf-8")
