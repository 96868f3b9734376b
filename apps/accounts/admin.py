"""Django admin for people, for emergencies, and read-only views of tokens, accounts and the audit log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount, SocialApp, SocialToken
from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.http import HttpRequest  # noqa: TID251 - Django's admin hands over requests

from apps.accounts import audit_log as audit
from apps.accounts.actor import Actor
from apps.accounts.models import Account, AuditEvent, Identity, Token, User
from apps.core.clock import now

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]  # generic for the type checker alone
    PeopleAdmin = UserAdmin[User]
else:
    ModelAdmin = admin.ModelAdmin
    PeopleAdmin = UserAdmin


class ReadOnlyAdmin(ModelAdmin):
    """Read-only rows, which only services may change."""

    show_full_result_count = False

    def has_add_permission(self, *_: Any) -> bool:
        return False

    def has_change_permission(self, *_: Any) -> bool:
        return False

    def has_delete_permission(self, *_: Any) -> bool:
        return False


class AuditedAdmin(ModelAdmin):
    """Writes each change to the audit log, in the transaction of the admin."""

    actions = None  # bulk deletion would bypass `delete_model`

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        super().save_model(request, obj, form, change)
        self._log(request, obj, "admin.changed" if change else "admin.added", sorted(form.changed_data))

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        self._log(request, obj, "admin.deleted", [])
        super().delete_model(request, obj)

    def _log(self, request: HttpRequest, obj: Any, verb: str, fields: list[str]) -> None:
        assert isinstance(request.user, User)  # noqa: S101 - the admin requires a signed-in user
        audit.record(
            actor=Actor(user=request.user, via="admin"),
            verb=verb,
            at=now(),
            subject=f"{obj._meta.label_lower} {obj}",
            details={"fields": fields},
        )


@admin.register(User)
class PersonAdmin(AuditedAdmin, PeopleAdmin):
    list_display = ("username", "first_name", "last_name", "is_active", "is_superuser", "last_login")


@admin.register(Identity)
class IdentityAdmin(AuditedAdmin):
    """A person's identity in another system; after its removal, the next sign-in from there creates another user."""

    list_display = ("user", "source", "subject", "linked_at")
    list_filter = ("source",)
    search_fields = ("user__username", "subject")
    readonly_fields = ("user", "source", "subject", "linked_at")

    def has_add_permission(self, *_: Any) -> bool:
        return False


# Tables of allauth are not edited by hand: issuers are settings, people are identities, second factors are sealed.
for _model in (Authenticator, EmailAddress, SocialAccount, SocialApp, SocialToken):
    if admin.site.is_registered(_model):
        admin.site.unregister(_model)


@admin.register(Account)
class AccountAdmin(AuditedAdmin):
    """The owner can be set here; the names belong to the source."""

    list_display = ("namespace", "user_name", "group_name", "project", "dn", "person")
    search_fields = ("user_name", "group_name", "dn")
    raw_id_fields = ("person",)
    readonly_fields = ("namespace", "user_name", "group_name", "dn", "fqan", "project", "first_seen_at")
    show_full_result_count = False

    def has_add_permission(self, *_: Any) -> bool:
        return False

    def has_delete_permission(self, *_: Any) -> bool:
        return False


@admin.register(Token)
class TokenAdmin(ReadOnlyAdmin):
    list_display = ("name", "user", "public_id", "scopes", "expires_at", "revoked_at", "last_used_at")
    exclude = ("digest", "previous_digest")


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnlyAdmin):
    list_display = ("id", "at", "actor_name", "verb", "subject", "outcome", "via")
    list_filter = ("outcome", "via")
    search_fields = ("actor_name", "verb", "subject")
    exclude = ("previous_hash", "hash")
