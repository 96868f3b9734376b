"""Search and the switch of single keys."""

from __future__ import annotations

from django.urls import path

from apps.dashboard.search import views as search

urlpatterns = [
    path("search/", search.search, name="search"),
    path("search/_results", search.results, name="search-results"),
    path("keys/", search.keys, name="keys"),
]
