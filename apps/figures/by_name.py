"""Registry of figures by name: parses the options of a query and draws the figure from records that a
view has loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

from django.http import QueryDict
from django.utils.translation import gettext as _

from apps.analytics.convergence.records import ChildrenQuery, Convergence, Selection, SelectionQuery
from apps.analytics.forecast import Forecast
from apps.analytics.my_priority.records import MyPosition, MyWaits, RankHistory
from apps.analytics.series.daily_series import SeriesState
from apps.core.errors import NotFound
from apps.figures.convergence.focus import focus_figure, too_many_picks
from apps.figures.convergence.heat import heat_figure
from apps.figures.convergence.labels import NO_LINKS, Links
from apps.figures.convergence.options import FocusOptions, read_children, read_focus
from apps.figures.convergence.panels import panels_figure
from apps.figures.convergence.stack import stack_figure
from apps.figures.core_hours.burn_down import burn_down
from apps.figures.core_hours.usage_weeks import BY, UNIT, usage_weeks
from apps.figures.figure import Figure
from apps.figures.my_priority.forecast import ForecastOptions, factor_figure, forecast_figure, read_forecast
from apps.figures.my_priority.rank import RankOptions, places_figure, rank_figure, read_rank
from apps.figures.my_priority.waits import WaitsOptions, read_waits, waits_figure
from apps.figures.traces import MOST_SERIES
from apps.priorities.core_hour_weeks import CoreHourWeeks

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


def draw_figure(request: FigureRequest, found: Convergence | Selection | None, links: Links = NO_LINKS) -> Figure:
    """Draw a convergence figure from the data loaded for `numbers`."""
    if request.focus is not None:
        return _focus(request.focus, found if isinstance(found, Selection) else None, request.query, links)
    if not isinstance(found, Convergence):
        raise TypeError(f"The figure {request.name} is drawn from days of members.")
    return _DRAWN[request.name](found, request.query, links)


def _focus(request: FocusOptions, found: Selection | None, query: QueryDict, links: Links) -> Figure:
    paths: Sequence[str] = [] if found is None else found.paths
    if found is None or len(request.picks) > MOST_SERIES:
        return too_many_picks(request, query, list(zip(request.picks, paths, strict=False)))
    return focus_figure(found, request, query, links)


_DRAWN: dict[str, Callable[[Convergence, QueryDict, Links], Figure]] = {
    "panels": panels_figure,
    "own": lambda found, query, links: panels_figure(found, query, links, "own"),
    "stack": lambda found, _query, links: stack_figure(found, links),
    "heat": lambda found, _query, links: heat_figure(found, links),
}
CONVERGENCE_FIGURES = (_FOCUS, *_DRAWN)


CORE_HOUR_FIGURES: Final[dict[str, Callable[[CoreHourWeeks, QueryDict], Figure]]] = {
    "usage": usage_weeks,
    "burn-down": burn_down,
}
FIGURE_STATE: Final = (BY, UNIT)  # query parameters preserved when another period is chosen


def draw_core_hour_figure(name: str, found: CoreHourWeeks, query: QueryDict) -> Figure:
    """Draw a core-hour figure. Raises NotFound for an unknown name, Invalid for options that can't be drawn."""
    if name not in CORE_HOUR_FIGURES:
        raise NotFound(_("Unknown figure."))
    return CORE_HOUR_FIGURES[name](found, query)


MY_FIGURES = ("rank", "forecast", "factor", "places", "waits")


@dataclass(frozen=True, slots=True)
class MyFigureRequest:
    """A figure of My priority with its options; `places` and `factor` have none."""

    name: str
    query: QueryDict
    state: RankOptions | ForecastOptions | WaitsOptions | None

    @property
    def n_days(self) -> int:
        return self.state.days if isinstance(self.state, RankOptions | WaitsOptions) else 0

    @property
    def share(self) -> float | None:
        return self.state.share if isinstance(self.state, ForecastOptions) else None


@dataclass(frozen=True, slots=True)
class MyLinks:
    """Links of the `rank` figure. moment: see Figure; revision: by number; "" if the page has none."""

    moment: str = ""
    revision: Callable[[int], str] = lambda _number: ""


NO_MY_LINKS = MyLinks()


def read_my_figure(name: str, query: QueryDict) -> MyFigureRequest:
    """Parse a figure of My priority. Raises NotFound for an unknown figure, Invalid for options that can't be drawn."""
    if name not in MY_FIGURES:
        raise NotFound(f"There is no such figure; known: {', '.join(MY_FIGURES)}.")
    readers: dict[str, Callable[[QueryDict], RankOptions | ForecastOptions | WaitsOptions]] = {
        "rank": read_rank,
        "forecast": read_forecast,
        "waits": read_waits,
    }
    return MyFigureRequest(name, query, readers[name](query) if name in readers else None)


def draw_my_figure(
    request: MyFigureRequest, found: RankHistory | Forecast | MyPosition | MyWaits, links: MyLinks = NO_MY_LINKS
) -> Figure:
    """Draw the figure from the data of the same name. Raises NotFound if the factor can't be forecast."""
    match request.state, found:
        case RankOptions() as state, RankHistory():
            return rank_figure(found, state, request.query, moment_url=links.moment, mark_url=links.revision)
        case ForecastOptions() as state, Forecast():
            return forecast_figure(found, state, request.query)
        case WaitsOptions() as state, MyWaits():
            return waits_figure(found, state, request.query)
        case None, Forecast():
            if (figure := factor_figure(found)) is not None:
                return figure
            raise NotFound("There is no forecast of the factor: levels decide the order.")
        case None, MyPosition():
            return places_figure(found)
    raise TypeError(f"The figure {request.name} isn't drawn from {type(found).__name__}.")
