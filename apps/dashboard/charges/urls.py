"""Pages about what jobs count."""

from __future__ import annotations

from django.urls import path

from apps.dashboard.charges import views as charges

_CHARGES = "policy/<slug:policy>/charges/"

urlpatterns = [
    path(_CHARGES, charges.charges, name="charges"),
    path(f"{_CHARGES}_rows", charges.rows, name="charges-rows"),
    path(f"{_CHARGES}table.csv", charges.table, name="charges-table"),
    path(f"{_CHARGES}<int:record>/", charges.charge, name="charge"),
]
