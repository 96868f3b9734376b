"""Usage: push of records, hourly and daily sums, and formats of accounting logs."""

from __future__ import annotations

from io import BytesIO
from typing import Any, ClassVar

from django.http import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.core import clock
from apps.pages.sources.api.bucket_tables import bucket_table, wanted_buckets
from apps.priorities.selectors import count_unmapped_accounts
from apps.usage import selectors, services
from apps.usage.parsers.base import Collector, FieldNote
from apps.usage.parsers.registry import list_formats
from apps.web import bounds
from apps.web.rest.authentication import ANY, SELF_READ, USAGE_WRITE, Scopes, actor_of
from apps.web.rest.cursors import read_cursor
from apps.web.rest.errors import Refusal
from apps.web.rest.inputs import InstantField, read_query
from apps.web.rest.records import record_serializer
from apps.web.rest.shapes import TABLE_ANSWERS, TableFormatField, UtcTimeField, first_page, list_response, list_schema
from apps.web.rest.streamed_bodies import NDJSONStreamParser, StreamParser
from apps.web.rest.views import KEY_PARAMETER, APIView, key_of

UsageFormatSerializer = record_serializer(
    Collector,
    component="UsageFormat",
    only="name label reference needs_zone is_listing sample fields",
    texts={
        "reference": "Specification of the format",
        "needs_zone": "Times are local: the source or the import needs a time zone",
        "is_listing": "A queue listing: it names all running and waiting jobs",
    },
    fields=record_serializer(
        FieldNote,
        component="FormatField",
        texts={"name": "Name in the format", "meaning": "Its counterpart in a usage record"},
    )(many=True),
)


class UsageFormatListView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"GET": ANY}

    @extend_schema(operation_id="list_usage_formats", responses=list_schema(UsageFormatSerializer))
    def get(self, request: Request) -> Response:
        """All formats of accounting logs that imports accept."""
        return list_response(UsageFormatSerializer(list_formats(), many=True).data)


_PAGE = 1_000


class PushSerializer(serializers.Serializer[Any]):
    source = serializers.SlugField(max_length=bounds.SOURCE_SLUG)  # type: ignore[assignment]
    atomic = serializers.BooleanField(
        required=False, default=False, help_text="1: if a record is rejected, none is stored; else the others are"
    )


class RecordSerializer(serializers.Serializer[Any]):
    """A usage record as OpenAPI describes it; `apps.usage` validates records line by line."""

    job = serializers.CharField()
    restart = serializers.IntegerField(required=False)
    revision = serializers.IntegerField(required=False)
    array_task = serializers.CharField(required=False, allow_null=True)
    cluster = serializers.CharField(required=False, allow_null=True)
    site = serializers.CharField(required=False, allow_null=True)
    user = serializers.CharField()
    group = serializers.CharField(required=False, allow_null=True)
    dn = serializers.CharField(required=False, allow_null=True)
    fqan = serializers.CharField(required=False, allow_null=True)
    project = serializers.CharField(required=False, allow_null=True)
    state = serializers.ChoiceField(["finished", "running", "pending", "withdrawn"], required=False)
    submit = UtcTimeField(required=False, allow_null=True)
    start = UtcTimeField(required=False, allow_null=True)
    end = UtcTimeField(required=False, allow_null=True)
    cpus = serializers.FloatField()
    gpus = serializers.FloatField(required=False, allow_null=True)
    nodes = serializers.FloatField(required=False, allow_null=True)
    mem_mb = serializers.FloatField(required=False, allow_null=True)
    queue = serializers.CharField(required=False, allow_null=True)
    partition = serializers.CharField(required=False, allow_null=True)
    qos = serializers.CharField(required=False, allow_null=True)
    requested_s = serializers.FloatField(required=False, allow_null=True)
    billing = serializers.FloatField(required=False, allow_null=True)
    kinds = serializers.DictField(
        child=serializers.FloatField(min_value=0),
        required=False,
        allow_null=True,
        help_text="Amounts by kind of resource while it runs, such as gpu:h100: 2; of energy, joules in total",
    )


class RejectedLineSerializer(serializers.Serializer[Any]):
    line = serializers.IntegerField()
    code = serializers.CharField()
    message = serializers.CharField()


