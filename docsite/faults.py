"""The appendix faults.md: each fault with its promise, its marked tests, and what they measured last."""

from __future__ import annotations

import json
from typing import TypedDict

from apps.core.code_paths import REPOSITORY
from docsite.fault_promises import PROMISES
from docsite.markdown import code, table
from docsite.marked_tests import function_of, marked_tests

FIGURES = REPOSITORY / "docsite/fault_figures.json"


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


def tests_by_fault() -> dict[str, list[str]]:
    return marked_tests("fault")


def figures() -> dict[str, list[Figure]]:
    """By test, with its parameters."""
    stored: dict[str, list[Figure]] = json.loads(FIGURES.read_text(encoding="utf-8"))
    return stored


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
