"""Solve one case of `compute`: parsed JSON in, JSON result out; every error names the location."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from apps.engine.algorithms import PriorityResult, compute, get_algorithm, read_algorithm
from apps.engine.algorithms.base import Column
from apps.engine.algorithms.inputs import SMALLEST, prepare
from apps.engine.case_text import RepeatedKeys, abbreviate, name_of, read_id, shown, weight
from apps.engine.errors import BadCase, BadTree, EngineError
from apps.engine.tree import MAX_DEPTH, FairshareTree

RESERVE = "reserve"
USER = "user"


class Policy(NamedTuple):
    """A case's tree, the path of each entry in tree order, and the entry at each path."""

    tree: FairshareTree
    paths: list[str]
    entry_at: dict[str, int]


def solve(case: object) -> dict[str, Any]:
    """Compute the result of one case as JSON; raises EngineError with the location."""
    if isinstance(case, BadCase):
        raise case
    if not isinstance(case, dict):
        raise BadCase("a case is an object with algorithm, policy and usage")
    if isinstance(case, RepeatedKeys) and case.repeated in ("id", "algorithm", "policy", "usage"):
        raise BadCase("given twice", place=case.repeated)
    case_id = read_id(case.get("id"))
    settings = read_algorithm(_read_algorithm(case))
    policy = read_policy(case)
    _refuse_underflow(policy, settings)
    usage = _read_usage(case, policy)
    try:
        result = compute(policy.tree, usage, algorithm=settings)
    except BadTree as problem:
        place = problem.place if problem.row is None else policy.paths[problem.row]
        raise BadCase(problem.message, place=place) from None
    _refuse_infinite(policy, result)
    return {"id": case_id, "algorithm": settings, "nodes": dict(_nodes(policy, result))}


def _read_algorithm(case: dict[str, Any]) -> dict[str, Any]:
    algorithm = case.get("algorithm")
    if not isinstance(algorithm, dict):
        raise BadCase('must be an object such as {"name": "aequus"}', place="algorithm")
    if isinstance(algorithm, RepeatedKeys):
        raise BadCase("given twice", place=f"algorithm.{algorithm.repeated}")
    return algorithm


class _Columns:
    """Rows of a policy in breadth-first order, filled while reading."""

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
    """Read the nested entries of `policy` as a tree; works level by level, so that no depth exhausts the stack."""
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
        columns.parent,
        columns.shares,
        is_group=columns.is_group,
        is_reserve=columns.is_reserve,
        is_user=columns.is_user,
    )
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
    """Check that an entry is an object with a valid name."""
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
    value = weight(shares)
    if value is None:
        raise BadCase(f'shares {shown(shares)} can\'t be used; a finite number ≥ 0 or "parent" is allowed', place=path)
    return value


def _read_usage(case: dict[str, Any], policy: Policy) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Own usage of every entry; the root's is given as `/`."""
    usage_by_path = case.get("usage", {})
    if not isinstance(usage_by_path, dict):
        raise BadCase('must be an object of paths and numbers, such as {"/physics/alice": 1200}', place="usage")
    if isinstance(usage_by_path, RepeatedKeys):
        raise BadCase("usage is given twice", place=usage_by_path.repeated)
    usage = np.zeros(policy.tree.n_entries)
    for path, value in usage_by_path.items():
        entry = policy.entry_at.get(path) if path else None
        if path == "/":
            entry = 0
        if entry is None:
            raise BadCase(
                "usage is for a path that isn't in the tree; '/name/name' below the root is", place=shown(path)
            )
        amount = weight(value)
        if amount is None:
            raise BadCase(f"usage {shown(value)} can't be used; a finite number ≥ 0 is allowed", place=path)
        if amount > 0 and policy.tree.is_reserve[entry]:
            raise BadCase("a reserve can't have usage", place=path)
        usage[entry] = amount
    return usage


