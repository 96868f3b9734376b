"""Figures by name: what a query asks for, and the figure drawn from the numbers that a face has read."""

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
from apps.figures.convergence.asked import FocusAsked, read_children, read_focus
from apps.figures.convergence.focus import focus_figure, too_many_picks
from apps.figures.convergence.heat import heat_figure
from apps.figures.convergence.panels import panels_figure
from apps.figures.convergence.stack import stack_figure
from apps.figures.convergence.words import NO_LINKS, Links
from apps.figures.core_hours.burn_down import burn_down
from apps.figures.core_hours.usage_weeks import BY, UNIT, usage_weeks
from apps.figures.figure import Figure
from apps.figures.my_priority.forecast import ForecastAsked, factor_figure, forecast_figure, read_forecast
from apps.figures.my_priority.rank import RankAsked, places_figure, rank_figure, read_rank
from apps.figures.my_priority.waits import WaitsAsked, read_waits, waits_figure
from apps.figures.traces import MOST_SERIES
from apps.priorities.records import CoreHourWeeks

# --- Convergence ------------------------------------------------------------------------------------------------------
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
    if name not in CONVERGENCE_FIGURES:
        raise NotFound(f"There is no figure {name[:80]!r} of convergence; there are {', '.join(CONVERGENCE_FIGURES)}.")
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
CONVERGENCE_FIGURES = (_FOCUS, *_DRAWN)


# --- Core-hours -------------------------------------------------------------------------------------------------------
CORE_HOUR_FIGURES: Final[dict[str, Callable[[CoreHourWeeks, QueryDict], Figure]]] = {
    "usage": usage_weeks,
    "burn-down": burn_down,
}
FIGURE_STATE: Final = (BY, UNIT)  # names of a query that stay when another period is chosen


def make_figure(name: str, found: CoreHourWeeks, query: QueryDict) -> Figure:
    """Raises NotFound for a name that no figure of core-hours has; Invalid for a query that can't be drawn."""
    if name not in CORE_HOUR_FIGURES:
        raise NotFound(_("Unknown figure."))
    return CORE_HOUR_FIGURES[name](found, query)


# --- My priority ------------------------------------------------------------------------------------------------------
MY_FIGURES = ("rank", "forecast", "factor", "places", "waits")


@dataclass(frozen=True, slots=True)
class MyFigureAsked:
    """state: what the query says of this figure; of `places` and `factor` nothing."""

    name: str
    query: QueryDict
    state: RankAsked | ForecastAsked | WaitsAsked | None

    @property
    def n_days(self) -> int:
        return self.state.days if isinstance(self.state, RankAsked | WaitsAsked) else 0

    @property
    def share(self) -> float | None:
        return self.state.share if isinstance(self.state, ForecastAsked) else None


@dataclass(frozen=True, slots=True)
class MyLinks:
    """Where parts of `rank` lead. moment: see Figure; revision: by its number; "" where the page has none."""

    moment: str = ""
    revision: Callable[[int], str] = lambda _number: ""


NO_MY_LINKS = MyLinks()


def read_my_figure(name: str, query: QueryDict) -> MyFigureAsked:
    """Raises NotFound for a figure that doesn't exist, Invalid for a query that can't be drawn."""
    if name not in MY_FIGURES:
        raise NotFound(f"There is no such figure; there are {', '.join(MY_FIGURES)}.")
    readers: dict[str, Callable[[QueryDict], RankAsked | ForecastAsked | WaitsAsked]] = {
        "rank": read_rank,
        "forecast": read_forecast,
        "waits": read_waits,
    }
    return MyFigureAsked(name, query, readers[name](query) if name in readers else None)


def draw_my_figure(
    asked: MyFigureAsked, found: RankHistory | Forecast | MyPosition | MyWaits, links: MyLinks = NO_MY_LINKS
) -> Figure:
    """found: the numbers of the same name. Raises NotFound for a factor that nothing foresees."""
    match asked.state, found:
        case RankAsked() as state, RankHistory():
            return rank_figure(found, state, asked.query, moment_url=links.moment, mark_url=links.revision)
        case ForecastAsked() as state, Forecast():
            return forecast_figure(found, state, asked.query)
        case WaitsAsked() as state, MyWaits():
            return waits_figure(found, state, asked.query)
        case None, Forecast():
            if (figure := factor_figure(found)) is not None:
                return figure
            raise NotFound("There is no factor to foresee: levels decide the order.")
        case None, MyPosition():
            return places_figure(found)
    raise TypeError(f"The figure {asked.name} isn't drawn from {type(found).__name__}.")
