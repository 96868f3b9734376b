"""Goals of an entry."""

from __future__ import annotations

from django.urls import path

from apps.dashboard.goals import views

urlpatterns = [path("policy/<slug:policy>/goal/<uuid:uid>/", views.goal, name="goal")]
