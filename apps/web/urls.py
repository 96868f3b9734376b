"""Routes of the frame."""

from __future__ import annotations

from django.urls import path

from apps.web.shell import preferences

urlpatterns = [
    path("theme/", preferences.theme, name="theme"),
    path("keys/", preferences.keys, name="keys"),
]
rest: list[object] = []
