"""Routes of this feature: pages, fragments, and REST."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.contrib.jobs import api as jobs_api
from apps.contrib.jobs import gateway_api as gateway
from apps.contrib.jobs.pages import ledger
from apps.contrib.jobs.pages import views as jobs

_POLICY = "policies/<slug:policy>"


urlpatterns: list[URLPattern] = [
    path("jobs/", jobs.jobs, name="jobs"),
    path("jobs/_result", jobs.result, name="jobs-result"),
    path("jobs/calculator/", jobs.calculator, name="jobs-calculator"),
    path("jobs/calculator/_result", jobs.calculator_result, name="jobs-calculator-result"),
    path("policy/<slug:policy>/sam/", ledger.ledger, name="sam"),
]
rest: list[URLPattern] = [
    path(f"{_POLICY}/sam-case", jobs_api.SamCaseView.as_view(), name="sam-case"),
    path(f"{_POLICY}/sam", gateway.LedgerView.as_view(), name="sam"),
    path(f"{_POLICY}/sam/decide", gateway.DecisionView.as_view(), name="sam-decide"),
    path(f"{_POLICY}/sam/started", gateway.step_view("start").as_view(), name="sam-started"),
    path(f"{_POLICY}/sam/finished", gateway.step_view("finish").as_view(), name="sam-finished"),
    path(f"{_POLICY}/sam/cancelled", gateway.step_view("cancel").as_view(), name="sam-cancelled"),
    path("jobs/explain", jobs_api.JobExplanationView.as_view(), name="jobs-explain"),
]
