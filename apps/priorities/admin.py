"""Break-glass: mapping rules and snapshots, to look at. Rules change by a service, which counts their version."""

from __future__ import annotations

from django.contrib import admin

from apps.accounts.admin import ReadOnlyAdmin
from apps.priorities.models import MappingRule, Snapshot


@admin.register(MappingRule)
class MappingRuleAdmin(ReadOnlyAdmin):
    list_display = ("policy", "position", "kind", "namespace", "user_pattern", "group_pattern", "suffix")
    list_filter = ("policy", "kind")


@admin.register(Snapshot)
class SnapshotAdmin(ReadOnlyAdmin):
    list_display = ("id", "policy", "revision_number", "as_of", "computed_at", "duration_s", "n_ranked", "is_live")
    list_filter = ("policy", "is_live")
    exclude = ("data",)
