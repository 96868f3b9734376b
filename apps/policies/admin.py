"""Django admin for emergencies: history is read-only; trees change only through change sets."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest  # noqa: TID251 - Django's admin hands over requests

from apps.accounts.admin import AuditedAdmin, ReadOnlyAdmin
from apps.core.clock import now
from apps.policies.access.authority import VERBS_OF_ROLE
from apps.policies.models import ChangeSet, Entry, Grant, Policy, Revision


@admin.register(Policy)
class PolicyAdmin(AuditedAdmin):
    """Edits a policy's name, description and visibility."""

    list_display = ("slug", "name", "visibility", "head_number", "created_at")
    readonly_fields = ("slug", "head_number", "created_at")

    def has_add_permission(self, *_: Any) -> bool:
        return False

    def has_delete_permission(self, *_: Any) -> bool:
        return False


@admin.register(Revision)
class RevisionAdmin(ReadOnlyAdmin):
    list_display = ("policy", "number", "author_name", "published_at", "n_entries")
    list_filter = ("policy",)
    exclude = ("tree",)


@admin.register(ChangeSet)
class ChangeSetAdmin(ReadOnlyAdmin):
    list_display = ("id", "policy", "state", "author_name", "updated_at")
    list_filter = ("policy", "state")


@admin.register(Entry)
class EntryAdmin(ReadOnlyAdmin):
    list_display = ("name", "kind", "shares", "policy", "since", "until")
    list_filter = ("policy", "kind")
    search_fields = ("name", "uid")
    show_full_result_count = False


@admin.register(Grant)
class GrantAdmin(AuditedAdmin):
    list_display = ("user", "people", "role", "policy", "entry_uid", "expires_at")
    list_filter = ("policy", "role")
    fields = ("policy", "entry_uid", "user", "people", "role", "reason", "expires_at")
    raw_id_fields = ("user",)

    def save_model(self, request: HttpRequest, obj: Grant, form: Any, change: bool) -> None:
        if not change:
            obj.created_at = now()
            obj.granted_by_id = request.user.pk
        if not change or "role" in form.changed_data:
            obj.verbs = list(VERBS_OF_ROLE[obj.role])
        super().save_model(request, obj, form, change)
