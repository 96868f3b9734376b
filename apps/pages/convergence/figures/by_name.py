"""The figures of convergence by name, drawn from the numbers of a group that a view has loaded."""

from __future__ import annotations

from collections.abc import Callable

from django.http import QueryDict

from apps.core.errors import NotFound
from apps.pages.convergence.figures import fair_line, over_time
from apps.pages.convergence.figures.course import GroupNumbers
from apps.pages.convergence.figures.heat import heat_figure
from apps.pages.convergence.figures.tiles import panels_figure
from apps.web.figures import Figure

OF_GROUP: dict[str, Callable[[GroupNumbers, QueryDict], Figure]] = {
    "panels": panels_figure,
    "heat": lambda numbers, _query: heat_figure(numbers.convergence),
}
CONVERGENCE_FIGURES = (over_time.NAME, fair_line.NAME, *OF_GROUP)


def check_name(name: str) -> None:
    """Raises NotFound for an unknown figure."""
    if name not in CONVERGENCE_FIGURES:
        raise NotFound(f"There is no figure {name[:80]!r} of convergence; known: {', '.join(CONVERGENCE_FIGURES)}.")
