"""Policies, their revisions, and a whole tree as a document."""

from __future__ import annotations

from typing import Any, ClassVar
from urllib.parse import quote

from django.http import HttpResponse, HttpResponseBase
from django.utils.cache import patch_vary_headers
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.api.authentication import POLICIES_READ, PRIORITIES_READ, Scopes, actor_of
from apps.api.rendering import JSONRenderer
from apps.api.v1.instants import moment_of
from apps.api.v1.lists import asked, decode_cursor, list_of, listed
from apps.core import clock
from apps.mapping.visibility import load_whole_tree
from apps.policies import selectors
from apps.policies.files.exports import Export
from apps.policies.formats.base import Format
from apps.policies.formats.registry import get_format, list_formats
from apps.policies.settings import APPROACHES, RESOURCES, PolicySettings

READ: Scopes = {"GET": frozenset({POLICIES_READ})}
_PAGE = 100


class PolicySerializer(serializers.Serializer[Any]):
    slug = serializers.CharField()
    name = serializers.CharField()
    description = serializers.CharField()
    visibility = serializers.CharField()
    head_revision = serializers.IntegerField(source="head_number")
    created_at = serializers.DateTimeField()


class ClassFactorSerializer(serializers.Serializer[Any]):
    queue = serializers.CharField(required=False, help_text='"" is any')
    partition = serializers.CharField(required=False, help_text='"" is any')
    qos = serializers.CharField(required=False, help_text='"" is any')
    factor = serializers.FloatField(min_value=0, help_text="All rules that fit a job are multiplied; 0 counts nothing")


class SiteFactorSerializer(serializers.Serializer[Any]):
    site = serializers.CharField(help_text="As its records name it; each once")
    factor = serializers.FloatField(min_value=0, help_text="Sites without one count 1")


class MetricSerializer(serializers.Serializer[Any]):
    weights = serializers.DictField(
        child=serializers.FloatField(min_value=0), help_text=f"Of a second of {', '.join(RESOURCES)}"
    )
    class_factors = ClassFactorSerializer(many=True)
    site_factors = SiteFactorSerializer(many=True)


class SettingsSerializer(serializers.Serializer[Any]):
    """As stored in the revision; the registries of algorithms and decay functions describe the parameters."""

    algorithm = serializers.DictField()
    metric = MetricSerializer()
    window = serializers.DictField()
    approach = serializers.DictField(child=serializers.ChoiceField(APPROACHES), help_text="Of `local` and `global`")
    fallback_factor = serializers.FloatField()
    tolerance = serializers.DictField()
    review = serializers.DictField()


class PolicyDetailSerializer(PolicySerializer):
    settings = SettingsSerializer()
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
        more = {
            "settings": PolicySettings.from_stored(head.settings).to_json(),
            "n_entries": head.n_entries,
            "published_at": head.published_at,
        }
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


class DocumentQuerySerializer(MomentSerializer):
    format = serializers.ChoiceField(
        required=False, choices=[each.name for each in list_formats()], help_text="Instead of Accept"
    )


def _renderer(format: Format) -> type[BaseRenderer]:
    """For choosing by Accept; the text is written by the format itself."""
    return type(f"{format.name}Renderer", (BaseRenderer,), {"media_type": format.media_type, "format": format.name})


_BY_ACCEPT: tuple[type[BaseRenderer], ...] = (
    JSONRenderer,
    *(_renderer(each) for each in list_formats() if each.name != "json"),
)
_ANSWERS: dict[Any, Any] = {(200, each.media_type): dict if each.name == "json" else str for each in list_formats()}


class DocumentView(APIView):
    scopes: ClassVar[Scopes] = READ
    renderer_classes = _BY_ACCEPT

    @extend_schema(
        operation_id="get_document",
        parameters=[DocumentQuerySerializer, OpenApiParameter("If-None-Match", str, OpenApiParameter.HEADER)],
        responses={**_ANSWERS, 304: None},
    )
    def get(self, request: Request, policy: str) -> HttpResponseBase:
        """The whole tree as our document, which can be imported again, or in the format of a scheduler.

        `Fairshare-Dropped` says what of the policy the format has no place for.
        """
        query, actor = asked(DocumentQuerySerializer, request), actor_of(request)
        found = selectors.get_policy(slug=policy, actor=actor)
        revision = selectors.get_revision(policy=found, at=moment_of(query.get("at")))
        tree = load_whole_tree(policy=found, number=revision.number, at=clock.now(), actor=actor)
        format = get_format(query.get("format") or request.accepted_renderer.format)
        tag = f'"{revision.number}-{format.name}"'
        if tag in request.headers.get("If-None-Match", ""):
            response = HttpResponse(status=304)
        else:
            export = Export(format, tree, PolicySettings.from_stored(revision.settings))
            kind = format.media_type if format.name == "json" else f"{format.media_type}; charset=utf-8"
            response = HttpResponse(export.text(), content_type=kind)
            response["Content-Disposition"] = f'inline; filename="{export.file_name}"'
            if export.dropped:
                response["Fairshare-Dropped"] = quote("; ".join(export.dropped), safe=" ;:,/")[:2_000]
        response["ETag"] = tag
        patch_vary_headers(response, ["Accept", "Authorization", "Cookie"])
        return response
