"""Routes of the three faces: pages, JSON, and health."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path

from apps.dashboard.sign_in.oidc import CALLBACK
from apps.dashboard.sign_in.views import admin_sign_in, oidc_callback

urlpatterns = [
    path("admin/login/", admin_sign_in),  # before the one of the administration itself
    path("admin/", admin.site.urls),
    path("api/v1/", include("apps.api.urls")),
    path("", include("apps.api.monitoring.urls")),
    path("sign-in/oidc/<slug:provider_id>/callback/", oidc_callback, name=CALLBACK),  # allauth knows it by that name
    path("", include("apps.dashboard.urls")),
]
handler400 = "fairshare_web.errors.bad_request"
handler403 = "fairshare_web.errors.forbidden"
handler404 = "fairshare_web.errors.not_found"
handler500 = "fairshare_web.errors.server_error"
