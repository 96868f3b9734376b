"""One case of `compute`: parsed JSON in, a result ready for JSON out; every refusal names the place."""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from apps.engine.algorithms import PriorityResult, compute, read_algorithm
from apps.engine.case_text import RepeatedKeys
from apps.engine.errors import BadCase, EngineError
from apps.engine.tree import MAX_DEPTH, FairshareTree

RESERVE = "reserve"
USER = "user"
_LONGEST_PLACE = 200


class Policy(NamedTuple):
    """A case's tree, the path of every entry in the tree's order, and the entry at each path."""

    tree: FairshareTree
    paths: list[str]
    entry_at: dict[str, int]


def solve(case: object) -> dict[str, Any]:
    """The result of one case as the contract has it; raises EngineError with the place."""
    if isinstance(case, BadCase):
        raise case
    if not isinstance(case, dict):
        raise BadCase("a case is an object with algorithm, policy and usage")
    if isinstance(case, RepeatedKeys) and case.repeated in ("id", "algorithm", "policy", "usage"):
        raise BadCase("given twice", place=case.repeated)
    case_id = _read_id(case.get("id"))
    settings = read_algorithm(_read_algorithm(case))
    policy = read_policy(case)
    usage = _read_usage(case, policy)
    result = compute(policy.tree, usage, algorithm=settings)
    return {"id": case_id, "algorithm": settings, "nodes": dict(_nodes(policy, result))}


def name_of(case: object, index: int) -> str:
    """What an error calls the case: its id, else its index."""
    found = case.case_id if isinstance(case, BadCase) else case.get("id") if isinstance(case, dict) else None
    is_named = isinstance(found, str | int | float) and not isinstance(found, bool) and found != ""
    return abbreviate(str(found)) if is_named else str(index)


def abbreviate(text: str) -> str:
    """Head and tail of a place that is too long for a line."""
    half = _LONGEST_PLACE // 2
    return text if len(text) <= _LONGEST_PLACE else f"{text[:half]}…{text[-half:]}"


def _read_id(value: object) -> str | int | float | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise BadCase("must be text or a number", place="id")
    return value


def _read_algorithm(case: dict[str, Any]) -> dict[str, Any]:
    algorithm = case.get("algorithm")
    if not isinstance(algorithm, dict):
        raise BadCase('must be an object such as {"name": "aequus"}', place="algorithm")
    if isinstance(algorithm, RepeatedKeys):
        raise BadCase("given twice", place=f"algorithm.{algorithm.repeated}")
    return algorithm


class _Columns:
    """Rows of a policy in breadth-first order, as they are read."""

    def __init__(self) -> None:
        self.parent: list[int] = []
        self.shares: list[float] = []
        self.is_group: list[bool] = []
        self.is_reserve: list[bool] = []
        self.is_user: list[bool] = []
        self.paths: list[str] = []

    def add(self, parent: int, path: str, shares: float, kind: str | None, *, is_group: bool) -> int:
        self.parent.append(parent)
        self.shares.append(shares)
        self.is_group.append(is_group)
        self.is_reserve.append(kind == RESERVE)
        self.is_user.append(kind == USER)
        self.paths.append(path)
        return len(self.parent) - 1


def read_policy(case: dict[str, Any]) -> Policy:
    """The nested entries of `policy` as a tree; reads level by level, so that no depth exhausts the stack."""
    root = case.get("policy")
    if not isinstance(root, dict):
        raise BadCase("must be an object with children", place="policy")
    _refuse_repeated(root, "/")
    columns = _Columns()
    columns.add(-1, "", 1.0, _read_kind(root, "/"), is_group=True)
    waiting: deque[tuple[dict[str, Any], int, int]] = deque([(root, 0, 0)])
    while waiting:
        entry, row, depth = waiting.popleft()
        path = columns.paths[row]
        names: set[str] = set()
        for number, child in enumerate(_read_children(entry, path)):
            below = _read_entry(child, f"{path or '/'} child {number}")
            child_path = f"{path}/{below['name']}"
            if depth == MAX_DEPTH:
                raise BadCase(f"is at depth {depth + 1}; at most {MAX_DEPTH} levels are allowed", place=child_path)
            if below["name"] in names:
                raise BadCase("two siblings have this name; names among siblings must differ", place=child_path)
            names.add(below["name"])
            columns_row = _add_entry(columns, row, child_path, below)
            if below.get("children"):
                waiting.append((below, columns_row, depth + 1))
    tree, order = FairshareTree.from_columns(
        columns.parent, columns.shares, is_group=columns.is_group, is_reserve=columns.is_reserve,
        is_user=columns.is_user,
    )  # fmt: skip
    paths = [columns.paths[row] for row in order.tolist()]
    return Policy(tree, paths, {path: entry for entry, path in enumerate(paths)})


