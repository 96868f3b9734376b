"""Adjustments of usage: corrections of an account on a day, with their reason."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.policies.settings import RESOURCES
from apps.priorities.adjustments import AdjustmentLine, list_adjustments
from apps.web import bounds
from apps.web.rest.authentication import POLICIES_READ, POLICIES_WRITE, Scopes, actor_of
from apps.web.rest.cursors import read_cursor
from apps.web.rest.inputs import entry_uid, read_query
from apps.web.rest.records import keeps_old_names
from apps.web.rest.shapes import UtcTimeField, list_response, list_schema
from apps.web.rest.views import APIView

_ADJUSTMENT_PAGE = 100


@keeps_old_names
class AdjustmentSerializer(serializers.Serializer[Any]):
    uid = serializers.UUIDField(source="adjustment.uid")
    entry = serializers.UUIDField(source="adjustment.entry_uid")
    path = serializers.SerializerMethodField(
        help_text="Path of the entry; null: the entry is archived, and the adjustment has no effect"
    )
    resource = serializers.ChoiceField(RESOURCES, source="adjustment.resource")
    amount_s = serializers.FloatField(
        source="adjustment.amount_s", help_text="Seconds of the resource; below 0: a refund"
    )
    at = UtcTimeField(
        source="adjustment.at", help_text="Hour to which the amount is added; it decays from then on like usage"
    )
    usage = serializers.FloatField(help_text="Its current amount in the policy's metric, as of the newest snapshot")
    note = serializers.CharField(source="adjustment.note")
    reason = serializers.CharField(source="adjustment.reason")
    author = serializers.CharField(source="adjustment.author_name")
    created_at = UtcTimeField(source="adjustment.created_at")
    since = serializers.IntegerField(source="adjustment.since", help_text="Revision that published it")
    until = serializers.IntegerField(
        source="adjustment.until", allow_null=True, help_text="Revision that revoked it; null: valid"
    )

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_path(self, line: AdjustmentLine) -> str | None:
        return line.path or None


class AdjustmentFilterSerializer(serializers.Serializer[Any]):
    entry = serializers.CharField(
        max_length=bounds.ENTRY, required=False, help_text="uid or path; only adjustments at this entry and below it"
    )
    active = serializers.BooleanField(required=False, default=False, help_text="Leave out revoked adjustments")
    cursor = serializers.CharField(max_length=bounds.CURSOR, required=False)


class AdjustmentListView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({POLICIES_READ, POLICIES_WRITE})}

    @extend_schema(
        operation_id="list_adjustments",
        parameters=[AdjustmentFilterSerializer],
        responses=list_schema(AdjustmentSerializer),
    )
    def get(self, request: Request, policy: str) -> Response:
        """Adjustments of usage at entries that the caller may see, newest first.

        The operation `adjust_usage` of a change set makes one.
        """
        query = read_query(AdjustmentFilterSerializer, request)
        lines, next_before = list_adjustments(
            policy_slug=policy,
            entry_uid=entry_uid(request, policy, query["entry"]) if "entry" in query else None,
            with_revoked=not query["active"],
            before=read_cursor(query),
            limit=_ADJUSTMENT_PAGE,
            actor=actor_of(request),
        )
        return list_response(AdjustmentSerializer(lines, many=True).data, next_before)
