"""What operators and algorithms of packages are found to keep, to be shown beside what they declare."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

from apps.engine import operator_trial
from apps.engine.algorithms import brought_algorithms, read_algorithm
from apps.engine.algorithms.property_trial import measure_properties
from apps.engine.errors import PackageFailed
from apps.engine.operators import Operator, Properties, brought_operators, get_operator


@dataclass(frozen=True)
class Measured:
    """What an operator is found to keep on fixed points, beside what it declares; see `Properties`.

    orders_like: names of ours with which it agrees about the order of every pair of a grid.
    """

    proportional_redistribution: bool
    boundaries: bool
    is_odd: bool
    orders_like: tuple[str, ...]

    def contradicts(self, declared: Properties) -> tuple[str, ...]:
        """Names of properties that are declared otherwise."""
        names = ("proportional_redistribution", "boundaries")
        return tuple(name for name in names if getattr(self, name) != getattr(declared, name))


def measure(operator: Operator) -> Measured:
    """Try it out on fixed points; PackageFailed where its code fails there."""
    definition = operator_trial.check_definition(operator)
    return Measured(
        proportional_redistribution=operator_trial.check_redistribution(operator).is_full,
        boundaries=definition.has_boundaries,
        is_odd=definition.is_odd,
        orders_like=tuple(
            name
            for name in ("relative", "absolute", "combined")
            if operator_trial.compare_orders(operator, get_operator(name)).is_full
        ),
    )


@cache
def measured_operators() -> Mapping[str, Measured]:
    """Of the operators that packages bring, by name; nothing of one that fails on these points."""
    found = {}
    for name, operator in brought_operators().found.items():
        with suppress(PackageFailed):
            found[name] = measure(operator)
    return found


@cache
def measured_algorithms() -> Mapping[str, Properties]:
    """Of the algorithms that packages bring, with their defaults, by name; nothing of one that fails on these trees."""
    found = {}
    for name, algorithm in brought_algorithms().found.items():
        with suppress(PackageFailed):
            found[name] = measure_properties(algorithm, read_algorithm(name))
    return found
