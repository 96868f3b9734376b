"""Units of allocations, capacities and budgets: hours of cores, GPUs or nodes, or any weighted sum of resources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apps.core.resource_kinds import sum_of

LONGEST_SYMBOL = 16
LONGEST_NAME = 64

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit that a policy counts usage in, beside shares.

    name: of one, such as GPU-hour. symbol: short and unique in the policy; allocations are stored with it. An hour of
    usage is Σ weight · resource, times the factor of the job's class. weights: of resources, and of kinds such as
    gpu:h100, of which those of GPUs may be 0. minimum_charge_s: each start of a job counts as if it had run for at
    least so long.
    """

    name: str
    symbol: str
    weights: tuple[tuple[str, float], ...]
    class_factors: tuple[tuple[tuple[str, str | float], ...], ...] = ()  # each a rule as in a metric, as pairs
    minimum_charge_s: int = 0

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Unit:
        """Of the settings of a revision, which are complete."""
        return cls(
            name=data["name"],
            symbol=data["symbol"],
            weights=tuple((name, float(each)) for name, each in data["weights"].items() if each or sum_of(name)),
            class_factors=tuple(tuple(rule.items()) for rule in data["class_factors"]),
            minimum_charge_s=int(data["minimum_charge_s"]),
        )

    @property
    def resources(self) -> tuple[str, ...]:
        return tuple(name for name, _weight in self.weights)

    @property
    def rules(self) -> list[Json]:
        """Factors of job classes, as in a metric."""
        return [dict(rule) for rule in self.class_factors]

    @property
    def is_core_hour(self) -> bool:
        return self == CORE_HOUR


CORE_HOUR = Unit("Core-hour", "core-h", (("cpu_s", 1.0),))


def units_of(settings: Sequence[Mapping[str, Any]]) -> tuple[Unit, ...]:
    """The units of a policy by its settings: the core-hour, which each policy has, and those that it declares."""
    return (CORE_HOUR, *(Unit.from_json(each) for each in settings))
