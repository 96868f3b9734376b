"""A whole policy as a document in any format: export, proposal and comparison."""

from __future__ import annotations

from typing import Any, ClassVar
from urllib.parse import quote

from django.http import HttpResponse, HttpResponseBase
from django.utils.cache import patch_vary_headers
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from apps.core import clock
from apps.core.errors import Stale
from apps.mapping.permissions import load_whole_tree
from apps.pages.policies.api.views import READ, MomentFilterSerializer
from apps.policies import selectors
from apps.policies.files.exports import Export, ExportOptions, export_policy, make_export
from apps.policies.files.import_export import FileImport, PolicyImport, import_policy, plan_import
from apps.policies.formats.base import Difference
from apps.policies.formats.registry import get_format, list_formats
from apps.policies.selectors import get_policy
from apps.policies.settings import PolicySettings
from apps.policies.tree.difference import CODES
from apps.policies.tree.revision_diff import FieldChange
from apps.web import bounds
from apps.web.rest.authentication import POLICIES_READ, POLICIES_WRITE, Scopes, actor_of
from apps.web.rest.errors import Refusal
from apps.web.rest.inputs import moment_of, read_query
from apps.web.rest.parsing import TextParser
from apps.web.rest.records import record_serializer
from apps.web.rest.rendering import JSONRenderer, dumps, flowing_response
from apps.web.rest.views import APIView

_CLUSTER = serializers.CharField(
    required=False,
    default="",
    allow_blank=True,
    max_length=bounds.CLUSTER,
    help_text="Cluster name in the file; default: that of the last import",
)
_ANSWERS: dict[Any, Any] = {(200, each.media_type): dict if each.name == "json" else str for each in list_formats()}
SettingDifferenceSerializer = record_serializer(FieldChange, component="SettingDifference")


class DocumentQuerySerializer(MomentFilterSerializer):
    format = serializers.ChoiceField(
        required=False,
        choices=[each.name for each in list_formats()],
        help_text="Format, in place of the Accept header",
    )
    cluster = _CLUSTER


class AgainstQuerySerializer(MomentFilterSerializer):
    format = serializers.ChoiceField(choices=[each.name for each in list_formats() if each.against])
    cluster = _CLUSTER
    difference = serializers.BooleanField(
        required=False, default=False, help_text="true: the difference as JSON, in place of the file"
    )


AgainstDifferenceSerializer = record_serializer(
    Difference,
    component="AgainstDifference",
    only="cluster n_changed n_new n_only_there changes notes",
    renamed={"changes": "shown"},
    texts={"changes": "The first 200", "notes": "Differences that shares alone can't express"},
)


_BY_ACCEPT: tuple[type[BaseRenderer], ...] = (
    JSONRenderer,
    *(
        type(f"{each.name}Renderer", (BaseRenderer,), {"media_type": each.media_type, "format": each.name})
        for each in list_formats()
        if each.name != "json"
    ),
)


class ProposalQuerySerializer(serializers.Serializer[Any]):
    format = serializers.ChoiceField(
        required=False,
        choices=[each.name for each in list_formats()],
        help_text="Format, in place of the Content-Type header",
    )
    dry_run = serializers.BooleanField(
        required=False, default=False, help_text="true: return the difference and make no draft"
    )
    keep_missing = serializers.BooleanField(
        required=False, default=False, help_text="true: entries that the document lacks stay; false: they are archived"
    )
    follow = serializers.BooleanField(
        required=False,
        default=False,
        help_text="true: take new, moved, renamed and missing entries, and leave published shares and settings",
    )
    reason = serializers.CharField(required=False, default="", allow_blank=True, max_length=bounds.REASON)


class ComparedEntrySerializer(serializers.Serializer[Any]):
    path = serializers.CharField()
    changes = serializers.ListField(child=serializers.ChoiceField(list(CODES.values())))
    target_before = serializers.FloatField(allow_null=True, help_text="Target among siblings; null: none")
    target_after = serializers.FloatField(allow_null=True)


class DocumentDifferenceSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField()
    base_revision = serializers.IntegerField(help_text="Revision with which the document was compared")
    is_same = serializers.BooleanField()
    counts = serializers.DictField(child=serializers.IntegerField(), help_text="Entries by kind of change")
    settings = SettingDifferenceSerializer(many=True)
    entries = ComparedEntrySerializer(many=True, help_text="The 200 whose targets change most")
    n_entries = serializers.IntegerField()
    ignored = serializers.ListField(
        child=serializers.CharField(), help_text="Parts of the document that have no counterpart in a policy"
    )
    sections = serializers.DictField(
        child=serializers.IntegerField(), help_text="Changes in lists beside the tree, such as `allocations`"
    )
    change_set = serializers.IntegerField(allow_null=True, help_text="Number of the draft; null: none was made")
    revision = serializers.IntegerField(
        allow_null=True, help_text="Always null: drafts are published by their own operation"
    )


class _WholeTreeView(APIView):
    def before_body(self, request: Request, *, policy: str) -> None:
        actor = actor_of(request)
        viewed_policy = get_policy(slug=policy, actor=actor)
        load_whole_tree(policy=viewed_policy, number=viewed_policy.head_number, at=clock.now(), actor=actor)


