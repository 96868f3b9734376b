"""Routes of this feature: pages, fragments, and REST."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.pages.convergence import api as convergence_api
from apps.pages.convergence import views as convergence

_NODE = "policy/<slug:policy>/n/<uuid:uid>"
_CONVERGENCE = f"{_NODE}/<slug:name>/convergence"
_POLICY = "policies/<slug:policy>"


urlpatterns: list[URLPattern] = [
    path("policy/<slug:policy>/convergence/", convergence.show, name="convergence"),
    path("policy/<slug:policy>/convergence/_tiles", convergence.tiles, name="convergence-tiles"),
    path("policy/<slug:policy>/convergence/_latest", convergence.latest, name="convergence-latest"),
    path("policy/<slug:policy>/convergence/_more", convergence.more, name="convergence-more"),
    path("policy/<slug:policy>/convergence/_building", convergence.building, name="convergence-building"),
    path("policy/<slug:policy>/convergence/days.csv", convergence.days_csv, name="convergence-days"),
    path("policy/<slug:policy>/convergence/figures/<slug:figure>", convergence.figure, name="convergence-figure"),
    path("policy/<slug:policy>/convergence/figures/<slug:figure>.<str:form>", convergence.figure),
    path(f"{_CONVERGENCE}/figures/<slug:figure>", convergence.figure, name="entry-convergence-figure"),
    path(f"{_CONVERGENCE}/figures/<slug:figure>.<str:form>", convergence.figure),
    path(f"{_CONVERGENCE}/", convergence.show_entry, name="entry-convergence"),
    path(f"{_CONVERGENCE}/_over-time", convergence.over_time, name="entry-over-time"),
    path(f"{_CONVERGENCE}/days.csv", convergence.days_csv, name="entry-convergence-days"),
]
rest: list[URLPattern] = [
    path(f"{_POLICY}/convergence", convergence_api.ConvergenceView.as_view(), name="convergence"),
]
