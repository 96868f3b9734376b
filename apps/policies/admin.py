"""Break-glass: look at everything; change only what isn't history. Trees change by change sets alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin

from apps.policies.models import ChangeSet, Entry, Grant, Policy, Revision

if TYPE_CHECKING:
    _Admin = admin.ModelAdmin[Any]  # generic for the type checker alone
else:
    _Admin = admin.ModelAdmin


class _ReadOnly(_Admin):
    """What was published is read here, never written: the database would refuse it anyway."""

    def has_add_permission(self, *_: Any) -> bool:
        return False

    def has_change_permission(self, *_: Any) -> bool:
        return False

    def has_delete_permission(self, *_: Any) -> bool:
        return False


@admin.register(Policy)
class PolicyAdmin(_ReadOnly):
    list_display = ("slug", "name", "visibility", "head_number", "created_at")
    readonly_fields = ("slug", "head_number", "created_at")

    def has_change_permission(self, *_: Any) -> bool:
        return True  # its name, and who may see it


@admin.register(Revision)
class RevisionAdmin(_ReadOnly):
    list_display = ("policy", "number", "author_name", "published_at", "n_entries")
    list_filter = ("policy",)
    exclude = ("tree",)


@admin.register(ChangeSet)
class ChangeSetAdmin(_ReadOnly):
    list_display = ("id", "policy", "state", "author_name", "updated_at")
    list_filter = ("policy", "state")


@admin.register(Entry)
class EntryAdmin(_ReadOnly):
    list_display = ("name", "kind", "shares", "policy", "since", "until")
    list_filter = ("policy", "kind")
    search_fields = ("name", "uid")
    show_full_result_count = False


@admin.register(Grant)
class GrantAdmin(_Admin):
    list_display = ("user", "role", "policy", "entry_uid", "expires_at")
    list_filter = ("policy", "role")
    raw_id_fields = ("user", "granted_by")
