"""Convergence of a policy and of each entry."""

from __future__ import annotations

from django.urls import path

from apps.dashboard.convergence import views as convergence

_POLICY = "policy/<slug:policy>"
_ENTRY = f"{_POLICY}/n/<uuid:uid>/<slug:name>/convergence"

urlpatterns = [
    path(f"{_POLICY}/convergence/", convergence.convergence, name="convergence"),
    path(f"{_POLICY}/convergence/_panels", convergence.panels, name="convergence-panels"),
    path(f"{_POLICY}/convergence/_building", convergence.building, name="convergence-building"),
    path(f"{_POLICY}/convergence/days.csv", convergence.days_csv, name="convergence-days"),
    path(f"{_POLICY}/convergence/figures/<slug:figure>", convergence.figure, name="convergence-figure"),
    path(f"{_POLICY}/convergence/figures/<slug:figure>.<str:form>", convergence.figure),
    path(f"{_ENTRY}/figures/<slug:figure>", convergence.figure, name="entry-convergence-figure"),
    path(f"{_ENTRY}/figures/<slug:figure>.<str:form>", convergence.figure),
    path(f"{_ENTRY}/", convergence.convergence, name="entry-convergence"),
    path(f"{_ENTRY}/_over-time", convergence.over_time, name="entry-over-time"),
    path(f"{_ENTRY}/_panels", convergence.panels, name="entry-convergence-panels"),
    path(f"{_ENTRY}/days.csv", convergence.days_csv, name="entry-convergence-days"),
]
