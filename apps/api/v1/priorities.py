"""Priorities for signed-in people and `self:read` tokens; those for `priorities:read` come to `apps.api.lookup`.

Both read the same snapshot in memory and give the same answers; here it is also asked what the person may see.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.http import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api import answers
from apps.api.authentication import POLICIES_READ, POLICIES_WRITE, PRIORITIES_READ, SELF_READ, Scopes, actor_of
from apps.api.shapes import (
    TABLE_ANSWERS,
    InstantField,
    TableFormatField,
    UtcTimeField,
    asked,
    decode_cursor,
    list_of,
    listed,
    sent,
    table_response,
)
from apps.api.transport import READS
from apps.api.v1.usage.views import StreamParser
from apps.api.views import APIView
from apps.core import clock
from apps.priorities import selectors
from apps.priorities.recompute import staleness as recompute
from apps.priorities.selectors.tree_changes import PRIORITY_COLUMNS, priority_rows
from apps.priorities.visibility import newest_for

LOOK_UP: Scopes = {
    "GET": frozenset({PRIORITIES_READ, SELF_READ}),
    "POST": frozenset({PRIORITIES_READ, SELF_READ}),
}
_PAGE = 100


@extend_schema_field(
    {
        "type": "object",
        "description": "The algorithm with its parameters; GET /api/v1/algorithms lists all of them.",
        "required": ["name"],
        "properties": {"name": {"type": "string"}},
        "additionalProperties": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    }
)
class AlgorithmField(serializers.DictField):
    """What decided."""


@extend_schema_field({"oneOf": [{"type": "number"}, {"type": "string", "enum": ["Infinity", "-Infinity"]}]})
class NumberField(serializers.FloatField):
    """Infinity by name, as JSON can carry it."""


class IdentitySerializer(serializers.Serializer[Any]):
    """Names of an account; what isn't there doesn't matter."""

    namespace = serializers.CharField(required=False)
    user = serializers.CharField(required=False)
    group = serializers.CharField(required=False)
    dn = serializers.CharField(required=False)
    fqan = serializers.CharField(required=False)
    project = serializers.CharField(required=False)


class ChoiceSerializer(serializers.Serializer[Any]):
    namespace = serializers.CharField()
    entry = serializers.CharField()


class PrioritySerializer(serializers.Serializer[Any]):
    account = serializers.CharField()
    group = serializers.CharField(required=False)
    namespace = serializers.CharField(required=False)
    entry = serializers.CharField(allow_null=True)
    factor = serializers.FloatField()
    rank = serializers.IntegerField(required=False, allow_null=True)
    of = serializers.IntegerField(required=False)
    priorities = serializers.ListField(child=NumberField(), required=False)
    vector = serializers.ListField(child=serializers.IntegerField(), required=False, allow_null=True)
    key = serializers.CharField(
        required=False,
        allow_null=True,
        help_text="Higher is sooner: the padded vector, for gridwide a number of any size, else a place from below",
    )
    provisional = serializers.BooleanField(required=False)
    error = serializers.ChoiceField(["unmapped", "ambiguous"], required=False)
    tried = serializers.ListField(
        child=IdentitySerializer(), required=False, help_text="Of an unmapped account: what rules were asked for"
    )
    choices = ChoiceSerializer(many=True, required=False, help_text="Of an ambiguous name: its entries by namespace")
    hint = serializers.CharField(required=False, help_text="What to send instead")


class AnswerSerializer(serializers.Serializer[Any]):
    policy = serializers.CharField()
    snapshot = serializers.IntegerField()
    revision = serializers.IntegerField()
    as_of = UtcTimeField()
    computed_at = UtcTimeField()
    age_s = serializers.FloatField()
    algorithm = AlgorithmField()
    results = PrioritySerializer(many=True, required=False)
    accounts = serializers.ListField(child=serializers.CharField(), required=False, help_text="With columns=1")
    factors = serializers.ListField(child=serializers.FloatField(), required=False)
    ranks = serializers.ListField(child=serializers.IntegerField(allow_null=True), required=False)


_ACCOUNTS_SCHEMA = {
    "type": "object",
    "required": ["accounts"],
    "additionalProperties": False,
    "properties": {
        "accounts": {
            "type": "array",
            "maxItems": answers.MOST_ACCOUNTS,
            "items": {
                "oneOf": [
                    {"type": "string", "maxLength": 1024},
                    {
                        "type": "object",
                        "minProperties": 1,
                        "additionalProperties": False,
                        "properties": {
                            name: {"type": "string", "nullable": True, "maxLength": 1024}
                            for name in ("user", "group", "namespace", "dn", "fqan", "project")
                        },
                    },
                ]
            },
        }
    },
}
_COLUMNS = OpenApiParameter("columns", str, enum=["0", "1"], description="1: parallel lists instead of objects")
_IF_NONE_MATCH = OpenApiParameter("If-None-Match", str, OpenApiParameter.HEADER)


class SinglePriorityView(APIView):
    scopes: ClassVar[Scopes] = LOOK_UP

    @extend_schema(
        operation_id="get_priorities",
        parameters=[
            OpenApiParameter("account", {"type": "array", "items": {"type": "string"}, "minItems": 1}, required=True),
            OpenApiParameter("namespace", str),
            OpenApiParameter("group", str),
            _COLUMNS,
            _IF_NONE_MATCH,
        ],
        responses={200: AnswerSerializer, 304: None},
    )
    def get(self, request: Request, policy: str) -> HttpResponseBase:
        """Factor, rank and vector of one account or a few."""
        snapshot, mask = newest_for(policy_slug=policy, at=clock.now(), actor=actor_of(request))
        queries = answers.queries_of_address(request._request)
        return answers.answer_accounts(request._request, snapshot, queries, mask, clock.now())


class BulkPriorityView(APIView):
    scopes: ClassVar[Scopes] = LOOK_UP
    parser_classes = (StreamParser,)
    throttle_scope = READS
    on_repeat = "work"

    @extend_schema(
        operation_id="look_up_priorities",
        parameters=[_COLUMNS, _IF_NONE_MATCH],
        request={"application/json": _ACCOUNTS_SCHEMA},
        responses={200: AnswerSerializer, 304: None},
    )
    def post(self, request: Request, policy: str) -> HttpResponseBase:
        """Up to 10,000 accounts in one answer, from one snapshot."""
        snapshot, mask = newest_for(policy_slug=policy, at=clock.now(), actor=actor_of(request))
        queries = answers.queries_of_body(request._request)
        return answers.answer_accounts(request._request, snapshot, queries, mask, clock.now())


class AllPrioritiesFilterSerializer(serializers.Serializer[Any]):
    since = serializers.IntegerField(
        min_value=0, max_value=2**63 - 1, required=False, help_text="A snapshot that you have"
    )
    format = TableFormatField()


class AllPrioritiesView(APIView):
    scopes: ClassVar[Scopes] = LOOK_UP

    @extend_schema(
        operation_id="get_all_priorities",
        parameters=[AllPrioritiesFilterSerializer, _IF_NONE_MATCH],
        responses={(200, "application/x-ndjson"): str, **TABLE_ANSWERS, 304: None, 410: None},
    )
    def get(self, request: Request, policy: str) -> HttpResponseBase:
        """Every leaf as a line; with `since` only what changed, and what is gone; with `format` all as a table."""
        at = clock.now()
        snapshot, mask = newest_for(policy_slug=policy, at=at, actor=actor_of(request))
        if "format" in request.query_params:
            format = asked(_PriorityTableSerializer, request)["format"]
            rows = priority_rows(snapshot, mask)
            return answers.with_age(
                table_response(f"{policy}-priorities", PRIORITY_COLUMNS, rows, format), snapshot, at
            )
        since = answers.snapshot_since(request._request, policy)
        return answers.answer_all(request._request, snapshot, since, mask, at)


class _PriorityTableSerializer(serializers.Serializer[Any]):
    """A table holds all: `since` doesn't go with it."""

    format = TableFormatField()


class SnapshotSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    revision = serializers.IntegerField(source="revision_number")
    as_of = UtcTimeField()
    computed_at = UtcTimeField()
    duration_s = serializers.FloatField()
    ranked = serializers.IntegerField(source="n_ranked")
    engine_version = serializers.CharField()
    is_live = serializers.BooleanField(help_text="False: computed for a past instant on request")
    watermarks = serializers.DictField(child=serializers.IntegerField(), help_text="What each source had sent")
    run = serializers.IntegerField(source="run_id", allow_null=True)


class CursorSerializer(serializers.Serializer[Any]):
    cursor = serializers.CharField(required=False, max_length=200)


class SnapshotListView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({PRIORITIES_READ, POLICIES_READ})}

    @extend_schema(operation_id="list_snapshots", parameters=[CursorSerializer], responses=list_of(SnapshotSerializer))
    def get(self, request: Request, policy: str) -> Response:
        """Those that are kept, newest first."""
        cursor = asked(CursorSerializer, request).get("cursor")
        before = None if cursor is None else decode_cursor(cursor, int)
        found = selectors.list_snapshots(policy_slug=policy, before_id=before, limit=_PAGE + 1, actor=actor_of(request))
        place = found[_PAGE - 1].pk if len(found) > _PAGE else None
        return listed(SnapshotSerializer(found[:_PAGE], many=True).data, place)


class RecomputeSerializer(serializers.Serializer[Any]):
    as_of = InstantField(required=False, default=None, allow_null=True)


class AskedRunSerializer(serializers.Serializer[Any]):
    run = serializers.IntegerField()


class RecomputeView(APIView):
    scopes: ClassVar[Scopes] = {"POST": frozenset({POLICIES_WRITE})}

    @extend_schema(operation_id="recompute", request=RecomputeSerializer, responses={202: AskedRunSerializer})
    def post(self, request: Request, policy: str) -> Response:
        """Ask for a recompute now, or for the snapshot of a past instant; joins one that waits already."""
        given = sent(RecomputeSerializer, request) if request.data else {"as_of": None}
        run = recompute.request_recompute(
            policy_slug=policy, as_of=given["as_of"], at=clock.now(), actor=actor_of(request)
        )
        return Response({"run": run.pk}, status=202, headers={"Location": f"/api/v1/runs/{run.pk}"})
