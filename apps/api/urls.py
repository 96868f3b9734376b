"""Routes of REST v1. What matches none is a problem document, not a page."""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.urls import URLPattern, re_path

from apps.api import errors

app_name = "api"
urlpatterns: list[URLPattern] = [
    re_path(r"^.*$", login_not_required(errors.not_found), name="unmatched"),
]
