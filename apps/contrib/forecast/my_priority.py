"""What forecasts add to *My priority*: cards and figures about the future, and when the deciding level recovers."""

from __future__ import annotations

from django.http import QueryDict

from apps.contrib.forecast.figures import ForecastOptions, factor_figure, forecast_figure, read_forecast
from apps.contrib.forecast.selectors import Forecast, get_my_forecast
from apps.contrib.forecast.submit_under import submit_content
from apps.contrib.forecast.views import forecast_content
from apps.core.errors import NotFound
from apps.pages.my_priority.cards import MyCard
from apps.pages.my_priority.own_figures import MyFigure, MyLinks, OwnAccount, no_options
from apps.web.figures.figure import Figure

CARDS = (
    MyCard("ahead", 10, "contrib/forecast/_forecast.html", forecast_content),
    MyCard("ahead", 20, "contrib/forecast/_factor.html"),
    MyCard("side", 30, "contrib/forecast/_whatif.html"),
    MyCard("jobs", 40, "contrib/forecast/_submit.html", submit_content),
)


def _forecast(account: OwnAccount, share: float | None = None) -> Forecast:
    forecast = get_my_forecast(**account.asked, share=share)
    if forecast is None:
        raise NotFound("There is no such account in this policy.")
    return forecast


def _draw_forecast(account: OwnAccount, options: ForecastOptions, query: QueryDict, _links: MyLinks) -> Figure:
    return forecast_figure(_forecast(account, options.share), options, query)


def _draw_factor(account: OwnAccount, _options: None, _query: QueryDict, _links: MyLinks) -> Figure:
    figure = factor_figure(_forecast(account))
    if figure is None:
        raise NotFound("There is no forecast of the factor: levels decide the order.")
    return figure


FIGURES = {"forecast": MyFigure(read_forecast, _draw_forecast), "factor": MyFigure(no_options, _draw_factor)}
