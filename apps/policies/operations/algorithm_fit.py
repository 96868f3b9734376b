"""Whether a tree and an algorithm go together: inherited shares, and algorithms of packages that fail on the tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from apps.core.errors import FieldProblem, Invalid
from apps.engine.algorithms import compute, get_algorithm, package_of
from apps.engine.errors import BadParameter, PackageFailed
from apps.policies.models import Policy
from apps.policies.tree.columns import TreeColumns

# Computes a tree with the usage that the policy has now; raises Invalid where a package fails.
Trial = Callable[[Policy, TreeColumns, Mapping[str, Any]], object]
_trials: list[Trial] = []


def register_trial(trial: Trial) -> None:
    """The room above knows usage."""
    _trials[:] = [trial]


def refuse_misfit(tree: TreeColumns, algorithm: Mapping[str, Any], policy: Policy | None = None) -> None:
    """Raise Invalid for a tree that an algorithm can't compute.

    `no_inherit`: the algorithm accepts no inherited shares, and the tree has some. `package_failed`: the algorithm or
    its operator is of a package that fails on this tree; with `policy` also with its present usage.
    """
    if tree.inherit.any():
        refuse_inherited(tree, algorithm)
    if not package_of(algorithm):
        return
    leaf = tree.engine_tree().is_ranked
    with refusing_failed_packages():
        for used in (np.zeros(len(tree)), np.where(leaf, 1.0 + np.arange(len(tree)) % 7, 0.0)):
            compute(tree.engine_tree(), used, algorithm=algorithm)
    if policy is not None:
        for trial in _trials:
            trial(policy, tree, algorithm)


@contextmanager
def refusing_failed_packages() -> Iterator[None]:
    """What fails in a package's code is refused as `package_failed`, with the name of the package."""
    try:
        yield
    except PackageFailed as error:
        raise Invalid(
            f"{error.message}.", code=PackageFailed.code, fields=[FieldProblem(error.place, error.message)]
        ) from error


def refuse_inherited(tree: TreeColumns, algorithm: Mapping[str, Any]) -> None:
    """Raise Invalid (`no_inherit`) for an algorithm that accepts no inherited shares, for a tree that has some."""
    try:
        chosen = get_algorithm(str(algorithm["name"]))
    except BadParameter as error:
        raise Invalid(f"{error.message}.", code="bad_settings") from None
    if chosen.takes_inherit:
        return
    inheriting = np.flatnonzero(tree.inherit)
    first = tree.path(int(inheriting[0]))
    others = f" and {len(inheriting) - 1:,} more" if len(inheriting) > 1 else ""
    message = f"inherits its shares{others}, and {chosen.name} has no inherited shares: give numbers, or choose another"
    raise Invalid(
        f"{first} {message} algorithm.", code="no_inherit", fields=[FieldProblem(first, f"{message} algorithm")]
    )
