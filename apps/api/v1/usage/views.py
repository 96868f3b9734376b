"""Usage: records in; hourly sums out; data issues by source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from io import BytesIO
from typing import IO, Any, ClassVar
from zoneinfo import ZoneInfo

from django.conf import settings
from django.http import HttpResponseBase, StreamingHttpResponse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.actor import Actor
from apps.api.authentication import ANY, SELF_READ, USAGE_WRITE, Scopes, actor_of
from apps.api.errors import Refusal
from apps.api.records import record_serializer, serializer_of
from apps.api.shapes import (
    TABLE_ANSWERS,
    InstantField,
    TableFormatField,
    UtcTimeField,
    asked,
    decode_cursor,
    list_of,
    listed,
    table_response,
)
from apps.api.views import KEY_PARAMETER, APIView, key_of
from apps.core import clock
from apps.core.errors import FieldProblem, Invalid
from apps.core.tables import Column, Row
from apps.priorities.selectors import count_unmapped_accounts
from apps.usage import selectors, services
from apps.usage.parsers.registry import list_formats
from apps.usage.quality import findings as quality

# --- Sums as a table --------------------------------------------------------------------------------------------------
LONGEST = {"hour": timedelta(days=92), "day": timedelta(days=3_660)}
_TABLE_PAGE = 10_000
_NAMES = ("namespace", "user", "group", "dn", "fqan", "project")
_AMOUNTS = ("cpu_s", "gpu_s", "mem_gb_s", "node_s", "billing", "jobs")
COLUMNS = (
    Column("at", "instant"),
    Column("source"),
    Column("site"),
    *map(Column, _NAMES),
    *(Column(name, "number") for name in _AMOUNTS),
)


def wanted_buckets(given: Mapping[str, Any]) -> dict[str, Any]:
    """What is asked for, by the names of the selector."""
    names = {"source": "source", "account": "account", "site": "site", "from": "from_at", "to": "to_at"}
    return {theirs: given.get(ours) for ours, theirs in names.items()} | {"step": given["step"], "by": given["by"]}


def bucket_table(given: Mapping[str, Any], actor: Actor) -> StreamingHttpResponse:
    """Raises Refusal without both ends of a period, and Invalid for one that is too long for its steps."""
    if "cursor" in given:
        raise _wrong("cursor", "goes not with a table, which has all pages")
    for end in ("from", "to"):
        if end not in given:
            raise _wrong(end, "is needed for a table: a time with its zone")
    longest = LONGEST[given["step"]]
    if not timedelta(0) < given["to"] - given["from"] <= longest:
        message = f"must come after from, by {longest.days:,} days at most in steps of one {given['step']}"
        raise Invalid(f"to {message}.", fields=[FieldProblem("to", message)])
    return table_response("usage", COLUMNS, _rows(wanted_buckets(given), actor), given["format"])


def _rows(wanted: dict[str, Any], actor: Actor) -> Iterator[Row]:
    after: list[Any] | None = None
    while True:
        found = selectors.list_buckets(selectors.BucketQuery(**wanted, after=after, limit=_TABLE_PAGE), actor=actor)
        for row in found:
            names = (getattr(row.account, name, "") for name in _NAMES)
            yield (row.at, row.source, row.site, *names, *(getattr(row, name) for name in _AMOUNTS))
        if len(found) < _TABLE_PAGE:
            return
        after = found[-1].place


def _wrong(where: str, message: str) -> Refusal:
    return Refusal(f"{where} {message}.", code="invalid", fields=[FieldProblem(where, message)])


# --- Records and sums -------------------------------------------------------------------------------------------------
class FormatFieldSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(help_text="As the format calls it")
    meaning = serializers.CharField(help_text="What it becomes in a record")


class UsageFormatSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]  # a field of the answer, not of this class
    reference = serializers.CharField(help_text="Where the format is described")
    needs_zone = serializers.BooleanField(help_text="Its times are local: the source, or the import, needs a zone")
    is_listing = serializers.BooleanField(help_text="Names every job that runs or waits now")
    sample = serializers.CharField()

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        return {**super().get_fields(), "fields": FormatFieldSerializer(many=True)}  # a word of Django's own


class UsageFormatListView(APIView):
    scopes: ClassVar[Scopes] = {"GET": ANY}

    @extend_schema(operation_id="list_usage_formats", responses=list_of(UsageFormatSerializer))
    def get(self, request: Request) -> Response:
        """Every format of job accounting that files, commands and pushes may have."""
        return listed(UsageFormatSerializer(list_formats(), many=True).data)


_TYPES = ("application/json", "application/x-ndjson")
_PAGE = 1_000


class StreamParser(BaseParser):
    """Leaves the body unread: it is read during the import, and may be compressed."""

    media_type = "application/json"

    def parse(
        self, stream: IO[bytes], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        return stream


class NDJSONStreamParser(StreamParser):
    media_type = "application/x-ndjson"


class PushSerializer(serializers.Serializer[Any]):
    source = serializers.SlugField(max_length=64)  # type: ignore[assignment]
    atomic = serializers.BooleanField(required=False, default=False)


class RecordSerializer(serializers.Serializer[Any]):
    """For the description; the room of usage checks what comes in, line by line."""

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
    unmapped = serializers.IntegerField(help_text="Accounts of this call that no policy has a place for")


class BucketFilterSerializer(serializers.Serializer[Any]):
    source = serializers.SlugField(max_length=64, required=False)  # type: ignore[assignment]
    account = serializers.CharField(max_length=256, required=False, help_text="User name")
    site = serializers.CharField(max_length=128, required=False)
    to = InstantField(required=False)
    step = serializers.ChoiceField(["hour", "day"], required=False, default="hour")
    by = serializers.ChoiceField(["account", "site"], required=False, default="account")
    cursor = serializers.CharField(max_length=2_000, required=False)
    format = TableFormatField()

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        return {**super().get_fields(), "from": InstantField(required=False)}  # a word of Python's own


BucketSerializer = record_serializer(selectors.BucketRow, name="Bucket", exclude=("place",))


class RecordListView(APIView):
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
        """Each record counts once, in its latest version; every rejected line is listed."""
        given = asked(PushSerializer, request)
        answer = services.push_records(
            services.PushedRecords(
                source_slug=given["source"],
                body_stream=_body(request),
                content_type=request.content_type.partition(";")[0].strip().lower() or "application/json",
                gzip=_is_gzip(request),
                idempotency_key=key_of(request),
                atomic=given["atomic"],
            ),
            at=clock.now(),
            actor=actor_of(request),
        )
        unmapped = count_unmapped_accounts(answer.pop("account_ids"))
        return Response({**answer, "unmapped": unmapped})


class BucketListView(APIView):
    scopes: ClassVar[Scopes] = {"GET": frozenset({SELF_READ, USAGE_WRITE})}

    @extend_schema(
        operation_id="list_buckets",
        parameters=[BucketFilterSerializer],
        responses={(200, "application/json"): list_of(BucketSerializer), **TABLE_ANSWERS},
    )
    def get(self, request: Request) -> HttpResponseBase:
        """Sums by account and site, or by site alone; mine, or everybody's for an administrator.

        With `format` all of a period as a table: `from` and `to` are needed then.
        """
        given, actor = asked(BucketFilterSerializer, request), actor_of(request)
        if "format" in given:
            return bucket_table(given, actor)
        cursor = given.get("cursor")
        after = None if cursor is None else decode_cursor(cursor, list)
        rows = selectors.list_buckets(
            selectors.BucketQuery(**wanted_buckets(given), after=after, limit=_PAGE + 1), actor=actor
        )
        place = rows[_PAGE - 1].place if len(rows) > _PAGE else None
        return listed(BucketSerializer(rows[:_PAGE], many=True).data, place)


def _body(request: Request) -> IO[bytes]:
    """An empty body meets no parser."""
    data: Any = request.data
    return data if hasattr(data, "read") else BytesIO()


def _is_gzip(request: Request) -> bool:
    encoding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding in ("", "identity"):
        return False
    if encoding in ("gzip", "x-gzip"):
        return True
    raise Refusal(f"Content-Encoding {encoding[:40]} is not taken: gzip is.", code="unsupported_encoding", status=415)


# --- Data issues ------------------------------------------------------------------------------------------------------
class QualityFilterSerializer(serializers.Serializer[Any]):
    days = serializers.IntegerField(min_value=1, max_value=366, required=False, default=28)


class QualitySerializer(serializers.Serializer[Any]):
    source = serializers.CharField()  # type: ignore[assignment]
    received = serializer_of(quality.Received)()
    missing_hours = serializers.IntegerField(help_text="Without usage, where the source's interval makes some expected")
    changed = serializers.IntegerField(help_text="Jobs that changed after they had ended")
    changed_core_s = serializers.FloatField(allow_null=True, help_text="null: for who reads all usage alone")
    too_late_core_s = serializers.FloatField(allow_null=True, help_text="null: for who reads all usage alone")
    held = serializers.IntegerField(help_text="Stretches of hours that another source brought too")
    vanished = serializers.IntegerField(help_text="Running jobs that were closed because they were no longer listed")
    no_processors = serializers.IntegerField(help_text="Jobs that ran with 0 processors, so that no usage counts")
    skew_s = serializers.FloatField(allow_null=True, help_text="How far its newest end lay ahead of our clock")


class QualityListView(APIView):
    scopes: ClassVar[Scopes] = {"GET": ANY}

    @extend_schema(
        operation_id="list_data_quality", parameters=[QualityFilterSerializer], responses=list_of(QualitySerializer)
    )
    def get(self, request: Request) -> Response:
        """Every source over the last days: is what came in complete and plausible."""
        actor = actor_of(request)
        span = timedelta(days=asked(QualityFilterSerializer, request)["days"])
        sources = selectors.list_sources(actor=actor)
        zone = ZoneInfo(settings.TIME_ZONE)
        issues = quality.list_data_issues(sources=sources, span=span, at=clock.now(), zone=zone, actor=actor)
        rows = [{"source": one.slug, "skew_s": one.skew_s, **_counts(issues[one.slug])} for one in sources]
        return listed(QualitySerializer(rows, many=True).data)


def _counts(issues: quality.DataIssues) -> dict[str, Any]:
    return {
        "received": issues.received,
        "missing_hours": sum(day.n_missing for day in issues.days),
        "changed": issues.changed[0],
        "changed_core_s": issues.changed[1],
        "too_late_core_s": issues.too_late[1],
        "held": issues.n_held,
        "vanished": issues.n_vanished,
        "no_processors": issues.n_no_processors,
    }
