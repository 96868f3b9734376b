"""Packages that bring algorithms, operators or benefit functions: what is refused is named at start and in `check`."""

from __future__ import annotations

from typing import Any

from django.core.checks import CheckMessage, Warning

from apps.engine.algorithms import brought_algorithms, read_algorithm
from apps.engine.algorithms.packages import disproved
from apps.engine.analysis.properties import measured_algorithms, measured_operators
from apps.engine.installed import Installed
from apps.engine.jobs.benefits import brought_benefits
from apps.engine.operators import brought_operators

REFUSED = "fairshare.W001"
OTHERWISE = "fairshare.W002"


def check_packages(**_more: Any) -> list[CheckMessage]:
    """One warning for each entry point that is refused, and for each property that is declared and isn't measured."""
    groups: tuple[Installed[Any], ...] = (brought_algorithms(), brought_operators(), brought_benefits())
    refused = [
        Warning(
            f"Package {refused.package}: {refused.group} {refused.name!r} is refused: {refused.reason}.",
            hint="Repair or uninstall the package, then start again; docs/extending.md has the requirements.",
            obj=refused.package,
            id=REFUSED,
        )
        for brought in groups
        for refused in brought.refused
    ]
    return [*refused, *_declared_otherwise()]


def _declared_otherwise() -> list[CheckMessage]:
    operators, algorithms = brought_operators(), brought_algorithms()
    declared = {name: algorithms.found[name].properties(read_algorithm(name)) for name in measured_algorithms()}
    return [
        *(
            _otherwise(
                operators.package[name], f"operator {name!r}", each, getattr(operators.found[name].properties, each)
            )
            for name, measured in measured_operators().items()
            for each in measured.contradicts(operators.found[name].properties)
        ),
        *(
            _otherwise(algorithms.package[name], f"algorithm {name!r}", each, True)
            for name, measured in measured_algorithms().items()
            for each in disproved(measured, declared[name])
        ),
    ]


def _otherwise(package: str, what: str, name: str, declared: object) -> CheckMessage:
    return Warning(
        f"Package {package}: {what} declares {name} = {declared}, and the trial at load finds the opposite.",
        hint="The Algorithm page shows both; docs/extending.md says what is measured.",
        obj=package,
        id=OTHERWISE,
    )
