"""Policies, their revisions, and a whole tree as a document."""

from __future__ import annotations

from typing import Any, ClassVar

from django.http import HttpResponseBase
from django.utils.cache import patch_vary_headers
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps import clock
from apps.api.authentication import POLICIES_READ, PRIORITIES_READ, Scopes, actor_of
from apps.api.rendering import JSONRenderer
from apps.api.v1.lists import asked, decode_cursor, list_of, listed
from apps.api.v1.moments import moment_of
from apps.policies import selectors
from apps.policies.document import dump_document, to_document
from apps.policies.settings import PolicySettings
from apps.priorities.sight import load_whole_tree

READ: Scopes = {"GET": frozenset({POLICIES_READ})}
_PAGE = 100


class PolicySerializer(serializers.Serializer[Any]):
    slug = serializers.CharField()
    name = serializers.CharField()
    description = serializers.CharField()
    visibility = serializers.CharField()
    head_revision = serializers.IntegerField(source="head_number")
    created_at = serializers.DateTimeField()


class PolicyDetailSerializer(PolicySerializer):
    settings = serializers.DictField()
    n_entries = serializers.IntegerField()
    published_at = serializers.DateTimeField()


class RevisionSerializer(serializers.Serializer[Any]):
    number = serializers.IntegerField()
    change_set = serializers.IntegerField(source="change_set_id")
    author = serializers.CharField(source="author_name")
    reason = serializers.CharField()
    published_at = serializers.DateTimeField()
    n_entries = serializers.IntegerField()


class CursorSerializer(serializers.Serializer[Any]):
    cursor = serializers.CharField(required=False, max_length=200)


class MomentSerializer(serializers.Serializer[Any]):
    at = serializers.CharField(required=False, max_length=40, help_text="A revision's number, or a time")


class PolicyListView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({POLICIES_READ, PRIORITIES_READ})}

    @extend_schema(operation_id="list_policies", responses=list_of(PolicySerializer))
    def get(self, request: Request) -> Response:
        """Their names are known to everybody who signs in; a token of one policy sees that one."""
        return listed(PolicySerializer(selectors.list_policies(actor=actor_of(request)), many=True).data)


class PolicyDetailView(APIView):
    scopes: ClassVar[Scopes] = READ

    @extend_schema(operation_id="get_policy", responses=PolicyDetailSerializer)
    def get(self, request: Request, policy: str) -> Response:
        """Settings and head revision."""
        found = selectors.get_policy(slug=policy, actor=actor_of(request))
        head = selectors.get_revision(policy=found)
        more = {"settings": head.settings, "n_entries": head.n_entries, "published_at": head.published_at}
        return Response({**PolicySerializer(found).data, **more})


class RevisionListView(APIView):
    scopes: ClassVar[Scopes] = READ

    @extend_schema(operation_id="list_revisions", parameters=[CursorSerializer], responses=list_of(RevisionSerializer))
    def get(self, request: Request, policy: str) -> Response:
        """What was published, newest first."""
        cursor = asked(CursorSerializer, request).get("cursor")
        found = selectors.get_policy(slug=policy, actor=actor_of(request))
        before = None if cursor is None else decode_cursor(cursor, int)
        revisions = selectors.list_revisions(policy=found, before=before, limit=_PAGE + 1)
        place = revisions[_PAGE - 1].number if len(revisions) > _PAGE else None
        return listed(RevisionSerializer(revisions[:_PAGE], many=True).data, place)


class YAMLDocumentRenderer(BaseRenderer):
    media_type = "application/yaml"
    format = "yaml"
    charset = "utf-8"

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> str:
        return "" if data is None else dump_document(data, as_yaml=True)


class DocumentView(APIView):
    scopes: ClassVar[Scopes] = READ
    renderer_classes = (JSONRenderer, YAMLDocumentRenderer)

    @extend_schema(
        operation_id="get_document",
        parameters=[MomentSerializer, OpenApiParameter("If-None-Match", str, OpenApiParameter.HEADER)],
        responses={(200, "application/json"): dict, (200, "application/yaml"): str, 304: None},
    )
    def get(self, request: Request, policy: str) -> HttpResponseBase:
        """The whole tree as our document, which can be published again."""
        moment, actor = moment_of(asked(MomentSerializer, request).get("at")), actor_of(request)
        found = selectors.get_policy(slug=policy, actor=actor)
        revision = selectors.get_revision(policy=found, at=moment)
        tree = load_whole_tree(policy=found, number=revision.number, at=clock.now(), actor=actor)
        tag = f'"{revision.number}-{request.accepted_renderer.format}"'
        if tag in request.headers.get("If-None-Match", ""):
            response = Response(status=304)
        else:
            response = Response(to_document(tree, PolicySettings.from_stored(revision.settings)))
        response["ETag"], response["Cache-Control"] = tag, "private"
        patch_vary_headers(response, ["Accept", "Authorization", "Cookie"])
        return response
