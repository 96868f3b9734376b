"""The figures of core-hours by name: what pages and REST ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from django.http import QueryDict
from django.utils.translation import gettext as _

from apps.core.errors import NotFound
from apps.figures.core_hours.burn_down import burn_down
from apps.figures.core_hours.usage_weeks import BY, UNIT, usage_weeks
from apps.figures.figure import Figure
from apps.priorities.records.core_hours import CoreHourWeeks

FIGURES: Final[dict[str, Callable[[CoreHourWeeks, QueryDict], Figure]]] = {
    "usage": usage_weeks,
    "burn-down": burn_down,
}
FIGURE_STATE: Final = (BY, UNIT)  # names of a query that stay when another period is chosen


def make_figure(name: str, found: CoreHourWeeks, query: QueryDict) -> Figure:
    """Raises NotFound for a name that no figure of core-hours has; Invalid for a query that can't be drawn."""
    if name not in FIGURES:
        raise NotFound(_("Unknown figure."))
    return FIGURES[name](found, query)
