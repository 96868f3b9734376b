"""The appendix attacks.md lists each attack with its result and the tests that make it, which exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_HEAD = "| attack | result | test |"
_NAMED = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


def rows() -> list[tuple[str, str, str]]:
    """Attack, result and tests of each row of the tables of attacks."""
    found: list[tuple[str, str, str]] = []
    is_inside = False
    for line in (ROOT / "docs/appendices/attacks.md").read_text(encoding="utf-8").splitlines():
        is_inside = line == _HEAD or (is_inside and line.startswith("|"))
        if is_inside and line != _HEAD and not line.startswith("|---"):
            attack, result, tests = (cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1])
            found.append((attack, result, tests))
    return found


def names_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_each_attack_has_a_result_and_tests_that_exist() -> None:
    assert len(rows()) > 40
    missing = []
    for attack, result, tests in rows():
        named = _NAMED.findall(tests)
        if not result or not named or len(named) != tests.count("`") // 2:
            missing.append(f"{attack}: {tests}")
        for path, name in named:
            if not (ROOT / path).exists() or name not in names_in(ROOT / path):
                missing.append(f"{path}::{name}")
    assert missing == []


def test_each_file_of_attacks_is_in_a_table() -> None:
    """A new attack gets its row."""
    named = {path for _attack, _result, tests in rows() for path, _name in _NAMED.findall(tests)}
    files = {f"tests/security/{path.name}" for path in Path(__file__).parent.glob("test_*.py")}
    assert files - named == {"tests/security/test_documented.py"}