def _add_entry(columns: _Columns, parent: int, path: str, entry: dict[str, Any]) -> int:
    _refuse_repeated(entry, path)
    kind = _read_kind(entry, path)
    children = _read_children(entry, path)
    if kind == RESERVE and children:
        raise BadCase("a reserve has no children", place=path)
    return columns.add(parent, path, _read_shares(entry, path), kind, is_group="children" in entry)


def _refuse_repeated(entry: dict[str, Any], path: str) -> None:
    if isinstance(entry, RepeatedKeys) and entry.repeated in ("name", "shares", "kind", "children"):
        raise BadCase(f"{entry.repeated} is given twice", place=path)


def _read_entry(entry: object, place: str) -> dict[str, Any]:
    """An entry with a usable name."""
    if not isinstance(entry, dict):
        raise BadCase("must be an object with name and shares", place=place)
    name = entry.get("name")
    if not isinstance(name, str) or not name or "/" in name:
        what = "is missing" if "name" not in entry else f"{shown(name)} can't be used"
        raise BadCase(f"name {what}; text that isn't empty and has no '/' is allowed", place=place)
    return entry


def _read_children(entry: dict[str, Any], path: str) -> list[Any]:
    children = entry.get("children", [])
    if not isinstance(children, list):
        raise BadCase("children must be a list", place=path or "/")
    return children


def _read_kind(entry: dict[str, Any], path: str) -> str | None:
    kind = entry.get("kind")
    if kind is not None and not isinstance(kind, str):
        raise BadCase(f"kind {shown(kind)} can't be used; text is allowed", place=path)
    return kind


def _read_shares(entry: dict[str, Any], path: str) -> float:
    if "shares" not in entry:
        raise BadCase('shares are missing; a finite number ≥ 0 or "parent" is allowed', place=path)
    shares = entry["shares"]
    if shares == "parent":
        return math.nan
    value = _weight(shares)
    if value is None:
        raise BadCase(f'shares {shown(shares)} can\'t be used; a finite number ≥ 0 or "parent" is allowed', place=path)
    return value


def _weight(value: object) -> float | None:
    """The number as a double, if it is one, finite and not negative."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) and found >= 0 else None


def shown(value: object) -> str:
    """A value as it stood in the JSON text, cut where it is absurdly long."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 256:
        return "beyond the largest number"
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:50]}…"


def _read_usage(case: dict[str, Any], policy: Policy) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Own usage of every entry; the root's may be given as `/`."""
    given = case.get("usage", {})
    if not isinstance(given, dict):
        raise BadCase('must be an object of paths and numbers, such as {"/physics/alice": 1200}', place="usage")
    if isinstance(given, RepeatedKeys):
        raise BadCase("usage is given twice", place=given.repeated)
    usage = np.zeros(policy.tree.n_entries)
    for path, value in given.items():
        entry = policy.entry_at.get(path) if path else None
        if path == "/":
            entry = 0
        if entry is None:
            raise BadCase(
                "usage is for a path that isn't in the tree; '/name/name' below the root is", place=shown(path)
            )
        amount = _weight(value)
        if amount is None:
            raise BadCase(f"usage {shown(value)} can't be used; a finite number ≥ 0 is allowed", place=path)
        if amount > 0 and policy.tree.is_reserve[entry]:
            raise BadCase("a reserve can't have usage", place=path)
        usage[entry] = amount
    return usage


def _nodes(policy: Policy, result: PriorityResult) -> Iterator[tuple[str, dict[str, Any]]]:
    """Path and answer of every entry but the root, parents before their children, siblings in order."""
    columns = {name: getattr(result, name).tolist() for name in ("target", "actual", "priority", "rank", "factor")}
    tree = policy.tree
    for entry in _depth_first(tree):
        competes, has_rank = bool(result.competes[entry]), bool(result.has_rank[entry])
        node: dict[str, Any] = {
            name: columns[name][entry] if competes else None for name in ("target", "actual", "priority")
        }
        if result.resolution is not None:
            node["vector"] = result.vector(entry)
        node |= {name: columns[name][entry] if has_rank else None for name in ("rank", "factor")}
        if result.resolution is None and not tree.is_group[entry]:
            value = result.grid_value(entry)
            node["value"] = None if value is None else str(value)
        yield policy.paths[entry], node


def _depth_first(tree: FairshareTree) -> Iterator[int]:
    waiting = [0]
    while waiting:
        entry = waiting.pop()
        if entry:
            yield entry
        first = int(tree.first_child[entry])
        waiting.extend(range(first + int(tree.child_count[entry]) - 1, first - 1, -1))


def solve_all(cases: list[Any], *, first_index: int = 0) -> Iterator[dict[str, Any] | tuple[str, str]]:
    """Results in order; for a bad case its name and what is wrong with it, where."""
    for index, case in enumerate(cases, start=first_index):
        try:
            yield solve(case)
        except EngineError as problem:
            place = f"{abbreviate(problem.place)}: " if problem.place else ""
            yield name_of(case, index), place + problem.message
