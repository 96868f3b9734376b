"""Routes of this feature: pages, fragments, and REST."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.contrib.forecast import goal_views as goals
from apps.contrib.forecast import submit_under
from apps.contrib.forecast import views as forecast
from apps.contrib.forecast.api import forecasts, submission
from apps.contrib.forecast.api import goals as goals_api
from apps.contrib.forecast.removed import REMOVED_PAGES, REMOVED_ROUTES
from apps.web.links.moved_pages import moved
from apps.web.links.removed_pages import removed_routes
from apps.web.rest.removed import removed_rest

_POLICY = "policies/<slug:policy>"


urlpatterns: list[URLPattern] = [
    path("me/priority/_forecast", forecast.forecast, name="my-forecast"),
    path("me/priority/_forecast_levels", forecast.forecast_levels, name="my-forecast-levels"),
    path("me/priority/_when", forecast.when, name="my-when"),
    path("me/priority/_submit", submit_under.submit, name="my-submit"),
    path("policy/<slug:policy>/edit/goal/<uuid:uid>/", goals.goal, name="draft-goal"),
    path("policy/<slug:policy>/goal/<uuid:uid>/", moved("draft-goal")),
    *removed_routes(REMOVED_PAGES),
]
rest: list[URLPattern] = [
    path(f"{_POLICY}/forecast", forecasts.ForecastView.as_view(), name="forecast"),
    path(f"{_POLICY}/goal", goals_api.GoalView.as_view(), name="goal"),
    path("me/forecast", forecasts.MyForecastView.as_view(), name="me-forecast"),
    path("me/submit", submission.MySubmitView.as_view(), name="me-submit"),
    *removed_rest(REMOVED_ROUTES),
]
