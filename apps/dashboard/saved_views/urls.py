"""Routes of saved views."""

from __future__ import annotations

from django.urls import path

from apps.dashboard.saved_views import views

urlpatterns = [
    path("me/views/", views.save, name="views"),
    path("me/views/<int:view_id>/", views.change, name="view"),
]
