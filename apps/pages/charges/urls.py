"""Routes of this feature: pages, fragments, and REST."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.pages.charges import api as charges_api
from apps.pages.charges import views as charges
from apps.pages.charges.adjustments import api as adjustments_api
from apps.pages.charges.adjustments import views as adjustments

_NODE = "policy/<slug:policy>/n/<uuid:uid>"
_CHARGES = "policy/<slug:policy>/charges/"
_POLICY = "policies/<slug:policy>"


urlpatterns: list[URLPattern] = [
    path("policy/<slug:policy>/adjustments/<uuid:uid>/", adjustments.adjustments, name="adjustments"),
    path("policy/<slug:policy>/adjustments/<uuid:uid>/_preview", adjustments.preview, name="adjustment-preview"),
    path(f"{_NODE}/_adjustments", adjustments.of_entry, name="entry-adjustments"),
    path(_CHARGES, charges.charges, name="charges"),
    path(f"{_CHARGES}_rows", charges.rows, name="charges-rows"),
    path(f"{_CHARGES}table.csv", charges.table, name="charges-table"),
    path(f"{_CHARGES}<int:record>/", charges.charge, name="charge"),
]
rest: list[URLPattern] = [
    path(f"{_POLICY}/adjustments", adjustments_api.AdjustmentListView.as_view(), name="adjustments"),
    path(f"{_POLICY}/charges", charges_api.ChargeListView.as_view(), name="charges"),
]
