"""Whether an algorithm that a package brings keeps to the protocol: asked once, before anything relies on it."""

from __future__ import annotations

import re

import numpy as np

from apps.engine.algorithms.base import Algorithm, PriorityResult
from apps.engine.algorithms.explanation import Explanation
from apps.engine.algorithms.inputs import compare_usage, prepare
from apps.engine.algorithms.running import run_foreign
from apps.engine.errors import PackageFailed
from apps.engine.installed import require_name, require_texts
from apps.engine.operators import Properties
from apps.engine.parameters import Parameter, read_settings
from apps.engine.tree import FairshareTree

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
# Parents, shares and usage: two leaves; two groups, one of them idle and with a leaf without shares.
_TREES = (
    ((-1, 0, 0), (1.0, 2.0, 1.0), (0.0, 3.0, 0.0)),
    ((-1, 0, 0, 1, 1, 2, 2), (1.0, 3.0, 1.0, 1.0, 2.0, 0.0, 5.0), (0.0, 0.0, 0.0, 7.0, 1.0, 0.0, 0.0)),
)


def check_algorithm(name: str, given: object) -> Algorithm:
    """The algorithm, or ValueError: what it says of itself is complete, and a small tree comes out well."""
    if not _NAME.fullmatch(name):
        raise ValueError("its name must be of a–z, 0–9 and single hyphens")
    require_name(given, name)
    require_texts(given, ("label", "formula", "component", "reference"))
    for listed, kind in (("parameters", Parameter), ("fields", str)):
        value = getattr(given, listed, None)
        if not isinstance(value, tuple) or not all(isinstance(each, kind) for each in value):
            raise ValueError(f"its {listed} must be a tuple of {kind.__name__}")
    if not isinstance(getattr(given, "takes_inherit", None), bool):
        raise ValueError("its takes_inherit must be True or False")
    for method in ("properties", "compute"):
        if not callable(getattr(given, method, None)):
            raise ValueError(f"it has no method {method}")
    algorithm: Algorithm = given  # type: ignore[assignment]  # just checked, member by member
    _try_out(algorithm)
    return algorithm


def _try_out(algorithm: Algorithm) -> None:
    try:
        settings = read_settings(algorithm.name, algorithm.parameters, {})
        properties = algorithm.properties(settings)
    except Exception as error:  # whatever a package does in its methods
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
