"""Guides."""

from __future__ import annotations

from django.urls import path

from apps.dashboard.help import views

urlpatterns = [
    path("help/", views.show_help, name="help"),
    path("help/<slug:name>/", views.show_help, name="help-page"),
]
