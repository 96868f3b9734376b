"""Django admin for runs, read-only."""

from __future__ import annotations

from django.contrib import admin

from apps.accounts.admin import ReadOnlyAdmin
from apps.runs.models import Run


@admin.register(Run)
class RunAdmin(ReadOnlyAdmin):
    list_display = ("id", "kind", "subject", "state", "attempts", "due_at", "finished_at", "error_code")
    list_filter = ("kind", "state")