class DocumentView(_WholeTreeView):
    scopes: ClassVar[Scopes] = {**READ, "PUT": frozenset({POLICIES_WRITE})}
    renderer_classes = _BY_ACCEPT
    parser_classes = (TextParser,)

    @extend_schema(
        operation_id="get_document",
        parameters=[DocumentQuerySerializer, OpenApiParameter("If-None-Match", str, OpenApiParameter.HEADER)],
        responses={**_ANSWERS, 304: None},
    )
    def get(self, request: Request, policy: str) -> HttpResponseBase:
        """Export the whole tree as a Fairshare document, which can be imported again, or in a scheduler's format.

        The header `Fairshare-Dropped` lists parts of the policy that the format can't express.
        """
        query, actor = read_query(DocumentQuerySerializer, request), actor_of(request)
        viewed_policy = selectors.get_policy(slug=policy, actor=actor)
        revision = selectors.get_revision(policy=viewed_policy, at=moment_of(query.get("at")))
        tree = load_whole_tree(policy=viewed_policy, number=revision.number, at=clock.now(), actor=actor)
        format = get_format(query.get("format") or request.accepted_renderer.format)
        settings = PolicySettings.from_stored(revision.settings)
        export = make_export(
            viewed_policy,
            format,
            tree,
            settings,
            options=ExportOptions(cluster=query["cluster"]),
            at=clock.now(),
            actor=actor,
        )
        tag = f'"{export.tag}"'
        known = tag in request.headers.get("If-None-Match", "")
        response: HttpResponseBase = HttpResponse(status=304) if known else _file(export)
        response["ETag"] = tag
        patch_vary_headers(response, ["Accept", "Authorization", "Cookie"])
        return response

    @extend_schema(
        operation_id="put_document",
        parameters=[ProposalQuerySerializer, OpenApiParameter("If-Match", str, OpenApiParameter.HEADER)],
        request={each.media_type: dict if each.name == "json" else str for each in list_formats()},
        responses={200: DocumentDifferenceSerializer, 201: DocumentDifferenceSerializer},
    )
    def put(self, request: Request, policy: str) -> HttpResponseBase:
        """Propose a whole tree: 201 with the number of the new draft in `change_set`, or 200 without a draft.

        No draft is made for a document equal to the policy, and with `dry_run`. With `follow`, an open draft that
        changes the same is the answer. For callers who may see the whole tree.
        With `If-Match`, 412 unless that revision is the head. `Idempotency-Key` works as with POST.
        """
        query, actor, now = read_query(ProposalQuerySerializer, request), actor_of(request), clock.now()
        content: Any = request.data  # bytes, or empty without a body
        file = FileImport(
            policy_slug=policy,
            format=query.get("format") or _format_of(request),
            content=content if isinstance(content, bytes) else b"",
            keep_missing=query["keep_missing"],
            follow=query["follow"],
        )
        head_number = get_policy(slug=policy, actor=actor, scope="policies:write").head_number
        tag = request.headers.get("If-Match", "").strip()
        if tag and tag != "*" and tag.removeprefix("W/").strip('"').partition("-")[0] != str(head_number):
            raise Stale(
                f"The policy is at revision {head_number} now: compare with that revision, and send the document again."
            )
        if query["dry_run"]:
            done = PolicyImport(plan_import(file=file, at=now, actor=actor))
        else:
            done = import_policy(file=file, reason=query["reason"], at=now, actor=actor)
        response = HttpResponse(dumps(done.to_json()), content_type="application/json")
        if done.change_set is not None:
            response.status_code = 201
            response["Location"] = f"/api/v1/policies/{policy}/changesets/{done.change_set.pk}"
        return response


class AgainstView(_WholeTreeView):
    scopes: ClassVar[Scopes] = {"POST": frozenset({POLICIES_READ})}
    on_repeat = "work"
    renderer_classes = _BY_ACCEPT
    parser_classes = (TextParser,)

    @extend_schema(
        operation_id="export_against",
        parameters=[AgainstQuerySerializer],
        request={get_format("sacctmgr").media_type: str},
        responses={
            (200, "application/json"): AgainstDifferenceSerializer,
            **{(200, each.media_type): str for each in list_formats() if each.against},
        },
    )
    def post(self, request: Request, policy: str) -> HttpResponseBase:
        """Compare the policy with a scheduler's current dump, sent as the body: returns the dump with the policy's
        shares, or commands for the differences.

        Other parts of the dump do not change. Nothing is stored.
        """
        query = read_query(AgainstQuerySerializer, request)
        content: Any = request.data  # bytes, or empty without a body
        export = export_policy(
            policy_slug=policy,
            format=query["format"],
            moment=moment_of(query.get("at")),
            against=content if isinstance(content, bytes) else b"",
            cluster=query["cluster"],
            at=clock.now(),
            actor=actor_of(request),
        )
        if query["difference"] and export.difference is not None:
            return HttpResponse(
                dumps(AgainstDifferenceSerializer(export.difference).data), content_type="application/json"
            )
        return _file(export)


def _file(export: Export) -> HttpResponseBase:
    format = export.format
    kind = format.media_type if format.name == "json" else f"{format.media_type}; charset=utf-8"
    response = flowing_response(map(str.encode, export.pieces()), content_type=kind)
    response["Content-Disposition"] = f'inline; filename="{export.file_name}"'
    if export.dropped:
        response["Fairshare-Dropped"] = quote("; ".join(export.dropped), safe=" ;:,/")[:2_000]
    return response


def _format_of(request: Request) -> str:
    """Name of the format with the media type of the body; 415 without one."""
    sent_type = request.content_type.partition(";")[0].strip().lower()
    for each in list_formats():
        if each.media_type == sent_type:
            return each.name
    known = ", ".join(f"{each.media_type} ({each.name})" for each in list_formats())
    raise Refusal(f"Send Content-Type as one of {known}, or format=NAME.", code="unsupported_media_type", status=415)
