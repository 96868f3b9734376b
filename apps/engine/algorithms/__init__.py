"""The algorithms by name, and the one call that computes a priority tree."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from apps.engine import operators
from apps.engine.algorithms.aequus import Aequus
from apps.engine.algorithms.base import LEVELS, NUMBER, Algorithm, Explanation, PriorityResult
from apps.engine.algorithms.flux import Flux
from apps.engine.algorithms.gridwide import Gridwide
from apps.engine.algorithms.inputs import Compared, Prepared, compare_usage, prepare
from apps.engine.algorithms.packages import check_algorithm, run_foreign
from apps.engine.algorithms.slurm_classic import SlurmClassic
from apps.engine.algorithms.slurm_depth_oblivious import SlurmDepthOblivious
from apps.engine.algorithms.slurm_fair_tree import SlurmFairTree
from apps.engine.errors import BadParameter, BadTree
from apps.engine.installed import Installed, load_installed, told_why
from apps.engine.parameters import Parameter, Settings, read_settings
from apps.engine.tree import FairshareTree

__all__ = [
    "Algorithm",
    "Explanation",
    "Parameter",
    "PriorityResult",
    "all_algorithms",
    "brought_algorithms",
    "compute",
    "compute_prepared",
    "explanation_of",
    "get_algorithm",
    "package_of",
    "read_algorithm",
]

ENTRY_POINT_GROUP = "fairshare.algorithms"
_BUILT_IN: dict[str, Algorithm] = {
    "aequus": Aequus(),
    "gridwide": Gridwide(),
    "slurm-fair-tree": SlurmFairTree(),
    "slurm-classic": SlurmClassic(),
    "slurm-depth-oblivious": SlurmDepthOblivious(),
    "flux": Flux(),
}


def all_algorithms() -> dict[str, Algorithm]:
    """Ours, then those that other packages bring (entry points `fairshare.algorithms`, each an Algorithm)."""
    return {**_BUILT_IN, **brought_algorithms().found}


@cache
def brought_algorithms() -> Installed[Algorithm]:
    """Those of other packages, each tried out, and what was refused."""
    return load_installed(ENTRY_POINT_GROUP, check_algorithm, is_taken=_BUILT_IN.__contains__)


def get_algorithm(name: str) -> Algorithm:
    """The algorithm of this name; BadParameter when there is none."""
    found = _BUILT_IN.get(name) or all_algorithms().get(name)
    if found is None:
        allowed = ", ".join(sorted(all_algorithms()))
        why = told_why(brought_algorithms(), name)
        raise BadParameter(f"unknown algorithm {name!r:.80}; allowed are {allowed}{why}", place="algorithm.name")
    return found


def explanation_of(settings: Settings) -> Explanation:
    """What the algorithm of these settings declares about its explanation.

    One that declares nothing is explained by its levels where it decides by a vector or a value, else as one number;
    one whose package is gone as one number.
    """
    try:
        algorithm = get_algorithm(str(settings.get("name", "")))
    except BadParameter:
        return NUMBER
    declared = getattr(algorithm, "explanation", None)
    if isinstance(declared, Explanation):
        return declared
    return LEVELS if {"vector", "value"} & set(algorithm.fields) else NUMBER


def read_algorithm(given: str | Settings) -> dict[str, Any]:
    """A name, or a mapping with `name` and parameters → settings with all defaults filled in, as results echo them."""
    settings: Settings = {"name": given} if isinstance(given, str) else given
    name = settings.get("name")
    if not isinstance(name, str):
        raise BadParameter(
            f"must be the name of an algorithm: {', '.join(sorted(all_algorithms()))}", place="algorithm.name"
        )
    return read_settings(name, get_algorithm(name).parameters, settings)


def compute(
    tree: FairshareTree,
    usage: npt.ArrayLike,
    *,
    algorithm: str | Settings = "aequus",
    scope_of_entry: npt.ArrayLike | None = None,
) -> PriorityResult:
    """Compare usage with shares everywhere in the tree; a pure function of its arguments.

    usage: own usage of every entry, windowed and aged, in one unit, ≥ 0: shape (n,), or (scopes, n) when
    scope_of_entry (n,) says by which scope an entry's children are compared. Raises BadTree, BadUsage and BadParameter.
    """
    settings = read_algorithm(algorithm)
    chosen = get_algorithm(settings["name"])
    if tree.inherits.any() and not chosen.takes_inherit:
        at = int(np.argmax(tree.inherits))
        raise BadTree(f"{chosen.name} has no inherited shares; a number ≥ 0 is allowed", place=tree.path(at), row=at)
    prepared = prepare(tree)
    return compute_prepared(prepared, compare_usage(prepared, usage, scope_of_entry), settings)


def compute_prepared(prepared: Prepared, compared: Compared, settings: Settings) -> PriorityResult:
    """Compute from usage that is already summed up; settings as `read_algorithm` gives them.

    Raises PackageFailed where the algorithm, or its operator, is of a package that fails on this tree.
    """
    name = settings["name"]
    chosen = get_algorithm(name)
    if name in _BUILT_IN:
        return chosen.compute(prepared, compared, settings)
    return run_foreign(brought_algorithms().package.get(name, ""), chosen, prepared, compared, settings)


def package_of(settings: Settings) -> str:
    """The package that brings the algorithm of these settings, or its operator; "" where both are ours or unknown."""
    name = str(settings.get("name", ""))
    if name not in _BUILT_IN:
        return brought_algorithms().package.get(name, "")
    return operators.brought_operators().package.get(str(settings.get("operator", "")), "")
