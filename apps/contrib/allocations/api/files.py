"""Allocations as a file: export, comparison and import."""

from __future__ import annotations

from typing import Any, ClassVar

from django.http import HttpResponse, HttpResponseBase
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from apps.contrib.allocations import bounds as of_allocations
from apps.contrib.allocations.exchange.file_formats import FILE_FORMATS, read_file
from apps.contrib.allocations.exchange.plan import PlannedAllocation, plan_allocations
from apps.contrib.allocations.exchange.services import (
    ImportOptions,
    import_allocations,
    list_exported,
    require_no_problems,
)
from apps.contrib.allocations.terms import LONGEST_ALLOCATION_REASON
from apps.core import clock
from apps.mapping.permissions import load_visibility
from apps.web.rest.authentication import POLICIES_READ, POLICIES_WRITE, Scopes, actor_of
from apps.web.rest.errors import Refusal
from apps.web.rest.inputs import read_query, require_seen_tree
from apps.web.rest.parsing import TextParser
from apps.web.rest.records import record_serializer
from apps.web.rest.rendering import JSONRenderer, dumps
from apps.web.rest.views import APIView

_MOST_ANSWERED_CHANGES = 200


class AllocationFileQuerySerializer(serializers.Serializer[Any]):
    format = serializers.ChoiceField(
        list(FILE_FORMATS), required=False, help_text="Format, in place of the header Accept or Content-Type"
    )


class AllocationImportQuerySerializer(AllocationFileQuerySerializer):
    dry_run = serializers.BooleanField(
        required=False, default=False, help_text="true: return the differences and import nothing"
    )
    withdraw_missing = serializers.BooleanField(
        required=False, default=False, help_text="true: allocations that the file lacks are withdrawn; false: they stay"
    )
    reason = serializers.CharField(
        required=False,
        default="",
        allow_blank=True,
        max_length=LONGEST_ALLOCATION_REASON,
        help_text="Of allocations that have none in the file; needed to import",
    )
    tag = serializers.CharField(
        required=False,
        allow_blank=True,
        default="",
        max_length=of_allocations.PLAN_TAG,
        help_text="Of the comparison shown: 412 if it changed",
    )


PlannedAllocationSerializer = record_serializer(PlannedAllocation, exclude=("reason",))


class AllocationImportSerializer(serializers.Serializer[Any]):
    """Allocations of a file compared with those of the policy."""

    counts = serializers.DictField(
        child=serializers.IntegerField(), help_text="Numbers of allocations by action: add, change, withdraw, same"
    )
    changes = PlannedAllocationSerializer(many=True, help_text="The first 200 that are not the same")
    tag = serializers.CharField(help_text="Identifies the comparison")
    dry_run = serializers.BooleanField()


def _renderer(name: str) -> type[BaseRenderer]:
    """A renderer for content negotiation only; the format writes the text itself."""
    return type(f"{name}Renderer", (BaseRenderer,), {"media_type": FILE_FORMATS[name].media_type, "format": name})


class AllocationFileView(APIView):
    scopes: ClassVar[Scopes] = {
        "GET": frozenset({POLICIES_READ, POLICIES_WRITE}),
        "PUT": frozenset({POLICIES_WRITE}),
    }
    renderer_classes = (JSONRenderer, *(_renderer(name) for name in FILE_FORMATS if name != "json"))
    parser_classes = (TextParser,)

    def before_body(self, request: Request, *, policy: str) -> None:
        require_seen_tree(request, policy)

    @extend_schema(
        operation_id="get_allocation_file",
        parameters=[AllocationFileQuerySerializer],
        responses={(200, each.media_type): dict if each.name == "json" else str for each in FILE_FORMATS.values()},
    )
    def get(self, request: Request, policy: str) -> HttpResponseBase:
        """All allocations of entries that the caller may see, as PUT takes them."""
        query = read_query(AllocationFileQuerySerializer, request)
        accepted = getattr(request.accepted_renderer, "format", "json")
        file_format = FILE_FORMATS[query.get("format") or accepted]
        rows = list_exported(policy_slug=policy, at=clock.now(), actor=actor_of(request), visibility=load_visibility)
        kind = file_format.media_type if file_format.name == "json" else f"{file_format.media_type}; charset=utf-8"
        return HttpResponse("".join(file_format.write(rows)), content_type=kind)

    @extend_schema(
        operation_id="put_allocation_file",
        parameters=[AllocationImportQuerySerializer],
        request={each.media_type: dict if each.name == "json" else str for each in FILE_FORMATS.values()},
        responses=AllocationImportSerializer,
    )
    def put(self, request: Request, policy: str) -> HttpResponseBase:
        """Compare allocations with those of the policy, and add or change what differs: all of them, or none.

        The same file again changes nothing. In a policy document, the list `allocations` is read.
        """
        query, actor, at = read_query(AllocationImportQuerySerializer, request), actor_of(request), clock.now()
        content: Any = request.data  # bytes, or empty without a body
        file = read_file(query.get("format") or _format_of(request), content if isinstance(content, bytes) else b"")
        whole: dict[str, Any] = {
            "policy_slug": policy,
            "file": file,
            "at": at,
            "actor": actor,
            "visibility": load_visibility,
        }
        if query["dry_run"]:
            plan = plan_allocations(**whole, withdraw_missing=query["withdraw_missing"])
            require_no_problems(plan)
        else:
            options = ImportOptions(
                reason=query["reason"], withdraw_missing=query["withdraw_missing"], tag=query["tag"]
            )
            plan = import_allocations(**whole, options=options)
        answer = {
            "counts": plan.counts,
            "changes": PlannedAllocationSerializer(plan.changes[:_MOST_ANSWERED_CHANGES], many=True).data,
            "tag": plan.tag,
            "dry_run": query["dry_run"],
        }
        return HttpResponse(dumps(answer), content_type="application/json")


def _format_of(request: Request) -> str:
    """Name of the format with the media type of the body; 415 without one."""
    sent_type = request.content_type.partition(";")[0].strip().lower()
    for each in FILE_FORMATS.values():
        if each.media_type == sent_type:
            return each.name
    known = ", ".join(each.media_type for each in FILE_FORMATS.values())
    raise Refusal(f"Send Content-Type as one of {known}, or format=NAME.", code="unsupported_media_type", status=415)
