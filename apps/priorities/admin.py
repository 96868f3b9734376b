"""Read-only admin of snapshots, for emergencies."""

from __future__ import annotations

from django.contrib import admin

from apps.accounts.admin import ReadOnlyAdmin
from apps.priorities.models import Snapshot


@admin.register(Snapshot)
class SnapshotAdmin(ReadOnlyAdmin):
    list_display = ("id", "policy", "revision_number", "as_of", "computed_at", "duration_s", "n_ranked", "is_live")
    list_filter = ("policy", "is_live")
    exclude = ("data",)
