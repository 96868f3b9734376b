"""Pages about other authorities: who they are, what is mounted, and how it stands."""

from __future__ import annotations

from django.urls import path

from apps.dashboard.views import federation

urlpatterns = [
    path("federation/", federation.peers, name="federation"),
    path("federation/_peers", federation.rows, name="federation-rows"),
]
