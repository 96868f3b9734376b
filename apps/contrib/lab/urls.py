"""Routes of this plug-in: pages, figures, and REST."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.contrib.lab import views
from apps.contrib.lab.api import OperatorsView

urlpatterns: list[URLPattern] = [
    path("policy/<slug:policy>/operators/", views.operators, name="operators"),
    path("policy/<slug:policy>/operators/figures/<slug:figure>", views.figure, name="operators-figure"),
    path("policy/<slug:policy>/operators/figures/<slug:figure>.<str:form>", views.figure),
]
rest: list[URLPattern] = [
    path("policies/<slug:policy>/operators", OperatorsView.as_view(), name="policy-operators"),
]
