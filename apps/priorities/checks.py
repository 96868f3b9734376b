"""Packages that bring algorithms, operators or benefit functions: what is refused is named at start and in `check`."""

from __future__ import annotations

from typing import Any

from django.core.checks import CheckMessage, Warning

from apps.engine.algorithms import brought_algorithms
from apps.engine.installed import Installed
from apps.engine.jobs.benefits import brought_benefits
from apps.engine.operators import brought_operators

REFUSED = "fairshare.W001"


def check_packages(**_more: Any) -> list[CheckMessage]:
    """One warning for each entry point that is refused; the service works without it."""
    groups: tuple[Installed[Any], ...] = (brought_algorithms(), brought_operators(), brought_benefits())
    return [
        Warning(
            f"Package {refused.package}: {refused.group} {refused.name!r} is refused: {refused.reason}.",
            hint="Repair or uninstall the package, then start again; docs/extending.md says what is asked of one.",
            obj=refused.package,
            id=REFUSED,
        )
        for brought in groups
        for refused in brought.refused
    ]
