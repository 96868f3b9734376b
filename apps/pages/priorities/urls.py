"""Routes of this feature: pages, fragments, and REST."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.pages.priorities import api as priorities

_POLICY = "policies/<slug:policy>"


urlpatterns: list[URLPattern] = []
rest: list[URLPattern] = [
    path(f"{_POLICY}/priorities", priorities.SinglePriorityView.as_view(), name="priorities"),
    path(f"{_POLICY}/priorities/lookup", priorities.BulkPriorityView.as_view(), name="priorities-lookup"),
    path(f"{_POLICY}/priorities/all", priorities.AllPrioritiesView.as_view(), name="priorities-all"),
    path(f"{_POLICY}/recompute", priorities.RecomputeView.as_view(), name="recompute"),
    path(f"{_POLICY}/snapshots", priorities.SnapshotListView.as_view(), name="snapshots"),
]
