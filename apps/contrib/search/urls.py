"""Routes of this feature: pages, fragments, and REST."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.contrib.search import api as search_api
from apps.contrib.search.pages import views as search

urlpatterns: list[URLPattern] = [
    path("search/", search.search, name="search"),
    path("search/_results", search.results, name="search-results"),
]
rest: list[URLPattern] = [
    path("search", search_api.SearchView.as_view(), name="search"),
]
