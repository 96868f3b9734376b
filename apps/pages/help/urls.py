"""Routes of this feature: pages, fragments, and REST."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.pages.help import documents as help_pages
from apps.pages.help import terminal

urlpatterns: list[URLPattern] = [
    path("fairshare", terminal.download, name="terminal"),
    path("help/", help_pages.show_help, name="help"),
    path("help/<slug:name>/", help_pages.show_help, name="help-page"),
]
rest: list[URLPattern] = []
