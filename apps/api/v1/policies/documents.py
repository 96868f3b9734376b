"""A whole policy as a document: read in any format, proposed in any; and settings proposed from a slurm.conf."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any, ClassVar
from urllib.parse import quote

from django.http import HttpResponse, HttpResponseBase
from django.utils.cache import patch_vary_headers
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.authentication import POLICIES_READ, POLICIES_WRITE, Scopes, actor_of
from apps.api.errors import Refusal
from apps.api.parsing import read_bounded
from apps.api.records import serializer_of
from apps.api.rendering import JSONRenderer, dumps
from apps.api.shapes import asked, moment_of, sent
from apps.api.v1.policies.views import READ, MomentSerializer
from apps.api.views import APIView
from apps.core import clock
from apps.core.errors import Stale
from apps.mapping.permissions import load_whole_tree
from apps.onboarding.slurm_config import ConfigLine, read_slurm_config
from apps.policies import selectors
from apps.policies.files.exports import Export, export_policy, make_export
from apps.policies.files.import_export import PolicyImport, import_policy, plan_import
from apps.policies.formats.base import AssociationChange, Format
from apps.policies.formats.registry import get_format, list_formats
from apps.policies.selectors import get_policy
from apps.policies.settings import PolicySettings
from apps.policies.tree.difference import CODES

_CLUSTER = serializers.CharField(
    required=False, default="", max_length=128, help_text="Its name in the file; that of the last import else"
)


class DocumentQuerySerializer(MomentSerializer):
    format = serializers.ChoiceField(
        required=False, choices=[each.name for each in list_formats()], help_text="Instead of Accept"
    )
    cluster = _CLUSTER


class AgainstQuerySerializer(MomentSerializer):
    format = serializers.ChoiceField(choices=[each.name for each in list_formats() if each.against])
    cluster = _CLUSTER
    difference = serializers.BooleanField(required=False, default=False, help_text="As JSON, in place of the file")


class AgainstDifferenceSerializer(serializers.Serializer[Any]):
    cluster = serializers.CharField()
    n_changed = serializers.IntegerField()
    n_new = serializers.IntegerField()
    n_only_there = serializers.IntegerField()
    changes = serializer_of(AssociationChange)(many=True, help_text="The first 200")
    notes = serializers.ListField(child=serializers.CharField(), help_text="What shares alone don’t bring about")


def _renderer(format: Format) -> type[BaseRenderer]:
    """For choosing by Accept; the text is written by the format itself."""
    return type(f"{format.name}Renderer", (BaseRenderer,), {"media_type": format.media_type, "format": format.name})


_BY_ACCEPT: tuple[type[BaseRenderer], ...] = (
    JSONRenderer,
    *(_renderer(each) for each in list_formats() if each.name != "json"),
)
_ANSWERS: dict[Any, Any] = {(200, each.media_type): dict if each.name == "json" else str for each in list_formats()}


class ProposalQuerySerializer(serializers.Serializer[Any]):
    format = serializers.ChoiceField(
        required=False, choices=[each.name for each in list_formats()], help_text="Instead of Content-Type"
    )
    dry_run = serializers.BooleanField(required=False, default=False, help_text="The difference alone, and no draft")
    keep_missing = serializers.BooleanField(
        required=False, default=False, help_text="Entries that the document leaves out stay; else they are archived"
    )
    reason = serializers.CharField(required=False, default="", allow_blank=True, max_length=4_000)


class SettingDifferenceSerializer(serializers.Serializer[Any]):
    field = serializers.CharField()
    before = serializers.JSONField(allow_null=True)
    after = serializers.JSONField(allow_null=True)


class ComparedEntrySerializer(serializers.Serializer[Any]):
    path = serializers.CharField()
    changes = serializers.ListField(child=serializers.ChoiceField(list(CODES.values())))
    target_before = serializers.FloatField(allow_null=True, help_text="Among siblings; null: it had none")
    target_after = serializers.FloatField(allow_null=True)


class DocumentDifferenceSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField()
    base_revision = serializers.IntegerField(help_text="With which the document was compared")
    is_same = serializers.BooleanField()
    counts = serializers.DictField(child=serializers.IntegerField(), help_text="Entries by kind of change")
    settings = SettingDifferenceSerializer(many=True)
    entries = ComparedEntrySerializer(many=True, help_text="The 200 whose targets change most")
    n_entries = serializers.IntegerField()
    ignored = serializers.ListField(child=serializers.CharField(), help_text="What no policy has")
    change_set = serializers.IntegerField(allow_null=True, help_text="The draft; null: none was made")
    revision = serializers.IntegerField(allow_null=True, help_text="Always null: a draft is published by its own route")


class DocumentParser(BaseParser):
    """Leaves the text to the format, which names lines and paths."""

    media_type = "*/*"

    def parse(
        self, stream: IO[bytes], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        return read_bounded(stream)


class DocumentView(APIView):
    scopes: ClassVar[Scopes] = {**READ, "PUT": frozenset({POLICIES_WRITE})}
    renderer_classes = _BY_ACCEPT
    parser_classes = (DocumentParser,)

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
        settings = PolicySettings.from_stored(revision.settings)
        export = make_export(found, format, tree, settings, cluster=query["cluster"], at=clock.now(), actor=actor)
        tag = f'"{export.tag}"'
        known = tag in request.headers.get("If-None-Match", "")
        response = HttpResponse(status=304) if known else _file(export)
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
        """Propose a whole tree: 200 with the difference, or 201 where it became a draft, whose number is `change_set`.

        A document that says what the policy says makes no draft. For who sees the whole tree. With If-Match only while
        the revision whose ETag it is is current. `Idempotency-Key` is honoured as by POST.
        """
        query, actor, now = asked(ProposalQuerySerializer, request), actor_of(request), clock.now()
        content: Any = request.data  # an empty body meets no parser
        wanted: dict[str, Any] = {
            "policy_slug": policy,
            "format": query.get("format") or _format_of(request),
            "content": content if isinstance(content, bytes) else b"",
            "keep_missing": query["keep_missing"],
            "at": now,
            "actor": actor,
        }
        _require_match(request, get_policy(slug=policy, actor=actor, scope="policies:write").head_number)
        if query["dry_run"]:
            done = PolicyImport(plan_import(**wanted))
        else:
            done = import_policy(**wanted, reason=query["reason"])
        response = HttpResponse(dumps(done.to_json()), content_type="application/json")
        if done.change_set is not None:
            response.status_code = 201
            response["Location"] = f"/api/v1/policies/{policy}/changesets/{done.change_set.pk}"
        return response


class AgainstView(APIView):
    scopes: ClassVar[Scopes] = {"POST": frozenset({POLICIES_READ})}
    on_repeat = "work"
    renderer_classes = _BY_ACCEPT
    parser_classes = (DocumentParser,)

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
        """The policy against a dump of now, the body: the dump with its shares, or the commands for what differs.

        Everything else in the dump stays as it is. Nothing is stored.
        """
        query = asked(AgainstQuerySerializer, request)
        content: Any = request.data  # an empty body meets no parser
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
            return HttpResponse(dumps(export.difference.to_json()), content_type="application/json")
        return _file(export)


def _file(export: Export) -> HttpResponse:
    format = export.format
    kind = format.media_type if format.name == "json" else f"{format.media_type}; charset=utf-8"
    response = HttpResponse(export.text(), content_type=kind)
    response["Content-Disposition"] = f'inline; filename="{export.file_name}"'
    if export.dropped:
        response["Fairshare-Dropped"] = quote("; ".join(export.dropped), safe=" ;:,/")[:2_000]
    return response


def _format_of(request: Request) -> str:
    """The format whose media type the body has."""
    sent_type = request.content_type.partition(";")[0].strip().lower()
    for each in list_formats():
        if each.media_type == sent_type:
            return each.name
    known = ", ".join(f"{each.media_type} ({each.name})" for each in list_formats())
    raise Refusal(f"Send Content-Type as one of {known}, or format=NAME.", code="unsupported_media_type", status=415)


def _require_match(request: Request, head_number: int) -> None:
    tag = request.headers.get("If-Match", "").strip()
    if tag and tag != "*" and tag.removeprefix("W/").strip('"').partition("-")[0] != str(head_number):
        raise Stale(f"The policy is at revision {head_number} by now: compare with that, and send it again.")


# --- Settings of a slurm.conf -----------------------------------------------------------------------------------------
_MOST_CHARACTERS = 1_000_000


class SlurmConfigSerializer(serializers.Serializer[Any]):
    text = serializers.CharField(
        max_length=_MOST_CHARACTERS,
        trim_whitespace=False,
        help_text="What scontrol show config and scontrol show partition print",
    )


ConfigLineSerializer = serializer_of(ConfigLine)


class ReadConfigSerializer(serializers.Serializer[Any]):
    cluster = serializers.CharField()
    settings = serializers.DictField(help_text="Parts of a policy's settings, as `set_policy` takes them")
    lines = ConfigLineSerializer(many=True)


class SlurmConfigView(APIView):
    scopes: ClassVar[Scopes] = {"POST": frozenset({POLICIES_WRITE})}

    @extend_schema(operation_id="read_slurm_config", request=SlurmConfigSerializer, responses=ReadConfigSerializer)
    def post(self, request: Request) -> Response:
        """Algorithm, decay and metric as Slurm has them; nothing is stored: propose them in a change set."""
        found = read_slurm_config(sent(SlurmConfigSerializer, request)["text"])
        return Response(ReadConfigSerializer(found).data)
