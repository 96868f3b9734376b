"""The figures of *My priority* by name: parses the options of a query and draws from records that a view has loaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django.http import QueryDict

from apps.contrib.forecast.figures import ForecastOptions, factor_figure, forecast_figure, read_forecast
from apps.contrib.forecast.selectors import Forecast
from apps.core.errors import NotFound
from apps.pages.my_priority.figures.rank import RankOptions, places_figure, rank_figure, read_rank
from apps.pages.my_priority.figures.waits import WaitsOptions, read_waits, waits_figure
from apps.pages.my_priority.numbers.records import MyPosition, MyWaits, RankHistory
from apps.web.figures.figure import Figure

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
