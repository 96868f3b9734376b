"""The same computation as a recompute, from the totals of a snapshot instead of usage records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from apps.engine.algorithms import PriorityResult, get_algorithm, read_algorithm
from apps.engine.algorithms.inputs import compared_again, prepare
from apps.engine.errors import BadTree
from apps.engine.tree import FairshareTree

F8 = npt.NDArray[np.float64]


def compute_again(tree: FairshareTree, usage: F8, group_usage: F8, *, algorithm: Mapping[str, Any]) -> PriorityResult:
    """Priorities of a tree whose totals are known.

    usage: totals in the scope an entry is compared by; group_usage: in the one its children are compared by. Raises
    BadTree and BadParameter as `compute` does.
    """
    settings = read_algorithm(algorithm)
    chosen = get_algorithm(settings["name"])
    if tree.inherits.any() and not chosen.takes_inherit:
        at = int(np.argmax(tree.inherits))
        raise BadTree(f"{chosen.name} has no inherited shares; a number ≥ 0 is allowed", place=tree.path(at), row=at)
    prepared = prepare(tree)
    return chosen.compute(prepared, compared_again(prepared, usage, group_usage), settings)
