"""Packs and the links to them."""

from __future__ import annotations

from django.urls import path

from apps.dashboard.packs import views

_PACK = "policy/<slug:policy>/pack/<uuid:uid>"

urlpatterns = [
    path(f"{_PACK}/", views.pack, name="pack"),
    path(f"{_PACK}/pack.<str:form>", views.download, name="pack-file"),
    path("shared/packs/<str:token>/", views.shared, name="shared-pack"),
    path("shared/packs/<str:token>/pack.<str:form>", views.shared_file, name="shared-pack-file"),
]
