"""Figures of *My priority* by name: what a query asks for, and the figure drawn from the numbers of that name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django.http import QueryDict

from apps.analytics.forecast import Forecast
from apps.analytics.my_priority.records import MyPlace, MyWaits, RankHistory
from apps.core.errors import NotFound
from apps.figures.figure import Figure
from apps.figures.my_priority.factor_ahead import factor_figure
from apps.figures.my_priority.forecast import ForecastAsked, forecast_figure, read_forecast
from apps.figures.my_priority.places import places_figure
from apps.figures.my_priority.rank import RankAsked, rank_figure, read_rank
from apps.figures.my_priority.waits import WaitsAsked, read_waits, waits_figure

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


NO_LINKS = MyLinks()


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
    asked: MyFigureAsked, found: RankHistory | Forecast | MyPlace | MyWaits, links: MyLinks = NO_LINKS
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
        case None, MyPlace():
            return places_figure(found)
    raise TypeError(f"The figure {asked.name} isn't drawn from {type(found).__name__}.")
