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
from apps.engine.arrays import FEWEST_FOR_MACHINE_CODE
from apps.engine.errors import BadParameter, BadTree
from apps.engine.installed import Installed, load_installed, rejection_note
from apps.engine.numerics.long_quotients import level_fairshare
from apps.engine.parameters import Parameter, Settings, read_settings
from apps.engine.tree import FairshareTree

__all__ = [
    "Algorithm",
    "Explanation",
    "Parameter",
    "PriorityResult",
    "algorithms_of_packages",
    "all_algorithms",
    "compute",
    "compute_prepared",
    "explanation_of",
    "get_algorithm",
    "load_machine_code",
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
    """Built-in algorithms, then those of other packages (entry points `fairshare.algorithms`), by name."""
    return {**_BUILT_IN, **algorithms_of_packages().objects}


@cache
def algorithms_of_packages() -> Installed[Algorithm]:
    """Algorithms of other packages that passed their checks, and the reasons why others were rejected."""
    return load_installed(ENTRY_POINT_GROUP, check_algorithm, is_taken=_BUILT_IN.__contains__)


def get_algorithm(name: str) -> Algorithm:
    """The algorithm of this name; raises BadParameter if there is none."""
    algorithm = _BUILT_IN.get(name) or all_algorithms().get(name)
    if algorithm is None:
        allowed = ", ".join(sorted(all_algorithms()))
        why = rejection_note(algorithms_of_packages(), name)
        raise BadParameter(f"unknown algorithm {name!r:.80}; allowed are {allowed}{why}", place="algorithm.name")
    return algorithm


def explanation_of(settings: Settings) -> Explanation:
    """How to explain results of these settings: as the algorithm declares.

    An algorithm without a declaration is explained by levels if it returns `vector` or `value`, otherwise as one
    number. If its package is no longer installed, it is explained as one number.
    """
    try:
        algorithm = get_algorithm(str(settings.get("name", "")))
    except BadParameter:
        return NUMBER
    declared = getattr(algorithm, "explanation", None)
    if isinstance(declared, Explanation):
        return declared
    return LEVELS if {"vector", "value"} & set(algorithm.fields) else NUMBER


def read_algorithm(name_or_settings: str | Settings) -> dict[str, Any]:
    """Complete settings with all defaults, from a name or a mapping with `name` and parameters."""
    settings: Settings = {"name": name_or_settings} if isinstance(name_or_settings, str) else name_or_settings
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
    """Compute priorities, ranks and factors of a tree; a pure function of its arguments.

    usage: own usage of every entry after window and decay, in one unit, ≥ 0. Shape (n,), or (scopes, n) with
    scope_of_entry (n,), the scope in which an entry's children are compared. Raises BadTree, BadUsage and BadParameter.
    """
    settings = read_algorithm(algorithm)
    chosen = get_algorithm(settings["name"])
    if tree.inherits.any() and not chosen.takes_inherit:
        at = int(np.argmax(tree.inherits))
        raise BadTree(f"{chosen.name} has no inherited shares; a number ≥ 0 is allowed", place=tree.path(at), row=at)
    prepared = prepare(tree)
    return compute_prepared(prepared, compare_usage(prepared, usage, scope_of_entry), settings)


def compute_prepared(prepared: Prepared, compared: Compared, settings: Settings) -> PriorityResult:
    """Compute from usage that is already summed up the tree; `settings` are those of `read_algorithm`.

    Raises PackageFailed if the algorithm or its operator comes from another package and fails on this tree.
    """
    name = settings["name"]
    chosen = get_algorithm(name)
    if name in _BUILT_IN:
        return chosen.compute(prepared, compared, settings)
    return run_foreign(algorithms_of_packages().package.get(name, ""), chosen, prepared, compared, settings)


def load_machine_code() -> None:
    """Compile what the built-in algorithms need for large trees, or load it from the disk: else a page would wait."""
    n = FEWEST_FOR_MACHINE_CODE
    tree, _order = FairshareTree.from_columns(np.minimum(np.arange(n) - 1, 0), np.ones(n))
    usage = np.arange(n, dtype=np.float64)
    usage[0] = 0.0
    for name in _BUILT_IN:
        compute(tree, usage, algorithm=name)
    level_fairshare(tree.shares, usage, usage)  # Fair Tree needs it for near ties alone


def package_of(settings: Settings) -> str:
    """The package of the algorithm or operator of these settings; "" if both are built-in or unknown."""
    name = str(settings.get("name", ""))
    if name not in _BUILT_IN:
        return algorithms_of_packages().package.get(name, "")
    return operators.operators_of_packages().package.get(str(settings.get("operator", "")), "")
