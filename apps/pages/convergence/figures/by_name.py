"""The figures of convergence by name: parses the options of a query and draws from records that a view has loaded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date

from django.http import QueryDict

from apps.core.errors import NotFound
from apps.pages.convergence.figures.focus import focus_figure, too_many_picks
from apps.pages.convergence.figures.heat import heat_figure
from apps.pages.convergence.figures.labels import NO_LINKS, Links
from apps.pages.convergence.figures.options import FocusOptions, read_children, read_focus
from apps.pages.convergence.figures.panels import panels_figure
from apps.pages.convergence.figures.stack import stack_figure
from apps.series.convergence.records import ChildrenQuery, Convergence, Selection, SelectionQuery
from apps.series.daily_series import SeriesState
from apps.web.figures.figure import Figure
from apps.web.figures.traces import MOST_SERIES

_FOCUS = "focus"


@dataclass(frozen=True, slots=True)
class FigureRequest:
    """A figure with its parsed options. numbers: the query to load before drawing; None if nothing is needed."""

    name: str
    query: QueryDict
    numbers: ChildrenQuery | SelectionQuery | None
    focus: FocusOptions | None = None


def read_figure(name: str, query: QueryDict, state: SeriesState, today: date) -> FigureRequest:
    """Parse a convergence figure. Raises NotFound for an unknown figure, Invalid for options that can't be drawn."""
    if name not in CONVERGENCE_FIGURES:
        raise NotFound(f"There is no figure {name[:80]!r} of convergence; known: {', '.join(CONVERGENCE_FIGURES)}.")
    if name != _FOCUS:
        return FigureRequest(name, query, read_children(query, state, today, itself=name == "own"))
    request = read_focus(query, state, today)
    # With one pick too many the names are loaded, so that the reader can choose which to drop.
    numbers = request.numbers if len(request.picks) <= MOST_SERIES + 1 else None
    return FigureRequest(name, query, numbers, request)


def draw_figure(request: FigureRequest, numbers: Convergence | Selection | None, links: Links = NO_LINKS) -> Figure:
    """Draw a convergence figure from the data loaded for `numbers`."""
    if request.focus is not None:
        return _focus(request.focus, numbers if isinstance(numbers, Selection) else None, request.query, links)
    if not isinstance(numbers, Convergence):
        raise TypeError(f"The figure {request.name} is drawn from days of members.")
    return _DRAWN[request.name](numbers, request.query, links)


def _focus(request: FocusOptions, numbers: Selection | None, query: QueryDict, links: Links) -> Figure:
    paths: Sequence[str] = [] if numbers is None else numbers.paths
    if numbers is None or len(request.picks) > MOST_SERIES:
        return too_many_picks(request, query, list(zip(request.picks, paths, strict=False)))
    return focus_figure(numbers, request, query, links)


_DRAWN: dict[str, Callable[[Convergence, QueryDict, Links], Figure]] = {
    "panels": panels_figure,
    "own": lambda numbers, query, links: panels_figure(numbers, query, links, "own"),
    "stack": lambda numbers, _query, links: stack_figure(numbers, links),
    "heat": lambda numbers, _query, links: heat_figure(numbers, links),
}
CONVERGENCE_FIGURES = (_FOCUS, *_DRAWN)
