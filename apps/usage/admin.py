"""Django admin for usage sources and imports, for emergencies. Records and buckets are not editable."""

from __future__ import annotations

from typing import Any

from django.contrib import admin

from apps.accounts.admin import AuditedAdmin, ReadOnlyAdmin
from apps.usage.models import Import, Source


@admin.register(Source)
class SourceAdmin(AuditedAdmin):
    """Only descriptive fields can be edited; fields that identify stored records cannot."""

    list_display = ("slug", "name", "site", "origin", "n_records", "last_record_end_at")
    fields = ("name", "time_zone", "expected_every_s")

    def has_add_permission(self, *_: Any) -> bool:
        return False

    def has_delete_permission(self, *_: Any) -> bool:
        return False


@admin.register(Import)
class ImportAdmin(ReadOnlyAdmin):
    list_display = ("id", "source", "file_name", "format", "n_bytes", "dry_run", "created_at")
    list_filter = ("source", "dry_run")
