"""Routes of REST that belong to no feature: background runs, the schema, and unknown addresses."""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.urls import path, re_path
from django.views.decorators.csrf import csrf_exempt

from apps.web.rest import errors, reference_views, runs
from apps.web.rest import schema as schema_view

urlpatterns = [
    path("runs/<int:run>", runs.RunDetailView.as_view(), name="run"),
    path("schema", schema_view.schema, name="schema"),
    re_path(r"^docs/?$", reference_views.operations, name="docs"),
    path("docs/<slug:name>", reference_views.operation, name="docs-of"),
    re_path(r"^.*$", csrf_exempt(login_not_required(errors.not_found)), name="unmatched"),
]
