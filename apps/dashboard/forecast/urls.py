"""Fragments of my priority that look ahead."""

from __future__ import annotations

from django.urls import path

from apps.dashboard.forecast import views as forecast

urlpatterns = [
    path("me/priority/_forecast", forecast.forecast, name="my-forecast"),
    path("me/priority/_whatif", forecast.what_if, name="my-what-if"),
]
