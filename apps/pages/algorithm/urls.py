"""Routes of this feature: pages, fragments, and REST."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.pages.algorithm import api as algorithms
from apps.pages.algorithm import views as algorithm
from apps.pages.algorithm.decay import views as decay

urlpatterns: list[URLPattern] = [
    path("policy/<slug:policy>/algorithm/", algorithm.algorithm, name="algorithm"),
    path("policy/<slug:policy>/algorithm/_effect", algorithm.effect, name="algorithm-effect"),
    path("policy/<slug:policy>/decay/", decay.decay, name="decay"),
    path("policy/<slug:policy>/decay/figures/decay", decay.figure, name="decay-figure"),
    path("policy/<slug:policy>/decay/figures/decay.<str:form>", decay.figure),
]
rest: list[URLPattern] = [
    path("algorithms", algorithms.AlgorithmListView.as_view(), name="algorithms"),
    path("operators", algorithms.OperatorListView.as_view(), name="operators"),
    path("decay-functions", algorithms.DecayFunctionListView.as_view(), name="decay-functions"),
]
