"""Whether an algorithm that a package brings keeps to the protocol: asked once, before anything relies on it."""

from __future__ import annotations

import re

import numpy as np

from apps.engine.algorithms.base import Algorithm, PriorityResult
from apps.engine.algorithms.inputs import compare_usage, prepare
from apps.engine.installed import require_name, require_texts
from apps.engine.operators import Properties
from apps.engine.parameters import Parameter, read_settings
from apps.engine.tree import FairshareTree

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


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
    algorithm: Algorithm = given  # type: ignore[assignment]  # just looked at, member by member
    try:
        _try_out(algorithm)
    except ValueError:
        raise
    except Exception as error:  # whatever a package does in its methods
        raise ValueError(f"a small tree can't be computed: {type(error).__name__}: {error}") from error
    return algorithm


def _try_out(algorithm: Algorithm) -> None:
    settings = read_settings(algorithm.name, algorithm.parameters, {})
    if not isinstance(algorithm.properties(settings), Properties):
        raise ValueError("its method properties must give Properties")
    tree, _ = FairshareTree.from_columns([-1, 0, 0], [1.0, 2.0, 1.0], is_user=[False, True, True])
    prepared = prepare(tree)
    result = algorithm.compute(prepared, compare_usage(prepared, np.array([0.0, 3.0, 0.0]), None), settings)
    if not isinstance(result, PriorityResult):
        raise ValueError("its method compute must give a PriorityResult")
    arrays = {name: getattr(result, name) for name in ("usage", "target", "actual", "priority", "rank", "factor")}
    arrays |= {name: column.values for name, column in result.columns.items()}
    for name, values in arrays.items():
        if np.shape(values) != (tree.n_entries,) or np.isnan(np.asarray(values, dtype=np.float64)).any():
            raise ValueError(f"its {name} of a small tree must be {tree.n_entries} numbers, none of them NaN")
    if not ((result.factor >= 0) & (result.factor <= 1)).all():
        raise ValueError("its factors of a small tree must be from 0 to 1")
