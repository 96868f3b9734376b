"""Preview, archive and restore policies and usage sources. Removing them is DELETE on the policy or source."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.authentication import POLICIES_WRITE, USAGE_WRITE, Scopes, actor_of
from apps.api.records import serializer_of
from apps.api.shapes import UtcTimeField, sent
from apps.api.views import APIView
from apps.core import clock
from apps.mapping import removal


class RemovalReasonSerializer(serializers.Serializer[Any]):
    reason = serializers.CharField(max_length=4_000, help_text="Why, for the audit log")


RemovalSerializer = serializer_of(removal.Removal)


class StateSerializer(serializers.Serializer[Any]):
    slug = serializers.CharField()
    archived_at = UtcTimeField(allow_null=True, help_text="null: it is current")


class PolicyRemovalView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({POLICIES_WRITE})}

    @extend_schema(operation_id="preview_policy_removal", responses=RemovalSerializer)
    def get(self, request: Request, policy: str) -> Response:
        """What rests on a policy, and the effects of removing or archiving it. For administrators."""
        found = removal.preview_removal(kind="policy", slug=policy, actor=actor_of(request))
        return Response(RemovalSerializer(found).data)


class PolicyArchiveView(APIView):
    scopes: ClassVar[Scopes] = {"POST": frozenset({POLICIES_WRITE})}

    @extend_schema(operation_id="archive_policy", request=RemovalReasonSerializer, responses=StateSerializer)
    def post(self, request: Request, policy: str) -> Response:
        """Hide a policy: look-ups answer 410, nothing is computed, its history stays readable. For administrators."""
        reason = sent(RemovalReasonSerializer, request)["reason"]
        done = removal.archive_policy(slug=policy, reason=reason, at=clock.now(), actor=actor_of(request))
        return Response(StateSerializer(done).data)


class PolicyRestoreView(APIView):
    scopes: ClassVar[Scopes] = {"POST": frozenset({POLICIES_WRITE})}

    @extend_schema(operation_id="restore_policy", request=RemovalReasonSerializer, responses=StateSerializer)
    def post(self, request: Request, policy: str) -> Response:
        """List, compute and serve an archived policy again. For administrators."""
        reason = sent(RemovalReasonSerializer, request)["reason"]
        done = removal.restore_policy(slug=policy, reason=reason, at=clock.now(), actor=actor_of(request))
        return Response(StateSerializer(done).data)


class SourceRemovalView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({USAGE_WRITE})}

    @extend_schema(operation_id="preview_source_removal", responses=RemovalSerializer)
    def get(self, request: Request, source: str) -> Response:
        """What rests on a source, and the effects of removing or archiving it. For administrators."""
        found = removal.preview_removal(kind="source", slug=source, actor=actor_of(request))
        return Response(RemovalSerializer(found).data)


class SourceArchiveView(APIView):
    scopes: ClassVar[Scopes] = {"POST": frozenset({USAGE_WRITE})}

    @extend_schema(operation_id="archive_source", request=RemovalReasonSerializer, responses=StateSerializer)
    def post(self, request: Request, source: str) -> Response:
        """Hide a source: its usage counts nowhere, its records and sums are kept. For administrators."""
        reason = sent(RemovalReasonSerializer, request)["reason"]
        done = removal.archive_source(slug=source, reason=reason, at=clock.now(), actor=actor_of(request))
        return Response(StateSerializer(done).data)


class SourceRestoreView(APIView):
    scopes: ClassVar[Scopes] = {"POST": frozenset({USAGE_WRITE})}

    @extend_schema(operation_id="restore_source", request=RemovalReasonSerializer, responses=StateSerializer)
    def post(self, request: Request, source: str) -> Response:
        """Count and collect an archived source's usage again. For administrators."""
        reason = sent(RemovalReasonSerializer, request)["reason"]
        done = removal.restore_source(slug=source, reason=reason, at=clock.now(), actor=actor_of(request))
        return Response(StateSerializer(done).data)
