"""Break-glass: sources and imports. Records and buckets are too many for pages, and are never edited."""

from __future__ import annotations

from typing import Any

from django.contrib import admin

from apps.accounts.admin import AuditedAdmin, ReadOnlyAdmin
from apps.usage.models import Import, Source


@admin.register(Source)
class SourceAdmin(AuditedAdmin):
    """What describes a source may be corrected; what its records were keyed by may not."""

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
