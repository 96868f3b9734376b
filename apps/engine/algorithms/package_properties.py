"""Properties of algorithms of packages, tested on fixed small trees.

A property that fails here is disproved by an example; one that holds here may still fail on another tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from random import Random

import numpy as np

from apps.engine.algorithms.base import Algorithm, PriorityResult
from apps.engine.algorithms.inputs import compare_usage, prepare
from apps.engine.algorithms.packages import run_foreign
from apps.engine.arrays import BoolArray, FloatArray, IntArray
from apps.engine.operators import Properties, on_target
from apps.engine.parameters import Settings
from apps.engine.tree import FairshareTree

_N_DRAWN, _N_ENTRIES = 10, 11
# Priorities closer together than this count as equal, so that rounding errors are no disagreement.
_EQUAL = 1e-9
_STEPS, _ACTIVE, _NEAR = 200, 5 / 8, 0.01  # the active shares are 5 : 3, the idle one is 2


@dataclass(frozen=True)
class _Rows:
    """A tree in breadth-first order, row 0 the root; only leaves have usage, and they are users."""

    parent: tuple[int, ...]
    shares: tuple[float, ...]
    usage: tuple[float, ...]

    def groups(self) -> Iterator[list[int]]:
        for parent in sorted(set(self.parent[1:])):
            yield [row for row, above in enumerate(self.parent) if above == parent]

    def is_below(self, row: int, ancestor: int) -> bool:
        while row > 0 and row != ancestor:
            row = self.parent[row]
        return row == ancestor

    def with_more(self, row: int, *, shares: float = 0.0, usage: float = 0.0) -> _Rows:
        more_shares = tuple(each + shares * (at == row) for at, each in enumerate(self.shares))
        return replace(
            self, shares=more_shares, usage=tuple(u + usage * (at == row) for at, u in enumerate(self.usage))
        )


_Solve = Callable[[_Rows], PriorityResult]
# Two tied accounts, whose order in the list decides under Slurm's own ties.
_TIED = _Rows((-1, 0, 0, 1, 1, 2, 2), (1, 1, 1, 1, 0, 1, 0), (0.0,) * 7)
_IDLE = _Rows((-1, 0, 0, 1, 1, 1, 2), (1, 1, 1, 5, 3, 2, 1), (0, 0, 0, 1, 1, 0, _STEPS))


def measure_properties(algorithm: Algorithm, settings: Settings) -> Properties:
    """Properties that held on all trees. Raises PackageFailed if the algorithm fails on one of them."""

    def solve(rows: _Rows) -> PriorityResult:
        parent = np.array(rows.parent)
        is_leaf = ~np.isin(np.arange(len(parent)), parent)
        prepared = prepare(FairshareTree.from_columns(parent, rows.shares, is_user=is_leaf)[0])
        return run_foreign("", algorithm, prepared, compare_usage(prepared, np.array(rows.usage), None), settings)

    trees = [_TIED, _IDLE, *_drawn()]
    return Properties(
        isolation=all(_is_isolated(solve, rows) for rows in trees),
        proportional_redistribution=_redistributes_in_proportion(solve),
        scale_invariance=all(_keeps_under_scaling(solve, rows) for rows in trees),
        boundaries=_has_boundaries([solve(rows) for rows in trees]),
        order_in_groups=all(_keeps_order_in_groups(solve, rows) for rows in trees),
        monotone=all(_is_monotone(solve, rows) for rows in trees),
        order_independent=all(_ignores_order(solve, rows) for rows in trees),
        sign=all(_has_sign(solve(rows)) for rows in trees),
    )


def disproved(measured: Properties, declared: Properties) -> tuple[str, ...]:
    """Names of properties that are declared to hold and are disproved by an example."""
    names = [each.name for each in fields(Properties)]
    return tuple(name for name in names if getattr(declared, name) and not getattr(measured, name))


def _drawn() -> Iterator[_Rows]:
    """Deterministic trees with small whole shares and usage, so that some are 0 and some tie."""
    for seed in range(_N_DRAWN):
        draw = Random(seed)
        parent = [-1, *sorted(draw.randrange(0, max(1, row // 2)) for row in range(1, _N_ENTRIES))]
        usage = [0.0 if row in parent else float(draw.choice((0, 1, 3, 40, 900))) for row in range(_N_ENTRIES)]
        yield _Rows(tuple(parent), tuple(float(draw.randrange(0, 7)) for _ in parent), tuple(usage))


def _elsewhere(rows: _Rows) -> Iterator[tuple[list[int], _Rows]]:
    """Each group, and the tree with more usage at a leaf that isn't below the group's parent."""
    leaves = [row for row in range(1, len(rows.parent)) if row not in rows.parent]
    for group in rows.groups():
        parent = rows.parent[group[0]]
        for row in [leaf for leaf in leaves if not rows.is_below(leaf, parent)][:2]:
            yield group, rows.with_more(row, usage=500.0)


def _is_isolated(solve: _Solve, rows: _Rows) -> bool:
    before = solve(rows)
    return all(
        np.array_equal(before.priority[group], solve(after).priority[group]) for group, after in _elsewhere(rows)
    )


def _keeps_order_in_groups(solve: _Solve, rows: _Rows) -> bool:
    before = solve(rows)
    for group, after in ((group, solve(more)) for group, more in _elsewhere(rows)):
        leaves = [row for row in group if before.is_ranked[row]]
        ranks = -before.rank[leaves], -after.rank[leaves]
        if _is_reversed(before.priority[group], after.priority[group]) or _is_reversed(*ranks):
            return False
    return True


def _is_reversed(before: FloatArray | IntArray, after: FloatArray | IntArray) -> bool:
    """Whether any pair's order is reversed."""
    was, now = np.subtract.outer(before, before) > _EQUAL, np.subtract.outer(after, after) < -_EQUAL
    return bool((was & now).any())


