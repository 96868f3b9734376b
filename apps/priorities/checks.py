"""Django system checks of installed packages: rejected, misdeclared and unknown entry points."""

from __future__ import annotations

from typing import Any

from django.core.checks import CheckMessage, Warning

from apps.engine.algorithms import algorithms_of_packages, read_algorithm
from apps.engine.algorithms.package_properties import disproved
from apps.engine.analysis.properties import measured_algorithms, measured_operators
from apps.engine.installed import GROUPS, Installed, package_of, unknown_groups
from apps.engine.operators import operators_of_packages
from apps.policies.formats.registry import installed_formats as installed_policy_formats
from apps.usage.parsers.registry import installed_formats

REFUSED = "fairshare.W001"
OTHERWISE = "fairshare.W002"
UNKNOWN = "fairshare.W003"


def check_packages(**_more: Any) -> list[CheckMessage]:
    """A warning for each rejected entry point, unknown group, and property that the trial disproves."""
    groups: tuple[Installed[Any], ...] = (
        algorithms_of_packages(),
        operators_of_packages(),
        installed_formats(),
        installed_policy_formats(),
    )
    refused = [warning for brought in groups for warning in refused_warnings(brought)]
    return [*refused, *_declared_otherwise(), *_unknown_groups()]


def refused_warnings(brought: Installed[Any]) -> list[CheckMessage]:
    """A warning for each rejected entry point of one group."""
    return [
        Warning(
            f"Package {refused.package}: {refused.group} {refused.name!r} is refused: {refused.reason}.",
            hint="Repair or uninstall the package, then start again; docs/extending.md has the requirements.",
            obj=refused.package,
            id=REFUSED,
        )
        for refused in brought.refused
    ]


def _unknown_groups() -> list[CheckMessage]:
    """A warning for each entry point whose group doesn't exist."""
    return [
        Warning(
            f"Package {package_of(point)}: nothing reads the entry point {point.name!r} of {point.group!r}.",
            hint=f"Groups are {', '.join(GROUPS)}.",
            obj=package_of(point),
            id=UNKNOWN,
        )
        for point in unknown_groups(GROUPS)
    ]


def _declared_otherwise() -> list[CheckMessage]:
    by_operator, by_algorithm = operators_of_packages(), algorithms_of_packages()
    declared = {name: by_algorithm.objects[name].properties(read_algorithm(name)) for name in measured_algorithms()}
    return [
        *(
            _otherwise(
                by_operator.package[name],
                f"operator {name!r}",
                each,
                getattr(by_operator.objects[name].properties, each),
            )
            for name, measured in measured_operators().items()
            for each in measured.contradicts(by_operator.objects[name].properties)
        ),
        *(
            _otherwise(by_algorithm.package[name], f"algorithm {name!r}", each, True)
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
