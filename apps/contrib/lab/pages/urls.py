"""Routes of the pages of experiments."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.contrib.lab.pages import builder_views, evidence, list_views, scenarios, views

_LAB = "policy/<slug:policy>/lab"
_EXPERIMENT = f"{_LAB}/<int:experiment>"

urlpatterns: list[URLPattern] = [
    path(f"{_LAB}/", list_views.lab, name="lab"),
    path(f"{_LAB}/_rows", list_views.rows, name="lab-rows"),
    path(f"{_LAB}/_question/<slug:question>", list_views.question, name="lab-question"),
    path(f"{_LAB}/ask/<slug:question>/", list_views.ask, name="lab-ask"),
    path(f"{_LAB}/scenarios/", scenarios.scenarios, name="lab-scenarios"),
    path(f"{_LAB}/new/", builder_views.build, name="lab-new"),
    path(f"{_LAB}/new/_estimate", builder_views.estimate, name="lab-new-estimate"),
    path(f"{_LAB}/new/_logs", builder_views.logs, name="lab-new-logs"),
    path(f"{_LAB}/new/figures/tree", builder_views.tree, name="lab-tree"),
    path(f"{_LAB}/new/figures/tree.<str:form>", builder_views.tree),
    path(f"{_EXPERIMENT}/", views.experiment, name="experiment"),
    path(f"{_EXPERIMENT}/_now", views.now, name="experiment-now"),
    path(f"{_EXPERIMENT}/figures/<slug:figure>", views.figure, name="experiment-figure"),
    path(f"{_EXPERIMENT}/figures/<slug:figure>.<str:form>", views.figure),
    path(f"{_EXPERIMENT}/cancel/", views.cancel, name="experiment-cancel"),
    path(f"{_EXPERIMENT}/repeat/", views.repeat, name="experiment-repeat"),
    path(f"{_EXPERIMENT}/attach/", views.attach, name="experiment-attach"),
    path(f"{_EXPERIMENT}/draft/<int:variant>/", views.make_draft, name="experiment-draft"),
    path(f"{_EXPERIMENT}/remove/", views.remove, name="experiment-remove"),
    path("changes/<int:change_set>/experiments/", evidence.experiments, name="change-experiments"),
]
