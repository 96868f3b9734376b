"""Routes of this feature: pages, fragments, and REST."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.pages.overview import views as overview

urlpatterns: list[URLPattern] = [
    path("", overview.overview, name="overview"),
    path("_verdict", overview.verdict, name="overview-verdict"),
    path("_children", overview.children, name="overview-children"),
    path("_deviation", overview.deviation, name="overview-deviation"),
    path("_recent", overview.recent, name="overview-recent"),
    path("_attention", overview.attention, name="overview-attention"),
    path("_ends", overview.ends, name="overview-ends"),
    path("_pins", overview.pins, name="overview-pins"),
    path("_mine", overview.mine, name="overview-mine"),
    path("overview/decide/", overview.decide, name="overview-decide"),
    path("overview/figures/deviation", overview.figure, name="overview-figure"),
    path("overview/figures/deviation.<str:form>", overview.figure, name="overview-figure-form"),
    path("policy/<slug:policy>/pins/<uuid:uid>/", overview.pin, name="pin"),
]
rest: list[URLPattern] = []
