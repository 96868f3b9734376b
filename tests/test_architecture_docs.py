"""docs/architecture.md: its files exist and its walks follow imports."""

from __future__ import annotations

import ast
import re
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
WALKS = ("A usage record, from file to page", "A share, from editor to REST")


def _walk(title: str) -> list[str]:
    section = PAGE.partition(f"## {title}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\d+\. `([^`]+)`", section, flags=re.M)


def _imports(path: str) -> set[str]:
    """Files that a file imports, at any place of it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
        elif isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        else:
            continue
        for name in names:
            base = name.replace(".", "/")
            found |= {f"{base}.py", f"{base}/__init__.py"}
    return found


def test_every_file_of_the_page_exists() -> None:
    named = set(re.findall(r"`((?:agent|apps|fairshare_web|static|templates|tests)/[^`*<]+\.\w+)`", PAGE))
    assert len(named) > 30
    assert sorted(path for path in named if not (ROOT / path).is_file()) == []


@pytest.mark.parametrize("title", WALKS)
def test_each_module_of_a_walk_is_linked_to_the_next(title: str) -> None:
    walk = _walk(title)
    assert len(walk) > 10
    assert len(set(walk)) == len(walk), "a walk that returns"
    apart = [(one, other) for one, other in pairwise(walk) if other not in _imports(one) and one not in _imports(other)]
    assert apart == []


def test_the_page_lists_the_existing_rooms() -> None:
    drawn = PAGE.partition("```\n")[2].partition("```")[0]
    rooms = {path.parent.name for path in (ROOT / "apps").glob("*/__init__.py")}
    assert sorted(room for room in rooms if not re.search(rf"\b{room}\b", drawn)) == []
