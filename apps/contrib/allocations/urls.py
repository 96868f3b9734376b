"""Routes of this feature: pages, fragments, and REST."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.contrib.allocations import pack_api as packs_api
from apps.contrib.allocations import pack_views as packs
from apps.contrib.allocations.api import capacities
from apps.contrib.allocations.api import views as allocations
from apps.contrib.allocations.pages import urls as page_urls
from apps.contrib.allocations.removed import REMOVED_PAGES
from apps.web.removed_pages import removed_routes

_PACK = "policy/<slug:policy>/pack/<uuid:uid>"
_POLICY = "policies/<slug:policy>"


urlpatterns: list[URLPattern] = [
    *removed_routes(REMOVED_PAGES),
    path(f"{_PACK}/", packs.pack, name="pack"),
    path(f"{_PACK}/pack.<str:form>", packs.download, name="pack-file"),
    path("shared/packs/<str:token>/", packs.shared, name="shared-pack"),
    path("shared/packs/<str:token>/pack.<str:form>", packs.shared_file, name="shared-pack-file"),
]
urlpatterns += page_urls.urlpatterns
rest: list[URLPattern] = [
    path(f"{_POLICY}/pack", packs_api.PackView.as_view(), name="pack"),
    path(f"{_POLICY}/pack/links", packs_api.PackLinksView.as_view(), name="pack-links"),
    path(
        f"{_POLICY}/pack/links/<int:link>/revoke", packs_api.PackLinkRevocationView.as_view(), name="pack-link-revoke"
    ),
    path(f"{_POLICY}/allocations", allocations.AllocationListView.as_view(), name="allocations"),
    path(f"{_POLICY}/allocations/table", allocations.AllocationTableView.as_view(), name="allocation-table"),
    path(f"{_POLICY}/allocations/shares", allocations.AllocationSharesView.as_view(), name="allocation-shares"),
    path(f"{_POLICY}/allocations/<uuid:allocation>", allocations.AllocationDetailView.as_view(), name="allocation"),
    path(f"{_POLICY}/capacities", capacities.CapacityListView.as_view(), name="capacities"),
    path(f"{_POLICY}/capacities/<int:capacity>", capacities.CapacityDetailView.as_view(), name="capacity"),
]
