"""Routes of this feature: pages, fragments, and REST."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.pages.overview import views as overview

urlpatterns: list[URLPattern] = [
    path("", overview.overview, name="overview"),
    path("_mine", overview.mine, name="overview-mine"),
    path("_verdict", overview.verdict, name="overview-verdict"),
    path("_top", overview.top, name="overview-top"),
    path("_deviation", overview.deviation, name="overview-deviation"),
    path("_pins", overview.pins, name="overview-pins"),
    path("_attention", overview.attention, name="overview-attention"),
    path("_sources", overview.sources, name="overview-sources"),
    path("_recent", overview.recent, name="overview-recent"),
    path("overview/figures/deviation", overview.figure, name="overview-figure"),
    path("overview/figures/deviation.<str:form>", overview.figure, name="overview-figure-form"),
    path("policy/<slug:policy>/pins/<uuid:uid>/", overview.pin, name="pin"),
]
rest: list[URLPattern] = []
