"""Routes of this feature: pages, fragments, and REST."""

from __future__ import annotations

from django.urls import URLPattern, path

from apps.pages.audit import api as audit_api
from apps.pages.audit import views as audit

urlpatterns: list[URLPattern] = [
    path("audit/", audit.audit, name="audit"),
    path("audit/_rows", audit.rows, name="audit-rows"),
    path("audit/_event", audit.event, name="audit-event"),
    path("audit/export.jsonl", audit.export_lines, name="audit-lines"),
    path("audit/export.csv", audit.export_table, name="audit-table"),
]
rest: list[URLPattern] = [
    path("audit", audit_api.AuditListView.as_view(), name="audit"),
]
