"""Routes of this feature: pages, fragments, and REST."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.pages.entry import views as entry

_NODE = "policy/<slug:policy>/n/<uuid:uid>"


urlpatterns: list[URLPattern] = [
    path(f"{_NODE}/", entry.find, name="entry-find"),
    path(f"{_NODE}/_preview", entry.preview, name="shares-preview"),
    path(f"{_NODE}/_shares", entry.shares, name="shares"),
    path(f"{_NODE}/<slug:name>/", entry.entry, name="entry"),
]
rest: list[URLPattern] = []
