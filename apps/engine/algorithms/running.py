"""Computing with an algorithm of a package: read-only arrays go in, and what comes out is checked before use."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np

from apps.engine.algorithms.base import Algorithm, Column, PriorityResult
from apps.engine.algorithms.inputs import Compared, Prepared
from apps.engine.errors import PackageFailed
from apps.engine.parameters import Settings

Inputs = TypeVar("Inputs", Prepared, Compared)
_NUMBERS = ("usage", "group_usage", "target", "actual", "priority", "target_global", "factor")
_COUNTS = ("rank", "scalar")
_MASKS = ("competes", "has_rank", "has_factor", "is_ranked")


def run_foreign(
    package: str, algorithm: Algorithm, prepared: Prepared, compared: Compared, settings: Settings
) -> PriorityResult:
    """The result, or PackageFailed: the algorithm raised, or gave what a snapshot can't hold."""
    shown = _read_only(prepared)
    given = replace(_read_only(compared), prepared=shown)
    try:
        result: object = algorithm.compute(shown, given, settings)
    except PackageFailed:  # of another package, whose operator it uses
        raise
    except (Exception, SystemExit) as error:  # whatever a package does in its methods
        raise PackageFailed(package, "algorithm", algorithm.name, f"{type(error).__name__}: {error}") from error
    wrong = what_is_wrong(result, prepared, compared)
    if wrong:
        raise PackageFailed(package, "algorithm", algorithm.name, wrong)
    return result  # type: ignore[return-value]  # just checked


def what_is_wrong(result: object, prepared: Prepared, compared: Compared) -> str:
    """Why this can't be the result of a tree, in words; "" where it can."""
    if not isinstance(result, PriorityResult):
        return f"its method compute must give a PriorityResult, not a {type(result).__name__}"
    n = prepared.tree.n_entries
    if result.tree is not prepared.tree:
        return "its result is of another tree"
    for name in (*_NUMBERS, *_COUNTS, *_MASKS):
        found = _wrong_array(getattr(result, name), n, "f" if name in _NUMBERS else "i" if name in _COUNTS else "b")
        if found:
            return f"its {name} {found}"
    for name, column in result.columns.items():
        found = _wrong_column(column, n)
        if found:
            return f"its column {name} {found}"
    if not (np.array_equal(result.usage, compared.usage) and np.array_equal(result.group_usage, compared.group_usage)):
        return "its usage must be what it was given"
    if not ((result.factor >= 0) & (result.factor <= 1)).all():
        return "its factors must be from 0 to 1"
    if (result.rank[result.has_rank] < 1).any():
        return "its ranks must be 1 or more where it has some"
    if result.n_ranked != int(np.count_nonzero(result.is_ranked)):
        return f"its n_ranked is {result.n_ranked}, and is_ranked has {int(np.count_nonzero(result.is_ranked))} leaves"
    return ""


def _wrong_array(values: object, n: int, kind: str) -> str:
    if not isinstance(values, np.ndarray) or values.shape != (n,):
        return f"must be an array of {n}, not {_shape_of(values)}"
    if values.dtype.kind != kind and not (kind == "i" and values.dtype.kind == "u"):
        return f"must be of {'numbers' if kind == 'f' else 'integers' if kind == 'i' else 'booleans'}"
    if kind == "f" and np.isnan(values).any():
        return f"is NaN for entry {int(np.argmax(np.isnan(values)))}"
    return ""


def _wrong_column(column: object, n: int) -> str:
    if not isinstance(column, Column):
        return f"must be a Column, not a {type(column).__name__}"
    return _wrong_array(column.values, n, "f") or ("" if column.exists is None else _wrong_array(column.exists, n, "b"))


def _shape_of(values: object) -> str:
    return f"one of shape {values.shape}" if isinstance(values, np.ndarray) else f"a {type(values).__name__}"


def _read_only(given: Inputs) -> Inputs:
    """With read-only views; what was one array stays one."""
    views: dict[int, Any] = {}
    for each in fields(given):
        value = getattr(given, each.name)
        if isinstance(value, np.ndarray) and id(value) not in views:
            views[id(value)] = value.view()
            views[id(value)].flags.writeable = False
    found = {each.name: views.get(id(getattr(given, each.name))) for each in fields(given)}
    return replace(given, **{name: view for name, view in found.items() if view is not None})
