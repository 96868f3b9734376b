"""The worked example: one small tree, computed by the engine, with the numbers at each entry."""

from __future__ import annotations

import json
from typing import Any

from apps.core.code_paths import REPOSITORY
from apps.engine.cases import solve
from docsite.markdown import table

CASE = REPOSITORY / "docs/examples/worked-tree.json"


def solved() -> dict[str, Any]:
    result: dict[str, Any] = solve(json.loads(CASE.read_text(encoding="utf-8")))
    return result


def drawing() -> str:
    """The tree as text: usage, shares, target, actual and priority of each entry."""
    case, nodes = json.loads(CASE.read_text(encoding="utf-8")), solved()["nodes"]
    lines = ["root"]
    _draw(case, case["policy"]["children"], "", "", nodes, lines)
    return "```text\n" + "\n".join(lines) + "\n```"


def _draw(
    case: dict[str, Any],
    children: list[dict[str, Any]],
    path: str,
    before: str,
    nodes: dict[str, Any],
    lines: list[str],
) -> None:
    for at, child in enumerate(children):
        is_last = at == len(children) - 1
        here = f"{path}/{child['name']}"
        node = nodes[here]
        name = f"{before}{'└─' if is_last else '├─'} {child['name']}"
        usage = sum(used for path_of, used in case["usage"].items() if f"{path_of}/".startswith(f"{here}/"))
        lines.append(
            f"{name:<16} usage {usage:>4}   shares {child['shares']:>3}   target {node['target']:6.1%}   "
            f"actual {node['actual']:6.1%}   priority {node['priority']:+.3f}"
        )
        _draw(case, child.get("children", []), here, before + ("   " if is_last else "│  "), nodes, lines)


def order() -> str:
    """The leaves in the order in which their jobs start."""
    nodes = solved()["nodes"]
    case = json.loads(CASE.read_text(encoding="utf-8"))
    leaves = sorted(
        (leaf for leaf in nodes if leaf in _leaves(case["policy"], "")), key=lambda leaf: nodes[leaf]["rank"]
    )
    rows = [
        (str(nodes[leaf]["rank"]), leaf, str(nodes[leaf]["vector"]), f"{nodes[leaf]['factor']:.2f}") for leaf in leaves
    ]
    return table(("rank", "entry", "vector", "factor"), rows)


def _leaves(entry: dict[str, Any], path: str) -> set[str]:
    if "children" not in entry:
        return {path}
    return {leaf for child in entry["children"] for leaf in _leaves(child, f"{path}/{child['name']}")}