def _keeps_under_scaling(solve: _Solve, rows: _Rows) -> bool:
    """Scale by powers of two, which are exact: all usage, and the shares of one group after the other."""
    before = solve(rows)
    scaled = [replace(rows, usage=tuple(0.25 * each for each in rows.usage))]
    for group in rows.groups():
        scaled.append(
            replace(rows, shares=tuple(s * (8.0 if at in group else 1.0) for at, s in enumerate(rows.shares)))
        )
    return all(_are_alike(before, solve(each), np.arange(len(rows.parent))) for each in scaled)


def _ignores_order(solve: _Solve, rows: _Rows) -> bool:
    """Whether results don't depend on the order of siblings.

    Siblings are reversed; the order of groups stays, so that rows stay breadth-first.
    """
    order_of = np.arange(len(rows.parent))  # new row i was row order_of[i]
    for group in rows.groups():
        order_of[group] = group[::-1]
    new_row = np.argsort(order_of)
    # Children follow their parents: sorted by the new row of the parent, then in the new order of siblings.
    order: list[int] = sorted(
        order_of.tolist(), key=lambda old: (-1 if old == 0 else int(new_row[rows.parent[old]]), int(new_row[old]))
    )
    at = np.argsort(order)
    turned = _Rows(
        tuple(-1 if old == 0 else int(at[rows.parent[old]]) for old in order),
        tuple(rows.shares[old] for old in order),
        tuple(rows.usage[old] for old in order),
    )
    return _are_alike(solve(rows), solve(turned), at)


def _are_alike(result: PriorityResult, other: PriorityResult, at: IntArray) -> bool:
    """Whether the entries, which are at index `at` in the other result, have equal ranks and priorities."""
    same_rank = np.array_equal(result.rank, other.rank[at])
    return same_rank and bool((np.abs(result.priority - other.priority[at]) <= _EQUAL).all())


def _is_monotone(solve: _Solve, rows: _Rows) -> bool:
    before = solve(rows)
    for row in range(1, len(rows.parent)):
        richer = solve(rows.with_more(row, shares=3.0))
        busier = solve(rows.with_more(row, usage=50.0))
        if richer.priority[row] < before.priority[row] - _EQUAL or busier.priority[row] > before.priority[row] + _EQUAL:
            return False
        siblings = [
            leaf for leaf, above in enumerate(rows.parent) if above == rows.parent[row] and before.is_ranked[leaf]
        ]
        if before.is_ranked[row] and (
            _is_overtaken(before.rank, richer.rank, row, siblings)
            or _is_overtaken(-before.rank, -busier.rank, row, siblings)
        ):
            return False
    return True


def _is_overtaken(before: IntArray, after: IntArray, row: int, among: Sequence[int]) -> bool:
    """Whether a leaf whose number was larger than the row's has a smaller one now."""
    return any(before[each] > before[row] and after[each] < after[row] for each in among)


def _has_sign(result: PriorityResult) -> bool:
    """Whether priorities are positive below the target, negative above it, 0 on it.

    Entries with neither shares nor usage are ignored.
    """
    target, actual = result.target[1:], result.actual[1:]
    expected = np.where(on_target(target, actual), 0.0, np.sign(target - actual))
    counts: BoolArray = (target > 0) | (actual > 0)
    return bool((np.sign(result.priority[1:]) == expected)[counts].all())


def _has_boundaries(results: Iterable[PriorityResult]) -> bool:
    """Whether no usage has the highest priority of all trees, and usage without a target the lowest."""
    priority, highest, lowest = (np.concatenate(each) for each in zip(*map(_ends, results), strict=True))
    return bool((priority[highest] == priority.max()).all() and (priority[lowest] == priority.min()).all())


def _ends(result: PriorityResult) -> tuple[FloatArray, BoolArray, BoolArray]:
    used, target = result.actual[1:] > 0, result.target[1:]
    return result.priority[1:], ~used & (result.target_global[1:] > 0), used & (target == 0)


def _redistributes_in_proportion(solve: _Solve) -> bool:
    """Whether idle shares are redistributed in proportion.

    Of two entries with shares 5 and 3 the one ahead gets the next job, while a third with 2 is idle: the first ends up
    with 5/8.
    """
    rows = _IDLE
    for _ in range(_STEPS):
        result = solve(rows)
        first, second = ((result.rank[row], -result.priority[row]) for row in (3, 4))
        rows = rows.with_more(3 if first <= second else 4, usage=1.0)
    return abs(rows.usage[3] / (rows.usage[3] + rows.usage[4]) - _ACTIVE) <= _NEAR
