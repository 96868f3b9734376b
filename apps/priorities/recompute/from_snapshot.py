"""Recompute from the totals of a snapshot instead of usage records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from apps.core.errors import Conflict
from apps.engine.algorithms import PriorityResult, compute_prepared, get_algorithm, read_algorithm
from apps.engine.algorithms.inputs import compared_again, prepare
from apps.engine.errors import BadParameter, BadTree
from apps.engine.tree import FairshareTree
from apps.policies.operations.algorithm_fit import refusing_failed_packages

F8 = npt.NDArray[np.float64]


@contextmanager
def needing_the_algorithm() -> Iterator[None]:
    """Where nothing can be said without computing: an algorithm whose package is gone is a Conflict, `no_algorithm`."""
    try:
        yield
    except BadParameter as error:
        raise Conflict(str(error), code="no_algorithm") from None


def compute_again(tree: FairshareTree, usage: F8, group_usage: F8, *, algorithm: Mapping[str, Any]) -> PriorityResult:
    """Priorities of a tree whose totals are known.

    usage: totals in the scope an entry is compared by; group_usage: in the one its children are compared by. Raises
    BadTree and BadParameter as `compute` does, and Invalid (`package_failed`) where a package fails.
    """
    settings = read_algorithm(algorithm)
    chosen = get_algorithm(settings["name"])
    if tree.inherits.any() and not chosen.takes_inherit:
        at = int(np.argmax(tree.inherits))
        raise BadTree(f"{chosen.name} has no inherited shares; a number ≥ 0 is allowed", place=tree.path(at), row=at)
    prepared = prepare(tree)
    with refusing_failed_packages():
        return compute_prepared(prepared, compared_again(prepared, usage, group_usage), settings)
