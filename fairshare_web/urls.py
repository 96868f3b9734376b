"""Routes of the three faces: pages, JSON, and health."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("admin/", admin.site.urls),
    path("api/v1/", include("apps.api.urls")),
    path("", include("apps.api.health_urls")),
    path("", include("apps.dashboard.urls")),
]
handler403 = "apps.dashboard.errors.forbidden"
handler404 = "apps.dashboard.errors.not_found"
handler500 = "apps.dashboard.errors.server_error"
