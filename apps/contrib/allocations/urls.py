"""Routes of this feature: pages, fragments, and REST."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.contrib.allocations.api import capacities, packs
from apps.contrib.allocations.api import views as allocations
from apps.contrib.allocations.pages import urls as page_urls
from apps.contrib.allocations.removed import REMOVED_PAGES
from apps.web.removed_pages import removed_routes

_POLICY = "policies/<slug:policy>"


urlpatterns: list[URLPattern] = [
    *removed_routes(REMOVED_PAGES),
]
urlpatterns += page_urls.urlpatterns
rest: list[URLPattern] = [
    path(f"{_POLICY}/pack", packs.PackView.as_view(), name="pack"),
    path(f"{_POLICY}/allocations", allocations.AllocationListView.as_view(), name="allocations"),
    path(f"{_POLICY}/allocations/table", allocations.AllocationTableView.as_view(), name="allocation-table"),
    path(f"{_POLICY}/allocations/shares", allocations.AllocationSharesView.as_view(), name="allocation-shares"),
    path(f"{_POLICY}/allocations/<uuid:allocation>", allocations.AllocationDetailView.as_view(), name="allocation"),
    path(f"{_POLICY}/capacities", capacities.CapacityListView.as_view(), name="capacities"),
    path(f"{_POLICY}/capacities/<int:capacity>", capacities.CapacityDetailView.as_view(), name="capacity"),
]
