"""Corrections of usage: listed with what they come to now. One is made by the operation `adjust_usage`."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.api.authentication import POLICIES_READ, POLICIES_WRITE, Scopes, actor_of
from apps.api.v1.lists import asked, decode_cursor, list_of, listed
from apps.api.v1.policies.places import entry_uid
from apps.policies.settings import RESOURCES
from apps.priorities.adjustments import AdjustmentLine, list_adjustments

_PAGE = 100


class AdjustmentSerializer(serializers.Serializer[Any]):
    uid = serializers.UUIDField(source="adjustment.uid")
    entry = serializers.UUIDField(source="adjustment.entry_uid")
    path = serializers.SerializerMethodField(help_text="null: its entry is archived, and it counts nowhere")
    resource = serializers.ChoiceField(RESOURCES, source="adjustment.resource")
    amount_s = serializers.FloatField(
        source="adjustment.amount_s", help_text="Seconds of the resource; below 0: given back"
    )
    at = serializers.DateTimeField(source="adjustment.at", help_text="As if used then; it ages from that hour on")
    counted_s = serializers.FloatField(
        source="counted", help_text="What it comes to in the policy's metric as of the newest snapshot"
    )
    note = serializers.CharField(source="adjustment.note")
    reason = serializers.CharField(source="adjustment.reason")
    author = serializers.CharField(source="adjustment.author_name")
    created_at = serializers.DateTimeField(source="adjustment.created_at")
    since = serializers.IntegerField(source="adjustment.since", help_text="The revision that published it")
    until = serializers.IntegerField(
        source="adjustment.until", allow_null=True, help_text="The revision that revoked it; null: valid"
    )

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_path(self, line: AdjustmentLine) -> str | None:
        return line.path or None


class AdjustmentFilterSerializer(serializers.Serializer[Any]):
    entry = serializers.CharField(max_length=9000, required=False, help_text="Its uid, or its path: there and below")
    in_force = serializers.BooleanField(required=False, default=False, help_text="Leave out those that are revoked")
    cursor = serializers.CharField(max_length=200, required=False)


class AdjustmentListView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({POLICIES_READ, POLICIES_WRITE})}

    @extend_schema(
        operation_id="list_adjustments",
        parameters=[AdjustmentFilterSerializer],
        responses=list_of(AdjustmentSerializer),
    )
    def get(self, request: Request, policy: str) -> Response:
        """Of entries that the caller sees, newest first. Make one with the operation `adjust_usage`."""
        given = asked(AdjustmentFilterSerializer, request)
        lines, following = list_adjustments(
            policy_slug=policy,
            entry_uid=entry_uid(request, policy, given["entry"]) if "entry" in given else None,
            with_revoked=not given["in_force"],
            before=decode_cursor(given["cursor"], int) if "cursor" in given else None,
            limit=_PAGE,
            actor=actor_of(request),
        )
        return listed(AdjustmentSerializer(lines, many=True).data, following)
