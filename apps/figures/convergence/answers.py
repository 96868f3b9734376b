"""Figures of convergence by name: what a query asks for, and the figure drawn from the numbers that a face has read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date

from django.http import QueryDict

from apps.analytics.convergence.records import ChildrenQuery, Convergence, Selection, SelectionQuery
from apps.analytics.series.storage.columns import SeriesState
from apps.core.errors import NotFound
from apps.figures.convergence.asked import FocusAsked, read_children, read_focus
from apps.figures.convergence.focus import focus_figure, too_many_picks
from apps.figures.convergence.heat import heat_figure
from apps.figures.convergence.panels import panels_figure
from apps.figures.convergence.stack import stack_figure
from apps.figures.convergence.words import NO_LINKS, Links
from apps.figures.figure import Figure
from apps.figures.traces import MOST_SERIES

_FOCUS = "focus"


@dataclass(frozen=True, slots=True)
class FigureAsked:
    """numbers: what has to be read before the figure can be drawn; None where the query alone says what is shown."""

    name: str
    query: QueryDict
    numbers: ChildrenQuery | SelectionQuery | None
    focus: FocusAsked | None = None


def read_figure(name: str, query: QueryDict, state: SeriesState, today: date) -> FigureAsked:
    """Raises NotFound for a figure that doesn't exist, Invalid for a query that can't be drawn."""
    if name not in FIGURES:
        raise NotFound(f"There is no figure {name[:80]!r} of convergence; there are {', '.join(FIGURES)}.")
    if name != _FOCUS:
        return FigureAsked(name, query, read_children(query, state, today, itself=name == "own"))
    asked = read_focus(query, state, today)
    # Of one pick too many the names are read, so that one can choose which to drop.
    numbers = asked.numbers if len(asked.picks) <= MOST_SERIES + 1 else None
    return FigureAsked(name, query, numbers, asked)


def draw_figure(asked: FigureAsked, found: Convergence | Selection | None, links: Links = NO_LINKS) -> Figure:
    """found: what was read for `asked.numbers`."""
    if asked.focus is not None:
        return _focus(asked.focus, found if isinstance(found, Selection) else None, asked.query, links)
    if not isinstance(found, Convergence):
        raise TypeError(f"The figure {asked.name} is drawn from days of members.")
    return _DRAWN[asked.name](found, asked.query, links)


def _focus(asked: FocusAsked, found: Selection | None, query: QueryDict, links: Links) -> Figure:
    paths: Sequence[str] = [] if found is None else found.paths
    if found is None or len(asked.picks) > MOST_SERIES:
        return too_many_picks(asked, query, list(zip(asked.picks, paths, strict=False)))
    return focus_figure(found, asked, query, links)


_DRAWN: dict[str, Callable[[Convergence, QueryDict, Links], Figure]] = {
    "panels": panels_figure,
    "own": lambda found, query, links: panels_figure(found, query, links, "own"),
    "stack": lambda found, _query, links: stack_figure(found, links),
    "heat": lambda found, _query, links: heat_figure(found, links),
}
FIGURES = (_FOCUS, *_DRAWN)
