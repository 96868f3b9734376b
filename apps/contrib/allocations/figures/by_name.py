"""The figures of core-hours by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from django.http import QueryDict
from django.utils.translation import gettext as _

from apps.contrib.allocations.core_hour_weeks import CoreHourWeeks
from apps.contrib.allocations.figures.burn_down import burn_down
from apps.contrib.allocations.figures.usage_weeks import BY, UNIT, usage_weeks
from apps.core.errors import NotFound
from apps.web.figures.figure import Figure

CORE_HOUR_FIGURES: Final[dict[str, Callable[[CoreHourWeeks, QueryDict], Figure]]] = {
    "usage": usage_weeks,
    "burn-down": burn_down,
}
FIGURE_STATE: Final = (BY, UNIT)  # query parameters preserved when another period is chosen


def draw_core_hour_figure(name: str, weeks: CoreHourWeeks, query: QueryDict) -> Figure:
    """Draw a core-hour figure. Raises NotFound for an unknown name, Invalid for options that can't be drawn."""
    if name not in CORE_HOUR_FIGURES:
        raise NotFound(_("Unknown figure."))
    return CORE_HOUR_FIGURES[name](weeks, query)
