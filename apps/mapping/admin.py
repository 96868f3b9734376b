"""Break-glass view of mapping rules, read-only: a service changes them and raises their version."""

from __future__ import annotations

from django.contrib import admin

from apps.accounts.admin import ReadOnlyAdmin
from apps.mapping.models import MappingRule


@admin.register(MappingRule)
class MappingRuleAdmin(ReadOnlyAdmin):
    list_display = ("policy", "position", "kind", "namespace", "user_pattern", "group_pattern", "suffix")
    list_filter = ("policy", "kind")
