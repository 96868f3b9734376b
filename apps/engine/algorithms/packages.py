"""Algorithms of other packages: checked when loaded, and computed with checked results."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np

from apps.engine.algorithms.base import Algorithm, Column, Explanation, PriorityResult
from apps.engine.algorithms.inputs import Compared, Prepared, compare_usage, prepare
from apps.engine.errors import PackageFailed
from apps.engine.installed import require_name, require_texts
from apps.engine.operators import Properties
from apps.engine.parameters import Parameter, Settings, read_settings
from apps.engine.tree import FairshareTree

Inputs = TypeVar("Inputs", Prepared, Compared)
_NUMBERS = ("usage", "group_usage", "target", "actual", "priority", "target_global", "factor")
_COUNTS = ("rank", "scalar")
_MASKS = ("competes", "has_rank", "has_factor", "is_ranked")
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
# Parents, shares and usage: two leaves; two groups, one of them idle and with a leaf without shares.
_TREES = (
    ((-1, 0, 0), (1.0, 2.0, 1.0), (0.0, 3.0, 0.0)),
    ((-1, 0, 0, 1, 1, 2, 2), (1.0, 3.0, 1.0, 1.0, 2.0, 0.0, 5.0), (0.0, 0.0, 0.0, 7.0, 1.0, 0.0, 0.0)),
)


def run_foreign(
    package: str, algorithm: Algorithm, prepared: Prepared, compared: Compared, settings: Settings
) -> PriorityResult:
    """Compute with an algorithm of a package; PackageFailed if it raises or returns what a snapshot can't store."""
    shown = _read_only(prepared)
    inputs = replace(_read_only(compared), prepared=shown)
    try:
        result: object = algorithm.compute(shown, inputs, settings)
    except PackageFailed:  # from another package, whose operator the algorithm uses
        raise
    except (Exception, SystemExit) as error:  # packages may raise anything
        raise PackageFailed(package, "algorithm", algorithm.name, f"{type(error).__name__}: {error}") from error
    wrong = what_is_wrong(result, prepared, compared)
    if wrong:
        raise PackageFailed(package, "algorithm", algorithm.name, wrong)
    return result  # type: ignore[return-value]  # just checked


def what_is_wrong(result: object, prepared: Prepared, compared: Compared) -> str:
    """The reason why this can't be the result of a tree, in words; "" if it can."""
    if not isinstance(result, PriorityResult):
        return f"its method compute must give a PriorityResult, not a {type(result).__name__}"
    n = prepared.tree.n_entries
    if result.tree is not prepared.tree:
        return "its result is of another tree"
    for name in (*_NUMBERS, *_COUNTS, *_MASKS):
        problem = _wrong_array(getattr(result, name), n, "f" if name in _NUMBERS else "i" if name in _COUNTS else "b")
        if problem:
            return f"its {name} {problem}"
    for name, column in result.columns.items():
        problem = _wrong_column(column, n)
        if problem:
            return f"its column {name} {problem}"
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


def _read_only(inputs: Inputs) -> Inputs:
    """Replace arrays by read-only views; fields that share an array still share a view."""
    views: dict[int, Any] = {}
    for each in fields(inputs):
        value = getattr(inputs, each.name)
        if isinstance(value, np.ndarray) and id(value) not in views:
            views[id(value)] = value.view()
            views[id(value)].flags.writeable = False
    view_by_field = {each.name: views.get(id(getattr(inputs, each.name))) for each in fields(inputs)}
    return replace(inputs, **{name: view for name, view in view_by_field.items() if view is not None})


def check_algorithm(name: str, candidate: object) -> Algorithm:
    """The algorithm; raises ValueError unless its declarations are complete and small trees can be computed."""
    if not _NAME.fullmatch(name):
        raise ValueError("its name must be of a–z, 0–9 and single hyphens")
    require_name(candidate, name)
    require_texts(candidate, ("label", "formula", "component", "reference"))
    for listed, kind in (("parameters", Parameter), ("fields", str)):
        value = getattr(candidate, listed, None)
        if not isinstance(value, tuple) or not all(isinstance(each, kind) for each in value):
            raise ValueError(f"its {listed} must be a tuple of {kind.__name__}")
    if not isinstance(getattr(candidate, "takes_inherit", None), bool):
        raise ValueError("its takes_inherit must be True or False")
    for method in ("properties", "compute"):
        if not callable(getattr(candidate, method, None)):
            raise ValueError(f"it has no method {method}")
    algorithm: Algorithm = candidate  # type: ignore[assignment]  # just checked, member by member
    _try_out(algorithm)
    return algorithm


def _try_out(algorithm: Algorithm) -> None:
    try:
        settings = read_settings(algorithm.name, algorithm.parameters, {})
        properties = algorithm.properties(settings)
    except Exception as error:  # packages may raise anything
        raise ValueError(f"its properties can't be read: {type(error).__name__}: {error}") from error
    if not isinstance(properties, Properties):
        raise ValueError("its method properties must give Properties")
    for parent, shares, used in _TREES:
        is_leaf = [row not in parent for row in range(len(parent))]
        tree, _ = FairshareTree.from_columns(parent, shares, is_user=is_leaf)
        prepared = prepare(tree)
        compared = compare_usage(prepared, np.array(used), None)
        try:
            result = run_foreign("", algorithm, prepared, compared, settings)
        except PackageFailed as error:
            raise ValueError(f"a small tree can't be computed: {error.reason}") from error
        _check_explanation(algorithm, result)


def _check_explanation(algorithm: Algorithm, result: PriorityResult) -> None:
    explanation = getattr(algorithm, "explanation", None)
    if explanation is None:
        return
    if not isinstance(explanation, Explanation):
        raise ValueError("its explanation must be an Explanation")
    named = (explanation.component, explanation.used, explanation.due, explanation.own_ratio, explanation.exponent)
    missing = [name for name in named if name and name not in result.columns]
    if missing:
        raise ValueError(f"its explanation names the column {missing[0]!r}, which its result doesn't have")
