"""Routes of health checks and metrics, at the root of the site."""

from __future__ import annotations

from django.urls import path

from apps.pages.monitoring import views

urlpatterns = [
    path("healthz", views.healthz, name="healthz"),
    path("readyz", views.readyz, name="readyz"),
    path("metrics", views.metrics, name="metrics"),
]
