"""Routes of this plug-in: pages, figures, and REST."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.contrib.lab import experiments_api as experiments
from apps.contrib.lab.advisor.api import AdviceView
from apps.contrib.lab.advisor.views import advice, draft, part
from apps.contrib.lab.api import OperatorsView
from apps.contrib.lab.pages import urls as pages

urlpatterns: list[URLPattern] = [
    path("policy/<slug:policy>/advice/", advice, name="advice"),
    path("policy/<slug:policy>/_advice", part, name="advice-part"),
    path("policy/<slug:policy>/advice/draft/", draft, name="advice-draft"),
    *pages.urlpatterns,
]
rest: list[URLPattern] = [
    path("policies/<slug:policy>/advice", AdviceView.as_view(), name="policy-advice"),
    path("policies/<slug:policy>/operators", OperatorsView.as_view(), name="policy-operators"),
    path("policies/<slug:policy>/experiments", experiments.ExperimentListView.as_view(), name="experiments"),
    path(
        "policies/<slug:policy>/experiments/estimate",
        experiments.ExperimentEstimateView.as_view(),
        name="experiment-estimate",
    ),
    path("policies/<slug:policy>/experiments/presets", experiments.PresetListView.as_view(), name="experiment-presets"),
    path("policies/<slug:policy>/experiments/traces", experiments.TraceListView.as_view(), name="experiment-traces"),
    path(
        "policies/<slug:policy>/experiments/traces/<int:trace>",
        experiments.TraceDetailView.as_view(),
        name="experiment-trace",
    ),
    path(
        "policies/<slug:policy>/experiments/<int:experiment>",
        experiments.ExperimentDetailView.as_view(),
        name="experiment",
    ),
    path(
        "policies/<slug:policy>/experiments/<int:experiment>/cancel",
        experiments.ExperimentCancelView.as_view(),
        name="experiment-cancel",
    ),
    path(
        "policies/<slug:policy>/experiments/<int:experiment>/evidence",
        experiments.ExperimentEvidenceView.as_view(),
        name="experiment-evidence",
    ),
    path(
        "policies/<slug:policy>/experiments/<int:experiment>/history",
        experiments.HistoryReportView.as_view(),
        name="experiment-history",
    ),
    path(
        "policies/<slug:policy>/experiments/<int:experiment>/variants/<int:variant>",
        experiments.VariantReportView.as_view(),
        name="experiment-variant",
    ),
    path(
        "policies/<slug:policy>/experiments/<int:experiment>/variants/<int:variant>/waits",
        experiments.GroupWaitsView.as_view(),
        name="experiment-waits",
    ),
]
