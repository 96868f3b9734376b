"""Usage sources: settings and state, set-up, pausing and collection."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.core import clock
from apps.mapping.removal import remove_source
from apps.usage import selectors
from apps.usage.authority import require_create
from apps.usage.models import Source
from apps.usage.sources import services as sources
from apps.usage.timeliness import Timeliness, timeliness
from apps.web import bounds
from apps.web.rest.authentication import ANY, USAGE_WRITE, Scopes, actor_of
from apps.web.rest.bounded_fields import BoundedDictField
from apps.web.rest.if_match import if_match_header, require_if_match
from apps.web.rest.inputs import read_body, read_query
from apps.web.rest.removal import RemovalReasonSerializer
from apps.web.rest.runs import RunSerializer
from apps.web.rest.shapes import UtcTimeField, list_response, list_schema, with_etag
from apps.web.rest.views import APIView

_WEIGHTS = (
    "TRESBillingWeights of Slurm, from which billing is computed exactly: {partitions: {NAME: TEXT}, flag}, where flag "
    "is MAX_TRES, MAX_TRES_GRES or empty. {}: billing as recorded"
)


class SourceSerializer(serializers.Serializer[Any]):
    slug = serializers.CharField()
    name = serializers.CharField()
    origin = serializers.CharField(help_text='Site from which the usage comes; "": this site')
    namespace = serializers.CharField()
    site = serializers.CharField()
    cluster = serializers.CharField()
    time_zone = serializers.CharField()
    names_people = serializers.BooleanField()
    kind = serializers.ChoiceField(choices=Source.Kind.choices)
    collecting = serializers.SerializerMethodField(
        help_text="Settings of its kind; null unless the caller is an administrator"
    )
    collect_every_s = serializers.IntegerField(allow_null=True, help_text="null: collected by hand only")
    collect_due_at = UtcTimeField(allow_null=True)
    collected_at = UtcTimeField(allow_null=True, help_text="Time of the last successful collection")
    collect_error = serializers.SerializerMethodField(
        help_text='Error of the last collection; "": it succeeded; null unless the caller is an administrator'
    )
    is_paused = serializers.BooleanField()
    archived_at = UtcTimeField(allow_null=True, help_text="null: not archived")
    expected_every_s = serializers.IntegerField(allow_null=True, help_text="Interval at which usage is expected")
    skew_tolerance_s = serializers.IntegerField(
        help_text="Records that end further ahead of the server's clock are rejected"
    )
    skew_s = serializers.FloatField(allow_null=True, help_text="How far the newest end was ahead of the server's clock")
    longest_run_s = serializers.IntegerField(
        allow_null=True,
        help_text="Most that a running job without a time limit counts unless a listing has it; null: 30 days",
    )
    keep_records_days = serializers.IntegerField(
        allow_null=True, help_text="Days for which records are stored; null: the site's default"
    )
    billing_weights = BoundedDictField(help_text=_WEIGHTS)
    cursor = serializers.IntegerField(source="watermark", help_text="Increases with each import that changed something")
    last_record_end_at = UtcTimeField(allow_null=True)
    last_received_at = UtcTimeField(allow_null=True)
    last_contact_at = UtcTimeField(allow_null=True, help_text="Time of the last push or successful collection")
    state = serializers.SerializerMethodField(help_text="Timeliness by the last contact; late: overdue")
    lag_s = serializers.SerializerMethodField(help_text="Seconds since the end of the newest record")
    counts = serializers.SerializerMethodField()
    etag = serializers.SerializerMethodField(help_text="Value for If-Match")

    def get_collecting(self, source: Source) -> dict[str, Any] | None:
        return source.collecting if self.context["is_admin"] else None

    def get_collect_error(self, source: Source) -> str | None:
        return source.collect_error if self.context["is_admin"] else None

    @extend_schema_field(serializers.ChoiceField(choices=[each.value for each in Timeliness]))
    def get_state(self, source: Source) -> str:
        return timeliness(source, self.context["at"]).value

    def get_lag_s(self, source: Source) -> float | None:
        if source.last_record_end_at is None:
            return None
        lag_s: float = (self.context["at"] - source.last_record_end_at).total_seconds()
        return max(0.0, lag_s)

    def get_counts(self, source: Source) -> dict[str, int]:
        return {"records": source.n_records, "accounts": source.n_accounts, "rejected": source.n_rejected}

    def get_etag(self, source: Source) -> str:
        return f'"{sources.tag_of(source)}"'


class ChangedSourceSerializer(serializers.Serializer[Any]):
    """Checks types; `apps.usage` checks the values."""

    name = serializers.CharField(required=False, max_length=bounds.SOURCE_NAME)
    namespace = serializers.CharField(required=False, max_length=bounds.NAMESPACE)
    site = serializers.CharField(required=False, allow_blank=True, max_length=bounds.SITE)
    cluster = serializers.CharField(required=False, allow_blank=True, max_length=bounds.CLUSTER)
    time_zone = serializers.CharField(required=False, allow_blank=True, max_length=bounds.TIME_ZONE)
    origin = serializers.CharField(required=False, allow_blank=True, max_length=bounds.ORIGIN)
    expected_every_s = serializers.IntegerField(required=False, allow_null=True)
    names_people = serializers.BooleanField(required=False)
    kind = serializers.ChoiceField(
        required=False, choices=sources.BY_HAND, help_text="Sources of peers are made by subscribing"
    )
    collecting = BoundedDictField(required=False)
    collect_every_s = serializers.IntegerField(
        required=False, allow_null=True, help_text="Default: 300 for a kind that is collected; null: by hand only"
    )
    skew_tolerance_s = serializers.IntegerField(required=False)
    longest_run_s = serializers.IntegerField(required=False, allow_null=True)
    keep_records_days = serializers.IntegerField(required=False, allow_null=True)
    billing_weights = BoundedDictField(required=False, help_text=_WEIGHTS)


class NewSourceSerializer(ChangedSourceSerializer):
    slug = serializers.SlugField(max_length=bounds.SOURCE_SLUG)


class SourceListView(APIView):
    reach = "objects"
    scopes: ClassVar[Scopes] = {"GET": ANY, "POST": frozenset({USAGE_WRITE})}

    def before_body(self, request: Request) -> None:
        actor = actor_of(request)
        if not actor.is_bound:  # otherwise the source's name decides
            require_create(actor, "")

    @extend_schema(operation_id="list_sources", responses=list_schema(SourceSerializer))
    def get(self, request: Request) -> Response:
        """All usage sources of this site."""
        counted_sources = selectors.list_counted_sources(actor=actor_of(request))
        return list_response(SourceSerializer(counted_sources, many=True, context=_context(request)).data)

    @extend_schema(operation_id="make_source", request=NewSourceSerializer, responses={201: SourceSerializer})
    def post(self, request: Request) -> Response:
        """Make a usage source, for administrators. A token that writes usage may make a source of pushed records."""
        body = read_body(NewSourceSerializer, request)
        made = sources.set_up_source(slug=body.pop("slug"), new_settings=body, at=clock.now(), actor=actor_of(request))
        return _answer(request, made.slug, 201)


class SourceDetailView(APIView):
    scopes: ClassVar[Scopes] = {"GET": ANY, "PATCH": frozenset({USAGE_WRITE}), "DELETE": frozenset({USAGE_WRITE})}

    def before_body(self, request: Request, *, source: str) -> None:
        selectors.get_source(slug=source, actor=actor_of(request))
        if request.method == "PATCH":
            sources.require_set_up(actor_of(request), source)

    @extend_schema(operation_id="get_source", responses=SourceSerializer)
    def get(self, request: Request, source: str) -> Response:
        """One usage source with cursor, lag, counts and collection settings."""
        return _answer(request, source)

    @extend_schema(
        operation_id="change_source",
        parameters=[if_match_header("the source")],
        request=ChangedSourceSerializer,
        responses=SourceSerializer,
    )
    def patch(self, request: Request, source: str) -> Response:
        """Change the given settings, for administrators. `collecting` is replaced as a whole."""
        selectors.get_source(slug=source, actor=actor_of(request))
        tag, body = require_if_match(request, "source"), read_body(ChangedSourceSerializer, request)
        sources.change_source(slug=source, tag=tag, new_settings=body, at=clock.now(), actor=actor_of(request))
        return _answer(request, source)

    @extend_schema(operation_id="remove_source", parameters=[RemovalReasonSerializer], responses={204: None})
    def delete(self, request: Request, source: str) -> Response:
        """Remove a source without data. 409 (`in_use`) lists dependent data; archive the source in that case."""
        query = read_query(RemovalReasonSerializer, request)
        remove_source(slug=source, reason=query["reason"], at=clock.now(), actor=actor_of(request))
        return Response(status=204)


class CollectionView(APIView):
    scopes: ClassVar[Scopes] = {"POST": frozenset({USAGE_WRITE})}

    @extend_schema(operation_id="collect_source", request=None, responses={202: RunSerializer})
    def post(self, request: Request, source: str) -> Response:
        """Collect new records now, ahead of the interval. Returns the background run."""
        run = sources.collect_now(slug=source, at=clock.now(), actor=actor_of(request))
        return Response(RunSerializer(run).data, status=202)


class PauseView(APIView):
    scopes: ClassVar[Scopes] = {"POST": frozenset({USAGE_WRITE})}

    @extend_schema(operation_id="pause_source", request=None, responses=SourceSerializer)
    def post(self, request: Request, source: str) -> Response:
        """Stop collecting until the source is resumed. Pushed records are still accepted."""
        sources.pause_source(slug=source, at=clock.now(), actor=actor_of(request))
        return _answer(request, source)


class ResumptionView(APIView):
    scopes: ClassVar[Scopes] = {"POST": frozenset({USAGE_WRITE})}

    @extend_schema(operation_id="resume_source", request=None, responses=SourceSerializer)
    def post(self, request: Request, source: str) -> Response:
        """Resume collecting at once, from the last collected record."""
        sources.resume_source(slug=source, at=clock.now(), actor=actor_of(request))
        return _answer(request, source)


def _context(request: Request) -> dict[str, Any]:
    return {"at": clock.now(), "is_admin": sources.may_set_up(actor_of(request))}


def _answer(request: Request, slug: str, status: int = 200) -> Response:
    source = selectors.get_source(slug=slug, actor=actor_of(request))
    response = Response(SourceSerializer(source, context=_context(request)).data, status=status)
    return with_etag(response, sources.tag_of(source))
