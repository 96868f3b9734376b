"""Routes of this feature: pages, fragments, and REST."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.pages.tree import api as tree_api
from apps.pages.tree import icicle
from apps.pages.tree import views as tree
from apps.pages.tree.live import views as live

_POLICY = "policies/<slug:policy>"


urlpatterns: list[URLPattern] = [
    path("policy/<slug:policy>/", tree.tree, name="policy"),
    path("policy/<slug:policy>/live", live.live, name="live"),
    path("policy/<slug:policy>/icicle/", icicle.icicle, name="icicle"),
    path("policy/<slug:policy>/icicle/figures/tree", icicle.figure, name="tree-figure"),
    path("policy/<slug:policy>/icicle/figures/tree.<str:form>", icicle.figure),
    path("policy/<slug:policy>/selection/", tree.act, name="policy-selection"),
    path("policy/<slug:policy>/tree.csv", tree.table, name="policy-csv"),
    path("policy/<slug:policy>/_rows", tree.rows, name="policy-rows"),
    path("policy/<slug:policy>/_current", tree.current, name="policy-current"),
    path("policy/<slug:policy>/_search", tree.search, name="policy-search"),
    path("policy/<slug:policy>/_panel", tree.panel, name="policy-panel"),
]
rest: list[URLPattern] = [
    path(f"{_POLICY}/tree", tree_api.TreeView.as_view(), name="tree"),
]
