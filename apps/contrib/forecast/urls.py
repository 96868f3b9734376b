"""Routes of this feature: pages, fragments, and REST."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.contrib.forecast import goal_views as goals
from apps.contrib.forecast import submit_under
from apps.contrib.forecast import views as forecast
from apps.contrib.forecast.api import forecasts, submission
from apps.contrib.forecast.api import goals as goals_api

_POLICY = "policies/<slug:policy>"


urlpatterns: list[URLPattern] = [
    path("me/priority/_forecast", forecast.forecast, name="my-forecast"),
    path("me/priority/_forecast_levels", forecast.forecast_levels, name="my-forecast-levels"),
    path("me/priority/_when", forecast.when, name="my-when"),
    path("me/priority/_submit", submit_under.submit, name="my-submit"),
    path("policy/<slug:policy>/edit/goal/<uuid:uid>/", goals.goal, name="draft-goal"),
]
rest: list[URLPattern] = [
    path(f"{_POLICY}/forecast", forecasts.ForecastView.as_view(), name="forecast"),
    path(f"{_POLICY}/goal", goals_api.GoalView.as_view(), name="goal"),
    path("me/forecast", forecasts.MyForecastView.as_view(), name="me-forecast"),
    path("me/submit", submission.MySubmitView.as_view(), name="me-submit"),
]