def _refuse_underflow(policy: Policy, settings: dict[str, Any]) -> None:
    """Reject shares that are too small: their targets in doubles would equal those of zero shares.

    Under algorithms that use the global target, this is also checked along the whole path.
    """
    prepared = prepare(policy.tree)
    lost, where = prepared.lost, "in its group"
    if lost < 0 and not get_algorithm(settings["name"]).properties(settings).isolation:
        lost, where = prepared.lost_global, "in the whole tree"
    if lost >= 0:
        message = f"its target {where} is below {SMALLEST:.3g}: the shares are too far apart to be compared"
        raise BadCase(message, place=policy.paths[lost])


def _refuse_infinite(policy: Policy, result: PriorityResult) -> None:
    """Reject results with numbers that JSON can't represent, and name the entry."""
    for name in get_algorithm(result.settings["name"]).fields:
        values = result.columns[name].values if name in result.columns else getattr(result, name, None)
        if not isinstance(values, np.ndarray) or values.dtype.kind != "f":
            continue
        is_bad = np.isnan(values) if name == "level_fs" else ~np.isfinite(values)
        if is_bad.any():
            place = policy.paths[int(np.argmax(is_bad))] or "/"
            raise BadCase(f"{name} is beyond the largest number", place=place)


def _nodes(policy: Policy, result: PriorityResult) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield path and result of every entry but the root: parents before children, siblings in order."""
    fields = get_algorithm(result.settings["name"]).fields
    rows = list(zip(*(_json_values(result, name) for name in fields), strict=True))
    is_group = policy.tree.is_group.tolist() if "value" in fields else None
    for entry in _depth_first(policy.tree):
        node = dict(zip(fields, rows[entry], strict=True))
        if is_group is not None and is_group[entry]:
            del node["value"]
        yield policy.paths[entry], node


def _json_values(result: PriorityResult, name: str) -> list[Any]:
    """A result field of every entry; None where it doesn't exist, and "Infinity" for infinity."""
    if name == "vector":
        return _vectors(result)
    if name == "value":
        numbers = map(result.grid_value, range(result.tree.n_entries))
        return [None if number is None else str(number) for number in numbers]
    column = result.columns.get(name)
    if column is None:
        exists = {"rank": result.has_rank, "factor": result.has_factor}.get(name, result.competes)
        column = Column(getattr(result, name), exists)
    values: list[Any] = column.values.tolist()
    if name == "level_fs":
        values = [number if number != math.inf else "Infinity" for number in values]
    if column.exists is not None and not column.exists.all():
        values = [number if here else None for number, here in zip(values, column.exists.tolist(), strict=True)]
    return values


def _vectors(result: PriorityResult) -> list[list[int]]:
    """Every entry's vector: its parent's and one more component."""
    contest, entry_of, seat, _ = result.tree.competition
    vectors: list[list[int]] = [[]]
    components = result.scalar[entry_of].tolist()
    for above, component in zip(contest.parent.tolist()[1:], components[1:], strict=True):
        vectors.append([*vectors[above], component])
    return [vectors[at] for at in seat.tolist()]


def _depth_first(tree: FairshareTree) -> Iterator[int]:
    first_child, child_count = tree.first_child.tolist(), tree.child_count.tolist()
    waiting = [0]
    while waiting:
        entry = waiting.pop()
        if entry:
            yield entry
        if child_count[entry]:
            first = first_child[entry]
            waiting.extend(range(first + child_count[entry] - 1, first - 1, -1))


def solve_all(
    cases: list[Any], *, first_index: int = 0, solver: Callable[[object], dict[str, Any]] = solve
) -> Iterator[dict[str, Any] | tuple[str, str]]:
    """Yield results in order; for a bad case its name, the problem and its location."""
    for index, case in enumerate(cases, start=first_index):
        try:
            yield solver(case)
        except EngineError as problem:
            place = f"{abbreviate(problem.place)}: " if problem.place else ""
            yield name_of(case, index), place + problem.message
