"""The audit log, limited to the rows that the caller may read."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.audit_log import last_check
from apps.accounts.models import AuditEvent
from apps.core import clock
from apps.policies.audit_reading import AuditFilter, AuditPage, AuditReader
from apps.web import bounds
from apps.web.rest.authentication import POLICIES_READ, POLICIES_WRITE, SELF_READ, Scopes, actor_of
from apps.web.rest.cursors import encode_cursor, read_cursor
from apps.web.rest.inputs import InstantField, read_query
from apps.web.rest.records import keeps_old_names
from apps.web.rest.shapes import UtcTimeField
from apps.web.rest.views import APIView

_PAGE = 100


class AuditEventSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    at = UtcTimeField()
    actor = serializers.CharField(source="actor_name", help_text="Name of the person or process")
    verb = serializers.CharField(help_text="The action, such as policy.publish")
    outcome = serializers.ChoiceField(AuditEvent.Outcome.choices)
    policy = serializers.CharField(source="policy_slug", allow_blank=True)
    entry = serializers.UUIDField(source="entry_uid", allow_null=True)
    subject = serializers.CharField(allow_blank=True)
    reason = serializers.CharField(allow_blank=True)
    details = serializers.DictField()
    via = serializers.CharField()
    request_id = serializers.SerializerMethodField(
        help_text="X-Request-Id; null unless the caller is an administrator or the actor"
    )
    token = serializers.SerializerMethodField(
        help_text="Prefix of the token; null unless the caller is an administrator or the actor"
    )
    address = serializers.SerializerMethodField(help_text="IP address; null unless the caller is an administrator")
    hash = serializers.SerializerMethodField(help_text="Link in the hash chain of the log, hexadecimal")

    def get_request_id(self, event: AuditEvent) -> str | None:
        return event.request_id if self._may_trace(event) else None

    def get_token(self, event: AuditEvent) -> str | None:
        return event.token_prefix if self._may_trace(event) else None

    def get_address(self, event: AuditEvent) -> str | None:
        return event.address if self.context["reader"].reads_all else None

    def get_hash(self, event: AuditEvent) -> str:
        return bytes(event.hash).hex()

    def _may_trace(self, event: AuditEvent) -> bool:
        reader: AuditReader = self.context["reader"]
        return reader.reads_all or reader.is_own(event)


@keeps_old_names
class AuditCheckSerializer(serializers.Serializer[Any]):
    checked_at = UtcTimeField()
    n_rows = serializers.IntegerField(help_text="Number of rows that were found intact")
    broken_row = serializers.IntegerField(
        source="broken_id", allow_null=True, help_text="First row whose hash is wrong; null: none"
    )


class AuditPageSerializer(serializers.Serializer[Any]):
    results = AuditEventSerializer(many=True)
    next = serializers.CharField(allow_null=True)
    chain = AuditCheckSerializer(
        allow_null=True, help_text="Result of the last check of the hash chain; null: never checked"
    )


class AuditFilterSerializer(serializers.Serializer[Any]):
    actor = serializers.CharField(required=False, max_length=bounds.SEARCHED, help_text="Part of the actor's name")
    verb = serializers.CharField(
        required=False, max_length=bounds.VERB, help_text="A whole verb, or its first word, such as policy"
    )
    policy = serializers.CharField(required=False, max_length=bounds.POLICY_SLUG)
    entry = serializers.CharField(
        required=False,
        max_length=bounds.ENTRY,
        help_text="uid or current path of an entry; includes all entries below it",
    )
    via = serializers.ChoiceField(["page", "api", "command", "worker", "admin"], required=False)
    outcome = serializers.ChoiceField(AuditEvent.Outcome.choices, required=False)
    q = serializers.CharField(required=False, max_length=bounds.SEARCHED, help_text="Part of a name, subject or reason")
    since = InstantField(required=False)
    until = InstantField(required=False)
    cursor = serializers.CharField(required=False, max_length=bounds.CURSOR)


class AuditListView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"GET": frozenset({POLICIES_READ, POLICIES_WRITE, SELF_READ})}

    @extend_schema(operation_id="list_audit", parameters=[AuditFilterSerializer], responses=AuditPageSerializer)
    def get(self, request: Request) -> Response:
        """Rows of the audit log, newest first: the caller's own actions, and actions at entries within the caller's
        grants. Administrators read all rows.
        """
        query, reader = read_query(AuditFilterSerializer, request), AuditReader(actor_of(request), clock.now())
        entries = _entries(query["entry"], query.get("policy", ""), reader) if "entry" in query else frozenset()
        wanted = AuditFilter(
            who=query.get("actor", ""),
            verb=query.get("verb", ""),
            policy_slug=query.get("policy", ""),
            entries=entries,
            via=query.get("via", ""),
            outcome=query.get("outcome", ""),
            text=query.get("q", ""),
            since=query.get("since"),
            until=query.get("until"),
        )
        is_unknown_entry = "entry" in query and not entries
        before = read_cursor(query)
        page = AuditPage([], None) if is_unknown_entry else reader.page(wanted, before=before, limit=_PAGE)
        check = last_check()
        return Response(
            {
                "results": AuditEventSerializer(page.events, many=True, context={"reader": reader}).data,
                "next": None if page.next_before is None else encode_cursor(page.next_before),
                "chain": None if check is None else AuditCheckSerializer(check).data,
            }
        )


def _entries(text: str, policy_slug: str, reader: AuditReader) -> frozenset[UUID]:
    """The entry with this uid (also an archived one), or the entries at this path that the caller may see."""
    try:
        return frozenset([UUID(text)])
    except ValueError:
        return reader.entries_at(text, policy_slug)
