"""Read-only admin of mapping rules: only services may change them, because changes need a new version."""

from __future__ import annotations

from django.contrib import admin

from apps.accounts.admin import ReadOnlyAdmin
from apps.mapping.models import MappingRule


@admin.register(MappingRule)
class MappingRuleAdmin(ReadOnlyAdmin):
    list_display = ("policy", "position", "kind", "namespace", "user_pattern", "group_pattern", "suffix")
    list_filter = ("policy", "kind")
