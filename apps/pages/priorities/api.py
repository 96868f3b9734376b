"""Priorities, snapshots and recomputes. Look-ups here serve sessions and `self:read` tokens: visible entries only.

Tokens with `priorities:read` are served by `apps.web.middleware.lookup` without the framework, with the same answers.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.http import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.core import clock
from apps.priorities import selectors
from apps.priorities.recompute import staleness as recompute
from apps.priorities.selectors.tree_changes import PRIORITY_COLUMNS, priority_rows
from apps.priorities.serving.lookup import AccountQuery
from apps.priorities.visible_entries import newest_for
from apps.web import bounds
from apps.web.rest import answers
from apps.web.rest.authentication import POLICIES_READ, POLICIES_WRITE, PRIORITIES_READ, SELF_READ, Scopes, actor_of
from apps.web.rest.body_limits import MOST_LOOKUP_ACCOUNTS
from apps.web.rest.cursors import CursorSerializer, read_cursor
from apps.web.rest.inputs import InstantField, read_body, read_query
from apps.web.rest.priority_fields import AlgorithmField, PrioritySerializer
from apps.web.rest.records import keeps_old_names
from apps.web.rest.runs import AskedRunSerializer
from apps.web.rest.shapes import (
    TABLE_ANSWERS,
    TableFormatField,
    UtcTimeField,
    first_page,
    list_response,
    list_schema,
    table_response,
)
from apps.web.rest.streamed_bodies import StreamParser
from apps.web.rest.transport import READS
from apps.web.rest.views import APIView

LOOK_UP: Scopes = {
    "GET": frozenset({PRIORITIES_READ, SELF_READ}),
    "POST": frozenset({PRIORITIES_READ, SELF_READ}),
}
_PAGE = 100


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
            "maxItems": MOST_LOOKUP_ACCOUNTS,
            "items": {
                "oneOf": [
                    {"type": "string", "maxLength": 1024},
                    {
                        "type": "object",
                        "minProperties": 1,
                        "additionalProperties": False,
                        "properties": {
                            name: {"type": "string", "nullable": True, "maxLength": 1024}
                            for name in AccountQuery._fields
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
            OpenApiParameter("partition", str, description="Of a job in Slurm"),
            _COLUMNS,
            _IF_NONE_MATCH,
        ],
        responses={200: AnswerSerializer, 304: None},
    )
    def get(self, request: Request, policy: str) -> HttpResponseBase:
        """Factor, rank and vector of one or a few accounts."""
        snapshot, readable = newest_for(policy_slug=policy, at=clock.now(), actor=actor_of(request))
        queries = answers.queries_of_address(request._request)
        return answers.answer_accounts(request._request, snapshot, queries, readable, clock.now())


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
        """Priorities of up to 10,000 accounts, all from one snapshot."""
        snapshot, readable = newest_for(policy_slug=policy, at=clock.now(), actor=actor_of(request))
        queries = answers.queries_of_body(request._request)
        return answers.answer_accounts(request._request, snapshot, queries, readable, clock.now())


class AllPrioritiesFilterSerializer(serializers.Serializer[Any]):
    since = serializers.IntegerField(
        min_value=0, max_value=bounds.ROW, required=False, help_text="Number of a snapshot that you have"
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
        """All leaves, one JSON object a line. With `since`, lines that changed and leaves that are gone; with `format`
        a table of all leaves.
        """
        at = clock.now()
        snapshot, readable = newest_for(policy_slug=policy, at=at, actor=actor_of(request))
        if "format" in request.query_params:
            format = read_query(_PriorityTableSerializer, request)["format"]
            rows = priority_rows(snapshot, readable)
            return answers.with_age(
                table_response(f"{policy}-priorities", PRIORITY_COLUMNS, rows, format), snapshot, at
            )
        since = answers.snapshot_since(request._request, policy)
        return answers.answer_all(request._request, snapshot, since, readable, at)


class _PriorityTableSerializer(serializers.Serializer[Any]):
    """Parameters of the table, which always has all leaves: `since` is rejected."""

    format = TableFormatField()


@keeps_old_names
class SnapshotSerializer(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    revision = serializers.IntegerField(source="revision_number")
    as_of = UtcTimeField()
    computed_at = UtcTimeField()
    duration_s = serializers.FloatField()
    n_ranked = serializers.IntegerField()
    engine_version = serializers.CharField()
    is_live = serializers.BooleanField(help_text="false: computed for a past instant on request")
    watermarks = serializers.DictField(child=serializers.IntegerField(), help_text="Cursor of each usage source")
    run = serializers.IntegerField(source="run_id", allow_null=True)


class SnapshotListView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({PRIORITIES_READ, POLICIES_READ})}

    @extend_schema(
        operation_id="list_snapshots", parameters=[CursorSerializer], responses=list_schema(SnapshotSerializer)
    )
    def get(self, request: Request, policy: str) -> Response:
        """Stored snapshots, newest first."""
        before = read_cursor(read_query(CursorSerializer, request))
        snapshots = selectors.list_snapshots(
            policy_slug=policy, before_id=before, limit=_PAGE + 1, actor=actor_of(request)
        )
        page, last = first_page(snapshots, _PAGE, lambda row: row.pk)
        return list_response(SnapshotSerializer(page, many=True).data, last)


class RecomputeSerializer(serializers.Serializer[Any]):
    as_of = InstantField(required=False, default=None, allow_null=True)


class RecomputeView(APIView):
    scopes: ClassVar[Scopes] = {"POST": frozenset({POLICIES_WRITE})}

    @extend_schema(operation_id="recompute", request=RecomputeSerializer, responses={202: AskedRunSerializer})
    def post(self, request: Request, policy: str) -> Response:
        """Request a recompute now, or the snapshot of a past instant; joins a run that is already queued."""
        body = read_body(RecomputeSerializer, request) if request.data else {"as_of": None}
        run = recompute.request_recompute(
            policy_slug=policy, as_of=body["as_of"], at=clock.now(), actor=actor_of(request)
        )
        return Response({"run": run.pk}, status=202, headers={"Location": f"/api/v1/runs/{run.pk}"})
