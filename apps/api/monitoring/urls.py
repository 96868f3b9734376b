"""At the root, not under /api/v1."""

from __future__ import annotations

from django.urls import path

from apps.api.monitoring import health

urlpatterns = [
    path("healthz", health.healthz, name="healthz"),
    path("readyz", health.readyz, name="readyz"),
    path("metrics", health.metrics, name="metrics"),
]