class PushedSerializer(serializers.Serializer[Any]):
    new = serializers.IntegerField()
    duplicate = serializers.IntegerField()
    corrected = serializers.IntegerField()
    late = serializers.IntegerField()
    rejected = RejectedLineSerializer(many=True)
    ignored = serializers.DictField(
        child=serializers.IntegerField(),
        required=False,
        help_text="Number of values by field that usage doesn't need and that can't be stored; the records count",
    )
    unmapped = serializers.IntegerField(help_text="Number of accounts in this call that no policy maps to an entry")


class BucketFilterSerializer(serializers.Serializer[Any]):
    source = serializers.SlugField(max_length=bounds.SOURCE_SLUG, required=False)  # type: ignore[assignment]
    account = serializers.CharField(max_length=bounds.USER, required=False, help_text="User name")
    site = serializers.CharField(max_length=bounds.SITE, required=False)
    to = InstantField(required=False)
    step = serializers.ChoiceField(["hour", "day"], required=False, default="hour")
    by = serializers.ChoiceField(["account", "site"], required=False, default="account")
    cursor = serializers.CharField(max_length=bounds.KEYED_CURSOR, required=False)
    format = TableFormatField()

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        return {**super().get_fields(), "from": InstantField(required=False)}  # a keyword of Python


BucketSerializer = record_serializer(selectors.BucketRow, component="Bucket", exclude=("place",))


class RecordListView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"POST": frozenset({USAGE_WRITE})}
    parser_classes = (StreamParser, NDJSONStreamParser)
    throttle_scope = "usage"
    on_repeat = "work"  # keys belong to the source, not to the user; the body is a stream

    @extend_schema(
        operation_id="push_records",
        parameters=[
            PushSerializer,
            KEY_PARAMETER,
            OpenApiParameter("Content-Encoding", str, OpenApiParameter.HEADER, enum=["identity", "gzip"]),
        ],
        request={"application/json": RecordSerializer(many=True), "application/x-ndjson": bytes},
        responses=PushedSerializer,
    )
    def post(self, request: Request) -> Response:
        """Push usage records. Each job counts once, in its latest version; rejected lines are listed."""
        query = read_query(PushSerializer, request)
        # The body as a stream; an empty one if there is no body, for which no parser is called.
        data: Any = request.data
        answer = services.push_records(
            services.PushedRecords(
                source_slug=query["source"],
                body_stream=data if hasattr(data, "read") else BytesIO(),
                content_type=request.content_type.partition(";")[0].strip().lower() or "application/json",
                gzip=_is_gzip(request),
                idempotency_key=key_of(request),
                atomic=query["atomic"],
            ),
            at=clock.now(),
            actor=actor_of(request),
        )
        unmapped = count_unmapped_accounts(answer.pop("account_ids"))
        return Response({**answer, "unmapped": unmapped})


class BucketListView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"GET": frozenset({SELF_READ, USAGE_WRITE})}

    @extend_schema(
        operation_id="list_buckets",
        parameters=[BucketFilterSerializer],
        responses={(200, "application/json"): list_schema(BucketSerializer), **TABLE_ANSWERS},
    )
    def get(self, request: Request) -> HttpResponseBase:
        """Usage by hour or day, by account and site or by site: the caller's own, or all usage for administrators.

        With `format`, a whole period as a table; `from` and `to` are required then.
        """
        query, actor = read_query(BucketFilterSerializer, request), actor_of(request)
        if "format" in query:
            return bucket_table(query, actor)
        after = read_cursor(query, list)
        rows = selectors.list_buckets(
            selectors.BucketQuery(**wanted_buckets(query), after=after, limit=_PAGE + 1), actor=actor
        )
        page, last = first_page(rows, _PAGE, lambda row: row.place)
        return list_response(BucketSerializer(page, many=True).data, last)


def _is_gzip(request: Request) -> bool:
    encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding in ("", "identity"):
        return False
    if encoding in ("gzip", "x-gzip"):
        return True
    raise Refusal(
        f"Content-Encoding {encoding[:40]} is not supported: use gzip.", code="unsupported_encoding", status=415
    )
