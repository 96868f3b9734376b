"""What forecasts add to *My priority*: cards and figures about the future, and when the deciding level recovers."""

from __future__ import annotations

from collections.abc import Sequence

from django.http import QueryDict
from django.utils.translation import gettext_lazy

from apps.contrib.forecast.figures import ForecastOptions, factor_figure, forecast_figure, read_forecast
from apps.contrib.forecast.selectors import Forecast, get_my_forecast
from apps.contrib.forecast.submit_under import is_comparable
from apps.core.errors import NotFound
from apps.explain.my_priority import MyPriority
from apps.explain.verdict import needs_outlook
from apps.pages.my_priority.cards import MyCard
from apps.pages.my_priority.own_figures import MyFigure, MyLinks, OwnAccount, no_options
from apps.web.figures.figure import Figure


def _has_factor(account: MyPriority, _known: Sequence[MyPriority]) -> bool:
    """Where levels decide, they have curves of their own."""
    return not account.levels_decide and account.factor is not None


def _has_rank(account: MyPriority, _known: Sequence[MyPriority]) -> bool:
    return account.rank is not None


CARDS = (
    MyCard(
        place="when",
        order=10,
        route="my-when",
        anchor="when",
        title=gettext_lazy("When"),
        height="line",
        is_early=True,
        is_shown=lambda account, _known: needs_outlook(account),
    ),
    MyCard(
        place="path",
        order=10,
        route="my-forecast",
        anchor="forecast",
        title=gettext_lazy("Forecast"),
        height="forecast",
        is_early=True,
    ),
    MyCard(
        place="jobs",
        order=20,
        route="my-submit",
        anchor="submit",
        title=gettext_lazy("Submit under"),
        height="job-sizes",
        n_rows=lambda account, known: sum(is_comparable(account, each) for each in known),
        is_early=True,
        of_unmapped=True,
        is_shown=lambda account, known: any(is_comparable(account, each) for each in known),
    ),
    MyCard(
        place="more",
        order=35,
        route="my-forecast-levels",
        anchor="forecast-levels",
        title=gettext_lazy("Forecast by level"),
        note=gettext_lazy("all levels, and another pace"),
        height="text",
        is_shown=_has_rank,
    ),
    MyCard(
        place="more",
        order=40,
        route="my-priority-figure",
        names={"name": "factor"},
        anchor="fig-factor",
        title=gettext_lazy("Factor in the next days"),
        note=gettext_lazy("at the usual pace"),
        height="figure",
        is_shown=_has_factor,
    ),
)


def _forecast(account: OwnAccount, share: float | None = None) -> Forecast:
    forecast = get_my_forecast(**account.asked, share=share)
    if forecast is None:
        raise NotFound("There is no such account in this policy.")
    return forecast


def _draw_forecast(account: OwnAccount, options: ForecastOptions, _query: QueryDict, _links: MyLinks) -> Figure:
    return forecast_figure(_forecast(account, options.share), options)


def _draw_factor(account: OwnAccount, _options: None, _query: QueryDict, _links: MyLinks) -> Figure:
    figure = factor_figure(_forecast(account))
    if figure is None:
        raise NotFound("There is no forecast of the factor: levels decide the order.")
    return figure


FIGURES = {"forecast": MyFigure(read_forecast, _draw_forecast), "factor": MyFigure(no_options, _draw_factor)}
