"""The log of who did what, as far as the caller may read it."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.audit_log import last_check
from apps.accounts.models import AuditEvent
from apps.api.authentication import POLICIES_READ, POLICIES_WRITE, SELF_READ, Scopes, actor_of
from apps.api.shapes import InstantField, UtcTimeField, asked, decode_cursor, encode_cursor
from apps.api.views import APIView
from apps.core import clock
from apps.policies.audit_reading import AuditFilter, AuditPage, AuditReader

_PAGE = 100


class AuditEventSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    at = UtcTimeField()
    actor = serializers.CharField(source="actor_name")
    verb = serializers.CharField()
    outcome = serializers.ChoiceField(AuditEvent.Outcome.choices)
    policy = serializers.CharField(source="policy_slug", allow_blank=True)
    entry = serializers.UUIDField(source="entry_uid", allow_null=True)
    subject = serializers.CharField(allow_blank=True)
    reason = serializers.CharField(allow_blank=True)
    details = serializers.DictField()
    via = serializers.CharField()
    request_id = serializers.SerializerMethodField(help_text="For administrators, and of what you did yourself")
    token = serializers.SerializerMethodField(help_text="For administrators, and of what you did yourself")
    address = serializers.SerializerMethodField(help_text="For administrators")
    hash = serializers.SerializerMethodField()

    def get_request_id(self, event: AuditEvent) -> str | None:
        return event.request_id if self._knows(event) else None

    def get_token(self, event: AuditEvent) -> str | None:
        return event.token_prefix if self._knows(event) else None

    def get_address(self, event: AuditEvent) -> str | None:
        return event.address if self.context["reader"].reads_all else None

    def get_hash(self, event: AuditEvent) -> str:
        return bytes(event.hash).hex()

    def _knows(self, event: AuditEvent) -> bool:
        reader: AuditReader = self.context["reader"]
        return reader.reads_all or reader.is_own(event)


class AuditCheckSerializer(serializers.Serializer[Any]):
    checked_at = UtcTimeField()
    rows = serializers.IntegerField(source="n_rows", help_text="Up to which everything held")
    broken_row = serializers.IntegerField(source="broken_id", allow_null=True)


class AuditPageSerializer(serializers.Serializer[Any]):
    results = AuditEventSerializer(many=True)
    next = serializers.CharField(allow_null=True)
    chain = AuditCheckSerializer(allow_null=True, help_text="Result of the last check of the whole chain")


class AuditFilterSerializer(serializers.Serializer[Any]):
    actor = serializers.CharField(required=False, max_length=128, help_text="A part of the name")
    verb = serializers.CharField(required=False, max_length=64, help_text="The whole verb, or its first word: policy")
    policy = serializers.CharField(required=False, max_length=64)
    entry = serializers.CharField(
        required=False, max_length=9000, help_text="Its uid, or its path now; what is below it comes with it"
    )
    via = serializers.ChoiceField(["page", "api", "command", "worker", "admin"], required=False)
    outcome = serializers.ChoiceField(AuditEvent.Outcome.choices, required=False)
    q = serializers.CharField(required=False, max_length=128, help_text="A part of name, subject or reason")
    since = InstantField(required=False)
    until = InstantField(required=False)
    cursor = serializers.CharField(required=False, max_length=200)


class AuditListView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({POLICIES_READ, POLICIES_WRITE, SELF_READ})}

    @extend_schema(operation_id="list_audit", parameters=[AuditFilterSerializer], responses=AuditPageSerializer)
    def get(self, request: Request) -> Response:
        """Newest first: what you did, and what was done within your grants; administrators read everything."""
        given, reader = asked(AuditFilterSerializer, request), AuditReader(actor_of(request), clock.now())
        cursor = given.get("cursor")
        entries = _entries(given["entry"], given.get("policy", ""), reader) if "entry" in given else frozenset()
        wanted = AuditFilter(
            who=given.get("actor", ""),
            verb=given.get("verb", ""),
            policy_slug=given.get("policy", ""),
            entries=entries,
            via=given.get("via", ""),
            outcome=given.get("outcome", ""),
            text=given.get("q", ""),
            since=given.get("since"),
            until=given.get("until"),
        )
        before = None if cursor is None else decode_cursor(cursor, int)
        is_nowhere = "entry" in given and not entries
        page = AuditPage([], None) if is_nowhere else reader.page(wanted, before=before, limit=_PAGE)
        check = last_check()
        return Response(
            {
                "results": AuditEventSerializer(page.events, many=True, context={"reader": reader}).data,
                "next": None if page.next_before is None else encode_cursor(page.next_before),
                "chain": None if check is None else AuditCheckSerializer(check).data,
            }
        )


def _entries(text: str, policy_slug: str, reader: AuditReader) -> frozenset[UUID]:
    """By uid, also archived ones; by path the present one. Entries hidden from the caller are left out."""
    try:
        return frozenset([UUID(text)])
    except ValueError:
        return reader.entries_at(text, policy_slug)
